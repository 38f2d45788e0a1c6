//! A server that speaks the Redis protocol, and whose data is a pool of Outlast.
#![forbid(unsafe_code)]

mod commands;
mod glob;
mod number;
mod random;
mod resp;
mod server;
mod store;

pub use server::{Options, ServeError, Server, Stopper};
