//! `outlast serve`: a pool as a server of the Redis protocol.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use outlast::checkpoint::checkpoint_path;
use outlast::inspect::PoolInfo;
use outlast::medium::OpenOptions;
use outlast::{Pool, RootKind, Scheme};
use outlast_pmem::{Domain, MapOptions};
use outlast_redis::{Imported, Options, Server, create_pool, import, verify};

use crate::say::noteln;
use crate::{CommandResult, Verdict, names, signals, size};

/// The environment variable with the clients' password, which a list of processes does not show.
const PASSWORD: &str = "OUTLAST_PASSWORD";

#[derive(Args)]
pub struct ServeArgs {
    /// The pool file; created if there is none.
    pool: PathBuf,
    /// Port to listen on; 0 for none.
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// Address to listen on, several if given again. Others than loopback want a password.
    #[arg(long, default_values_t = [IpAddr::V4(Ipv4Addr::LOCALHOST)])]
    bind: Vec<IpAddr>,
    /// Socket of the file system to listen on.
    #[arg(long)]
    unix: Option<PathBuf>,
    /// File whose first line is the password of clients; else the variable OUTLAST_PASSWORD is, if it
    /// is set.
    #[arg(long)]
    password_file: Option<PathBuf>,
    /// Port of the first address where metrics are fetched from, in Prometheus' format.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    metrics_port: Option<u16>,
    /// Size of a new pool.
    #[arg(long, default_value = "256M", value_parser = size::within(16 << 20, 8 << 40))]
    size: u64,
    /// Size up to which the pool grows while it is served. Writes beyond are refused.
    #[arg(long, default_value = "16G", value_parser = size::within(16 << 20, 8 << 40))]
    grow_to: u64,
    /// How transactions are made durable.
    #[arg(long, value_parser = names::scheme)]
    scheme: Option<Scheme>,
    /// Persistence domain to work in: process, page, adr or eadr; detected if not given.
    #[arg(long)]
    domain: Option<Domain>,
    /// Most clients at a time.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..1_000_000))]
    clients: u32,
    /// RDB file of a redis-server to take over first, into a pool without keys. A file that cannot be
    /// taken over whole changes nothing that is served.
    #[arg(long, value_name = "FILE")]
    import: Option<PathBuf>,
    /// File of SAVE and BGSAVE; beside the pool if not given.
    #[arg(long)]
    checkpoint: Option<PathBuf>,
}

/// Serves until a signal ends it. Everything that can be refused is, before the pool's first byte is
/// written: options, the password, the places to listen on, a pool that holds something else.
pub fn run(args: &ServeArgs) -> CommandResult {
    let password = password(args)?;
    if args.grow_to < args.size && !args.pool.exists() {
        return Err("--grow-to is less than --size".into());
    }
    let open = OpenOptions {
        scheme: args.scheme,
        grow_limit_bytes: args.grow_to,
        ..OpenOptions::default()
    };
    let map = MapOptions { domain: args.domain, max_len: args.grow_to, ..MapOptions::default() };
    let at = |port| args.bind.iter().map(move |address| SocketAddr::new(*address, port));
    let options = Options {
        addresses: if args.port == 0 { Vec::new() } else { at(args.port).collect() },
        unix: args.unix.clone(),
        password,
        metrics: args.metrics_port.and_then(|port| at(port).next()),
        clients_max: args.clients as usize,
        checkpoint: args.checkpoint.clone().unwrap_or_else(|| checkpoint_path(&args.pool)),
        ..Options::default()
    };
    if args.pool.exists() {
        check(args)?;
    }
    if let Some(file) = &args.import {
        verify(file)?;
    }
    let bound = Server::listen(options)?;
    let named = |error: outlast::PoolError| format!("{}: {error}", args.pool.display());
    let pool = match args.pool.exists() {
        true => Pool::open_with(&args.pool, &open, &map).map_err(named)?,
        false => create_pool(&args.pool, args.size, &open, &map).map_err(named)?,
    };
    if let Some(file) = &args.import {
        let done = import(&pool, file)?;
        noteln!("outlast: {}", told(&done, file));
    }
    let pool = Arc::new(pool);
    let mut server = bound.serve(Arc::clone(&pool))?;
    let stopper = server.stopper();
    signals::stop_at_the_end(move || stopper.stop())?;
    let places = server.addresses().into_iter().map(|address| address.to_string());
    let places = places.chain(args.unix.iter().map(|path| path.display().to_string()));
    let places: Vec<String> = places.collect();
    noteln!("outlast: serving {} on {}", args.pool.display(), places.join(", "));
    server.run()?;
    drop(server);
    // A checkpoint may still be made: then the log is recovered at the next opening.
    if let Ok(pool) = Arc::try_unwrap(pool) {
        pool.close();
    }
    Ok(Verdict::Good)
}

/// Refuses a pool whose header says that it cannot be served so: opening it would recover it first.
fn check(args: &ServeArgs) -> Result<(), String> {
    let named = |error: outlast::PoolError| format!("{}: {error}", args.pool.display());
    let info = PoolInfo::peek(&args.pool).map_err(named)?;
    if info.root.is_some_and(|(_, kind)| kind != RootKind::Opaque) {
        return Err(format!(
            "{}: the pool holds something else than a database of `outlast serve`: name a new file, or one that the command made",
            args.pool.display()
        ));
    }
    let geometry = info.header.geometry;
    match args.scheme {
        Some(given) if given.is_published() && !geometry.literal => {
            Err(named(outlast::PoolError::NotLiteral { given }))
        }
        Some(given) if !given.is_published() && geometry.literal => {
            Err(named(outlast::PoolError::Literal { given }))
        }
        Some(given)
            if geometry.checksums
                && !matches!(given, Scheme::UndoArchapt | Scheme::RedoArchapt)
                && !given.is_published() =>
        {
            Err(named(outlast::PoolError::KeepsChecksums { given }))
        }
        _ => Ok(()),
    }
}

/// What an import has done, in a sentence.
fn told(done: &Imported, file: &Path) -> String {
    let mut text = format!("{} keys taken over from {}", done.keys, file.display());
    if done.expired > 0 {
        text.push_str(&format!(", {} expired ones left out", done.expired));
    }
    if done.functions > 0 {
        text.push_str(&format!(", {} libraries of functions left out", done.functions));
    }
    text
}

fn password(args: &ServeArgs) -> Result<Option<String>, String> {
    let Some(path) = &args.password_file else {
        return Ok(std::env::var(PASSWORD).ok().filter(|password| !password.is_empty()));
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{}: {}", path.display(), crate::say::plain(&error)))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(line.to_owned())),
        _ => Err(format!("{}: the first line is to be the password", path.display())),
    }
}
