//! The installed redis-server, to compare with.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Client, folder};

/// A redis-server that is killed when it is dropped.
pub struct Peer {
    process: Child,
    pub folder: tempfile::TempDir,
}

impl Peer {
    /// `None`, with a line that says so, where redis-server is not installed.
    pub fn start() -> Option<Self> {
        let folder = folder();
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--databases", "16"])
            .args(["--enable-debug-command", "yes"])
            .arg("--unixsocket")
            .arg(folder.path().join("redis"))
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn();
        match process {
            Ok(process) => Some(Self { process, folder }),
            Err(_) => {
                println!("redis-server is missing (Debian: redis-server): not compared");
                None
            }
        }
    }

    pub fn client(&self) -> Client {
        connect(&self.folder.path().join("redis"))
    }
}

fn connect(path: &Path) -> Client {
    let began = Instant::now();
    loop {
        match Client::connect(path) {
            Ok(client) => return client,
            Err(error) => {
                assert!(began.elapsed() < Duration::from_secs(20), "no redis-server: {error}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
