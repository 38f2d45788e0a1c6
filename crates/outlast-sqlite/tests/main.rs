//! The extension under stock clients.
#![cfg(all(unix, not(miri)))]

#[path = "main/attached.rs"]
mod attached;
#[path = "main/common.rs"]
mod common;
#[path = "main/connections.rs"]
mod connections;
#[path = "main/killed.rs"]
mod killed;
#[path = "main/shell.rs"]
mod shell;
