//! A server that speaks the Redis protocol, and whose data is a pool of Outlast.
//!
//! - [`Server`] listens, runs what clients send, and answers when it is durable. [`Options`] say where and
//!   for whom, [`Stopper`] ends it.
//! - [`Engine`] runs commands of data in transactions of any runtime: what a checker crashes and
//!   what measurements drive is the code that the server runs; [`mod@bench`] is such a measurement,
//!   [`beside`] one of whole servers.
//! - [`WALKER`] follows such a pool's root for `outlast pool check`.
//! - [`import`] takes over a file that a redis-server has saved.
//!
//! Why so: the pool *is* the database. A command changes it in a transaction, so there is no log to
//! replay and no file to load: a restart is the pool's recovery, and the first command is answered after it.
//! One thread runs everything, as in Redis, so its lane is alone and takes no locks; the commands that
//! one round of the event loop finds share a transaction and its fence. Indexes live in the pool; what lives
//! in memory concerns connections only.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use std::sync::Arc;
//!
//! use outlast::Pool;
//! use outlast_redis::{Options, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("pool");
//! let pool = Pool::create(&path)?;
//! let options = Options { addresses: vec!["127.0.0.1:0".parse()?], ..Options::default() };
//! let mut server = Server::bind(Arc::new(pool), options)?;
//! let (address, stopper) = (server.addresses()[0], server.stopper());
//! let thread = std::thread::spawn(move || server.run());
//!
//! let mut client = TcpStream::connect(address)?;
//! client.write_all(b"SET key value\r\nGET key\r\nQUIT\r\n")?;
//! let mut answers = String::new();
//! client.read_to_string(&mut answers)?;
//! assert_eq!(answers, "+OK\r\n$5\r\nvalue\r\n+OK\r\n");
//! stopper.stop();
//! thread.join().expect("the server does not panic")?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod bench;
pub mod beside;
mod commands;
mod create;
mod engine;
mod glob;
mod number;
mod rdb;
mod resp;
mod script;
mod server;
mod store;

pub use create::create_pool;
pub use engine::Engine;
#[cfg(fuzzing)]
pub use engine::requests;
pub use rdb::{ImportError, Imported, RdbError, import, verify};
pub use server::{Bound, Options, ServeError, Server, Stopper};
pub use store::{DATABASES, WALKER};
