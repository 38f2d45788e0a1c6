//! Runs that are told to end, or killed, while their pools exist.
#![cfg(target_os = "linux")]

mod common;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{command, directory, good, text};

/// The names in a directory.
fn names(directory: &str) -> HashSet<OsString> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// A benchmark that goes on until it is stopped, with its pools in this directory.
fn started(directory: &str) -> Child {
    let before = names(directory);
    let forever = ["bench", "words", "--scheme", "undo", "--rounds", "10000", "--turn-ms", "60000"];
    let mut child = command(&[&forever[..], &["--records", "4096", "--dir", directory]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program was built");
    while names(directory).is_subset(&before) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.expect("there is a kill").success());
}

/// Whether this process ignores a signal, and with it all that it starts.
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (number - 1) & 1 == 1
}

#[test]
fn a_run_that_is_told_to_end_leaves_nothing() {
    let directory = directory();
    let dir = directory.path().to_str().unwrap();
    // What the caller ignores stays ignored, as for a job in the background.
    let signals = [("-INT", 2), ("-TERM", 15), ("-HUP", 1)].into_iter();
    for (signal, number) in signals.filter(|(_, number)| !is_ignored(*number)) {
        // Right after its directory exists, and later, when its pools are in use.
        for wait_ms in [0, 300] {
            let mut child = started(dir);
            std::thread::sleep(Duration::from_millis(wait_ms));
            send(signal, &child);
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(number), "{signal} after {wait_ms} ms");
            // Between the making of a directory and its registration lie microseconds; what a
            // signal leaves there the next run sweeps.
            assert!(names(dir).is_empty() || wait_ms == 0, "{signal} after {wait_ms} ms");
        }
    }
}

#[test]
fn what_a_killed_run_left_is_swept_by_the_next() {
    let directory = directory();
    let dir = directory.path().to_str().unwrap();
    let mut living = started(dir);
    let mut killed = started(dir);
    send("-KILL", &killed);
    killed.wait().unwrap();
    assert_eq!(names(dir).len(), 2, "it could not clean up");
    let tiny = ["--rounds", "1", "--turn-ms", "1", "--records", "64", "--dir", dir];
    good(&[&["bench", "words", "--scheme", "undo"], &tiny[..]].concat());
    assert_eq!(names(dir).len(), 1, "the living one's is left");
    send("-TERM", &living);
    living.wait().unwrap();
    assert!(names(dir).is_empty());
}

/// What the shell ignores for what it runs in the background stays ignored.
#[test]
fn a_signal_that_was_ignored_stays_so() {
    let script = "trap '' INT; \"$0\" schemes >/dev/null; \"$0\" sim friendly --warm-up 0 \
                  --instructions 3000000 >/dev/null & sleep 0.05; kill -INT $!; wait $!; echo $?";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_outlast")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout).trim(), "0", "{}", text(&output.stderr));
}

/// What a server said that listens on a socket of the file system.
fn ask(socket: &std::path::Path, question: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = loop {
        match std::os::unix::net::UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    stream.write_all(format!("{question}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_serves_what_was_acknowledged_however_it_ended() {
    let directory = directory();
    let pool = directory.path().join("data.pool");
    let socket = directory.path().join("socket");
    let arguments =
        ["serve", pool.to_str().unwrap(), "--port", "0", "--unix", socket.to_str().unwrap()];
    let mut expected = String::from("$-1\r\n+OK\r\n");
    for (signal, value) in [("-KILL", "one"), ("-TERM", "two"), ("-KILL", "three")] {
        let mut child =
            command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert_eq!(ask(&socket, "GET key"), expected);
        assert_eq!(ask(&socket, &format!("SET key {value}")), "+OK\r\n+OK\r\n");
        send(signal, &child);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), (signal == "-TERM").then_some(0));
        expected = format!("${}\r\n{value}\r\n+OK\r\n", value.len());
    }
    good(&["pool", "check", pool.to_str().unwrap()]);
    // Others than loopback want a password.
    let open = [&arguments[..3], &["7", "--bind", "0.0.0.0"]].concat();
    let said = common::refused(&open);
    assert!(said.contains("set a password"), "{said}");
    let text = directory.path().join("text");
    fs::write(&text, "no pool").unwrap();
    let said = common::refused(&["serve", text.to_str().unwrap()]);
    assert!(said.contains("not an Outlast pool"), "{said}");
}
