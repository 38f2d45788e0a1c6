//! Signals: those that end the process, and the one that a limit on file sizes sends.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use outlast_trace::Scratch;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// From now on a file that grows beyond its limit is an error of the write that did it.
pub fn limit_is_an_error() -> io::Result<()> {
    // Caught is as good as ignored.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// From now on a signal that ends the process first removes the pools and files that were only
/// there for a time. This starts a thread.
pub fn clean_up_at_the_end() -> io::Result<()> {
    clean_up_at(&[SIGINT, SIGTERM, SIGHUP])
}

/// As [`clean_up_at_the_end`], while an interrupt is another program's affair: it ends that, and what
/// is known of it is written.
pub fn clean_up_but_for_interrupts() -> io::Result<()> {
    flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
    clean_up_at(&[SIGTERM, SIGHUP])
}

/// From now on a signal that ends the process calls this instead. It starts a thread.
pub fn stop_at_the_end(stop: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.forever().for_each(|_| stop());
    })?;
    Ok(())
}

fn clean_up_at(ending: &[i32]) -> io::Result<()> {
    let ignored = ignored();
    let ending = ending.iter().copied();
    let mut signals = Signals::new(ending.filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            Scratch::remove_all();
            // The shell is to see which signal it was.
            let _ = low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// The signals that the process was started without, one bit each: `nohup` ignores one, a shell
/// those of what it runs behind its back. They stay so.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
