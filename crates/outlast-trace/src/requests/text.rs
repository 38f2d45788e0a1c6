//! Lists of lines: DRAMsim3's, Ramulator's and Ramulator 2's.

use std::io::{BufRead, Read};

use super::{MemoryAccess, RequestFormat, Source};

/// Longer lines are no requests.
const LINE_BYTES_MAX: u64 = 1024;

/// The format of a list that begins so.
pub(super) fn format_of(start: &[u8]) -> Option<RequestFormat> {
    let mut lines = start.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let line = std::str::from_utf8(lines.next()?).ok()?;
    RequestFormat::ALL.map(|row| row.0).into_iter().find(|format| parse(*format, line).is_some())
}

/// A line as a request of this format.
fn parse(format: RequestFormat, line: &str) -> Option<MemoryAccess> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let writes = |kind: &str, names: [&[&str]; 2]| {
        let found = names.iter().position(|names| names.contains(&kind));
        found.map(|place| place == 1)
    };
    let (address, writes, time) = match (format, &words[..]) {
        (RequestFormat::Dramsim3, [address, kind, cycle]) => {
            let writes = writes(kind, [&["READ", "P_MEM_RD"], &["WRITE", "P_MEM_WR"]])?;
            (hexadecimal(address)?, writes, Some(cycle.parse().ok()?))
        }
        (RequestFormat::Ramulator, [address, kind]) => {
            (hexadecimal(address)?, writes(kind, [&["R"], &["W"]])?, None)
        }
        (RequestFormat::Ramulator2, [kind, address]) => {
            let at = hexadecimal(address).or_else(|| address.parse().ok())?;
            (at, writes(kind, [&["LD"], &["ST"]])?, None)
        }
        _ => return None,
    };
    Some(MemoryAccess { address, writes, time, ..MemoryAccess::default() })
}

fn hexadecimal(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))?;
    let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digits.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// The line of a request.
pub(super) fn line(format: RequestFormat, request: &MemoryAccess) -> String {
    let MemoryAccess { address, writes, time, .. } = *request;
    let kind = |read, write| if writes { write } else { read };
    match format {
        RequestFormat::Ramulator => format!("{address:#x} {}\n", kind("R", "W")),
        RequestFormat::Ramulator2 => format!("{} {address:#x}\n", kind("LD", "ST")),
        _ => format!("{address:#x} {} {}\n", kind("READ", "WRITE"), time.unwrap_or(0)),
    }
}

/// A list being read.
pub(super) struct Lines {
    format: RequestFormat,
    input: Box<dyn BufRead>,
    number: u64,
    line: String,
}

impl Lines {
    pub(super) fn new(format: RequestFormat, input: Box<dyn BufRead>) -> Self {
        Self { format, input, number: 0, line: String::new() }
    }

    fn form(&self) -> &'static str {
        match self.format {
            RequestFormat::Ramulator => "0xADDRESS R|W",
            RequestFormat::Ramulator2 => "LD|ST 0xADDRESS",
            _ => "0xADDRESS READ|WRITE CYCLE",
        }
    }
}

impl Source for Lines {
    fn next(&mut self) -> Result<Option<MemoryAccess>, String> {
        loop {
            self.line.clear();
            self.number += 1;
            let number = self.number;
            let read = self.input.by_ref().take(LINE_BYTES_MAX).read_line(&mut self.line);
            if read.map_err(|error| format!(":{number}: {error}"))? == 0 {
                return Ok(None);
            }
            if self.line.trim().is_empty() {
                continue;
            }
            let found = parse(self.format, &self.line);
            return found.map(Some).ok_or_else(|| {
                let shown: String = self.line.trim().chars().take(60).collect();
                format!(
                    ":{number}: '{}' is no request: expected {}",
                    shown.escape_debug(),
                    self.form()
                )
            });
        }
    }
}
