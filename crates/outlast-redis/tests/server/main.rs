//! The server from outside: what clients are answered, what a kill leaves, what a crash leaves.

mod client;
mod commands;
mod connections;
mod crashes;
mod differential;
mod kills;
mod limits;
mod random;
mod scripts;
