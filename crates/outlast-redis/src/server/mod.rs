//! The server: one thread, one lane of the pool, one event loop.
//!
//! A round of the loop reads what has arrived, runs the commands of data that it finds in
//! transactions of up to some dozens of them, whatever clients they come from, and writes the
//! replies only then: after the commit that makes durable what they speak of. So the clients of a
//! round share a fence.
//!
//! A transaction that cannot commit (the pool is full, say) has no effect: the commands are run again,
//! each alone, so that only those get an error which cannot be done.

mod ahead;
mod blocked;
mod client;
mod clients;
mod config;
mod describe;
mod failed;
mod group;
mod info;
mod io;
mod latency;
mod listen;
mod notify;
mod options;
mod pause;
mod pubsub;
mod scripts;
mod session;
mod state;
mod streams;
mod ticks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::{Events, Poll, Token, Waker};
use outlast::{Abort, Pool, Runner};

pub use options::{Options, ServeError};

use crate::store::Root;
pub(crate) use group::run_data;
pub(crate) use info::VERSION;
use listen::Listener;
use state::State;

const WAKER: Token = Token(0);
/// Tokens below are of listeners.
const CLIENTS_FROM: usize = 64;
/// Events of one round.
const EVENTS: usize = 1024;

/// Ends a server from another thread, or a signal's.
#[derive(Clone)]
pub struct Stopper {
    is_asked: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Asks the server to end its round and return.
    pub fn stop(&self) {
        self.is_asked.store(true, Ordering::Release);
        // A server that is gone needs no waking.
        let _ = self.waker.wake();
    }
}

/// Places to listen on that are bound, before there is a pool to serve: a server that cannot listen must
/// not create, recover or otherwise touch one.
pub struct Bound {
    poll: Poll,
    listeners: Vec<Listener>,
    options: Options,
}

impl Bound {
    /// Serves this pool. Clients that have connected meanwhile are answered once the server runs.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn serve(self, pool: Arc<Pool>) -> Result<Server, ServeError> {
        let Self { poll, listeners, options } = self;
        let root = pool.lane()?.run(|tx| Root::open_whole(tx))?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let stopper = Stopper { is_asked: Arc::default(), waker };
        let registry = poll.registry().try_clone()?;
        let state = State::new(Arc::clone(&pool), registry, root, options);
        Ok(Server { pool, poll, listeners, stopper, state })
    }
}

/// A server that listens.
pub struct Server {
    pool: Arc<Pool>,
    poll: Poll,
    listeners: Vec<Listener>,
    stopper: Stopper,
    state: State,
}

impl Server {
    /// Listens where the options say. Nothing is served before [`run`](Self::run).
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn bind(pool: Arc<Pool>, options: Options) -> Result<Self, ServeError> {
        Self::listen(options)?.serve(pool)
    }

    /// Checks the options and listens, without a pool.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn listen(options: Options) -> Result<Bound, ServeError> {
        let poll = Poll::new()?;
        let listeners = listen::listen(&options, poll.registry())?;
        Ok(Bound { poll, listeners, options })
    }

    /// The addresses that it listens on, with the ports that the system has chosen.
    pub fn addresses(&self) -> Vec<std::net::SocketAddr> {
        self.listeners.iter().filter_map(Listener::address).collect()
    }

    /// A handle that ends it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped. What was acknowledged is durable whenever it ends.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn run(&mut self) -> Result<(), ServeError> {
        let pool = Arc::clone(&self.pool);
        let mut lane = pool.lane()?;
        let mut events = Events::with_capacity(EVENTS);
        loop {
            if self.stopper.is_asked.load(Ordering::Acquire) || self.state.is_asked_to_end {
                self.state.flush_replies();
                return Ok(());
            }
            let timeout = self.state.timeout();
            match self.poll.poll(&mut events, Some(timeout)) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            self.state.read_clock();
            let (began, commands) = (std::time::Instant::now(), self.state.counts.commands);
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(token) if token < CLIENTS_FROM => {
                        if let Some(listener) = self.listeners.get(token - 1) {
                            self.state.accept(listener);
                        }
                    }
                    Token(token) => {
                        let slot = token - CLIENTS_FROM;
                        let is_readable = event.is_readable() || event.is_read_closed();
                        if event.is_read_closed() {
                            self.state.will_end(slot);
                        }
                        self.state.ready(slot, is_readable, event.is_writable());
                    }
                }
            }
            self.state.read_all();
            self.state.run_all(&mut lane)?;
            self.state.tick(&mut lane)?;
            // Replies leave behind the sync of all that they speak of.
            if !self.state.has_failed {
                match lane.sync() {
                    Err(abort @ Abort::Medium(_)) => self.state.withdraw_round(&abort),
                    synced => synced?,
                }
            }
            self.state.flush_replies();
            let ran = self.state.counts.commands.saturating_sub(commands);
            self.state.latency.record(began.elapsed(), ran);
        }
    }
}
