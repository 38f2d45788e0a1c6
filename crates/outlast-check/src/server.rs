//! A check that stays: it is asked a line, and answers one.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bounds::{self, Bounds};
use crate::sys;

/// A process that stays.
pub struct Server {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Bytes that it has said and nothing has taken yet.
    said: Vec<u8>,
    asked: Instant,
}

/// An answer, or the reason for none.
pub enum Answer {
    /// A line.
    Line(String),
    /// The check does more than it may: what.
    Overdone(String),
    /// Its time is over.
    Late,
    /// The process has ended.
    Ended(ExitStatus),
}

impl Drop for Server {
    fn drop(&mut self) {
        sys::kill_group(self.child.id() as i32);
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one, the leader of its group.
    ///
    /// # Errors
    /// Those of starting it.
    pub fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Self { child, input, output, said: Vec::new(), asked: Instant::now() })
            }
            _ => Err(io::Error::other("the server has no pipes")),
        }
    }

    /// Sends it a line. If it does not read any more, its answer tells.
    pub fn ask(&mut self, line: &str) {
        self.asked = Instant::now();
        let _ = self.input.write_all(line.as_bytes());
    }

    /// Its answer, which comes within `time` from when it was asked.
    ///
    /// # Errors
    /// Those of waiting.
    pub fn answer(&mut self, time: Duration, mut bounds: Bounds<'_>) -> io::Result<Answer> {
        loop {
            if let Some(end) = self.said.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.said.drain(..=end).collect();
                return Ok(Answer::Line(String::from_utf8_lossy(&line).into_owned()));
            }
            if self.said.len() as u64 >= bounds::LINE_MAX {
                let most = bounds::LINE_MAX >> 10;
                return Ok(Answer::Overdone(format!(
                    "the check's answer has more than {most} KiB"
                )));
            }
            let left = time.saturating_sub(self.asked.elapsed());
            if sys::is_readable(self.output.as_fd(), left.min(bounds.patience()))? {
                let mut part = [0; 4096];
                match self.output.read(&mut part)? {
                    0 => return self.end(time),
                    count => self.said.extend_from_slice(&part[..count]),
                }
            } else if self.asked.elapsed() >= time {
                return Ok(Answer::Late);
            } else if let Some(excess) = bounds.excess(None)? {
                return Ok(Answer::Overdone(excess));
            }
        }
    }

    /// It answers no more: how it ends, within its time.
    fn end(&mut self, time: Duration) -> io::Result<Answer> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Answer::Ended(status));
            }
            if self.asked.elapsed() >= time {
                return Ok(Answer::Late);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
