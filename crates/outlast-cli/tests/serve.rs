//! `outlast serve` that is refused: nothing is created, and no byte of a pool changes.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

use common::{command, directory, good, outlast, path, text};

/// A server on a socket, ended when it is dropped.
struct Serving(Child);

impl Serving {
    fn start(pool: &str, socket: &str) -> Self {
        let arguments = ["serve", pool, "--port", "0", "--unix", socket, "--size", "16M"];
        let mut child = command(&arguments).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let errors = child.stderr.take().expect("it is piped");
        BufReader::new(errors).read_line(&mut line).expect("it says where it listens");
        assert!(line.contains("serving"), "{line}");
        Self(child)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pool of a server that was killed: an opening would recover it.
fn killed_pool(pool: &str, socket: &str) {
    let serving = Serving::start(pool, socket);
    let mut stream = UnixStream::connect(socket).unwrap();
    for _ in 0..20 {
        stream.write_all(b"INCR n\r\n").unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer[..1]).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
    }
    drop(serving);
    std::fs::remove_file(socket).unwrap();
}

#[test]
fn what_is_refused_changes_nothing() {
    let folder = directory();
    let (killed, socket) = (path(&folder, "killed"), path(&folder, "socket"));
    killed_pool(&killed, &socket);
    let hash = path(&folder, "hash");
    good(&["pool", "create", &hash, "--size", "16M"]);
    {
        use outlast::collections::ByteMap;
        use outlast::medium::OpenOptions;
        use outlast::{Pool, RootKind, Runner, Transact};
        let pool = Pool::open_with(&hash, &OpenOptions::default(), &Default::default()).unwrap();
        let made = pool.lane().unwrap().run(|tx| {
            let map = ByteMap::create(tx, &Default::default())?;
            tx.set_root(map.root(), RootKind::HashMap)
        });
        made.unwrap();
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port().to_string();
    let new = path(&folder, "new");
    let astray = path(&folder, "no-such-folder/socket");
    let refused: &[&[&str]] = &[
        &["--port", "0"],
        &["--port", &taken],
        &["--port", "0", "--unix", &astray],
        &["--port", "0", "--unix", &socket, "--metrics-port", &taken],
        &["--bind", "0.0.0.0", "--port", "7999"],
        &["--port", "0", "--unix", &socket, "--password-file", &astray],
        &["--port", "0", "--unix", &socket, "--scheme", "no-such-scheme"],
        &["--port", "0", "--unix", &socket, "--scheme", "undo-literal"],
        &["--port", "0", "--unix", &socket, "--size", "64M", "--grow-to", "32M", "--clients", "0"],
        &["--port", "0", "--unix", &socket, "--import", &astray],
        &["--port", "0", "--unix", &socket, "--import", &hash],
    ];
    for pool in [&killed, &hash, &new] {
        let before = std::fs::read(pool).ok();
        for arguments in refused {
            if *pool == new && arguments.contains(&"undo-literal") {
                continue;
            }
            check(pool, arguments, before.as_deref(), &socket);
        }
    }
    let before = std::fs::read(&hash).unwrap();
    check(&hash, &["--port", "0", "--unix", &socket], Some(&before), &socket);
    check(&new, &["--port", "0", "--unix", &socket, "--grow-to", "32M"], None, &socket);
}

/// Such a server is refused, and the pool is as it was before.
fn check(pool: &str, arguments: &[&str], before: Option<&[u8]>, socket: &str) {
    let output = outlast(&[&["serve", pool], arguments].concat());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
    let after = std::fs::read(pool).ok();
    assert!(after.as_deref() == before, "{pool} {arguments:?} has changed the pool: {errors}");
    assert!(!Path::new(socket).exists(), "{arguments:?} leaves its socket");
}
