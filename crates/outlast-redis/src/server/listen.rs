//! Listeners.

use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use super::options::{Options, ServeError};

pub(super) enum Listener {
    Tcp { listener: TcpListener, is_http: bool },
    Unix { listener: UnixListener, path: std::path::PathBuf },
}

impl Listener {
    /// Where clients of the protocol find it.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { listener, .. } => listener.local_addr().ok(),
            Self::Unix { .. } => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, .. } = self {
            // Another program may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens all listeners; each has the token after its index.
pub(super) fn listen(options: &Options, registry: &Registry) -> Result<Vec<Listener>, ServeError> {
    let has_password = options.password.is_some();
    let open = options.addresses.iter().chain(&options.metrics);
    if let Some(address) = open.clone().find(|address| !address.ip().is_loopback())
        && !has_password
    {
        return Err(ServeError::Unprotected(*address));
    }
    if options.addresses.is_empty() && options.unix.is_none() {
        return Err(ServeError::Nowhere);
    }
    let mut listeners = Vec::new();
    for (address, is_http) in options
        .addresses
        .iter()
        .map(|address| (address, false))
        .chain(options.metrics.iter().map(|address| (address, true)))
    {
        let failed = |error| ServeError::Listen { place: address.to_string(), error };
        let mut listener = TcpListener::bind(*address).map_err(failed)?;
        let token = Token(listeners.len() + 1);
        registry.register(&mut listener, token, Interest::READABLE).map_err(failed)?;
        listeners.push(Listener::Tcp { listener, is_http });
    }
    if let Some(path) = &options.unix {
        let failed = |error| ServeError::Listen { place: path.display().to_string(), error };
        remove_left_over(path);
        let mut listener = UnixListener::bind(path).map_err(failed)?;
        let token = Token(listeners.len() + 1);
        registry.register(&mut listener, token, Interest::READABLE).map_err(failed)?;
        listeners.push(Listener::Unix { listener, path: path.clone() });
    }
    Ok(listeners)
}

/// A socket on which no process listens is what a server left that was killed.
fn remove_left_over(path: &Path) {
    let is_socket = path.symlink_metadata().is_ok_and(|data| data.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        let _ = std::fs::remove_file(path);
    }
}
