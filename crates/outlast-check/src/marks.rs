//! Marks of transactions for `outlast check`, from Rust.
//!
//! This file needs the standard library alone: it can be copied into a program, which then depends on
//! nothing of Outlast. A program that is not under the checker writes nothing.
//!
//! ```
//! use outlast_check::marks;
//!
//! marks::issued(1);
//! // … writes and syncs …
//! marks::acked(1);
//! ```

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::sync::OnceLock;

/// The environment variable that holds the number of the descriptor for marks.
pub const VARIABLE: &str = "OUTLAST_MARKS";

/// Says that transaction `number` begins. Transactions count from 1.
pub fn issued(number: u64) {
    mark('I', number);
}

/// Says that transaction `number` is acknowledged: from here on it must survive a loss of power.
pub fn acked(number: u64) {
    mark('A', number);
}

fn mark(letter: char, number: u64) {
    static PIPE: OnceLock<Option<File>> = OnceLock::new();
    if let Some(mut pipe) = PIPE.get_or_init(pipe).as_ref() {
        // One call a line: lines of several threads do not mix. Without a reader there is no checker.
        let _ = pipe.write_all(format!("{letter} {number}\n").as_bytes());
    }
}

/// The checker's pipe. A descriptor of that number that is something else is left alone.
fn pipe() -> Option<File> {
    let number: u32 = std::env::var(VARIABLE).ok()?.parse().ok()?;
    let file = OpenOptions::new().write(true).open(format!("/proc/self/fd/{number}")).ok()?;
    file.metadata().ok()?.file_type().is_fifo().then_some(file)
}
