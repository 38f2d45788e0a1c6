//! The server from outside: what clients are answered, what a kill leaves, what a crash leaves.

mod client;
mod commands;
mod connections;
mod crashes;
mod differential;
mod kills;
mod libraries;
mod limits;
mod moving;
mod notices;
mod peer;
mod scripts;
mod streams;
mod walked;
