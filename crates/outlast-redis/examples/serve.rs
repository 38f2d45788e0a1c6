//! A server of a pool, without the command line's weight: for benchmarks.
//!
//! `serve POOL PORT BYTES [SCHEME]`

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use outlast::{CreateOptions, FilePool, MapOptions, OpenOptions};
use outlast_redis::{Options, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, path, port, bytes, rest @ ..] = words.as_slice() else {
        return Err("serve POOL PORT BYTES [SCHEME]".into());
    };
    let scheme = rest.first().map(|name| name.parse()).transpose()?;
    let open = OpenOptions { scheme, grow_limit_bytes: 16 << 30, ..OpenOptions::default() };
    let map = MapOptions::default();
    let pool = match std::path::Path::new(path).exists() {
        true => FilePool::open(path, &open, &map)?,
        false => FilePool::create(path, bytes.parse()?, &CreateOptions::default(), &open, &map)?,
    };
    let options = Options {
        addresses: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?))],
        checkpoint: outlast::checkpoint_path(path),
        ..Options::default()
    };
    Server::bind(Arc::new(pool), options)?.run()?;
    Ok(())
}
