//! The extension under stock clients.
#![cfg(all(unix, not(miri)))]

#[path = "main/common.rs"]
mod common;
#[path = "main/killed.rs"]
mod killed;
#[path = "main/shell.rs"]
mod shell;
