//! The extension under stock clients.
#![cfg(all(unix, not(miri)))]

#[path = "main/attached.rs"]
mod attached;
#[path = "main/benched.rs"]
mod benched;
#[cfg(feature = "rusqlite")]
#[path = "main/bundled.rs"]
mod bundled;
#[path = "main/common.rs"]
mod common;
#[path = "main/connections.rs"]
mod connections;
#[path = "main/crashed.rs"]
mod crashed;
#[path = "main/errors.rs"]
mod errors;
#[path = "main/killed.rs"]
mod killed;
#[path = "main/large.rs"]
mod large;
#[path = "main/plain.rs"]
mod plain;
#[path = "main/shell.rs"]
mod shell;
#[path = "main/volatile.rs"]
mod volatile;
#[path = "main/walked.rs"]
mod walked;
