//! The installed redis-server, to compare with.

use std::process::{Command, Stdio};

use outlast_crash::front::Process;

use crate::client::{Client, folder};

/// A redis-server that is killed when it is dropped.
pub struct Peer {
    _process: Process,
    pub folder: tempfile::TempDir,
}

impl Peer {
    /// `None`, with a line that says so, where redis-server is not installed.
    pub fn start() -> Option<Self> {
        let folder = folder();
        let mut command = Command::new("redis-server");
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--databases", "16"])
            .args(["--enable-debug-command", "yes"])
            .arg("--unixsocket")
            .arg(folder.path().join("redis"))
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null());
        match Process::start(&mut command) {
            Ok(process) => Some(Self { _process: process, folder }),
            Err(_) => {
                println!("redis-server is missing (Debian: redis-server): not compared");
                None
            }
        }
    }

    pub fn client(&self) -> Client {
        Client::wait_for(&self.folder.path().join("redis"))
    }
}
