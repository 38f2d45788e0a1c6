//! Recoveries and oracles that never touch the medium and never end.
//!
//! Limits on operations and on time end a recovery that uses its image: the next operation
//! unwinds. Code that computes for ever without an operation cannot be interrupted, for a thread
//! has no way to end another one. All that is left is to say where it hangs and to end the
//! process, so that an unattended run does not wait for ever. The scheduler watches the program's
//! lanes in its own way.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::memory::verdict::Crash;

/// The exit status of a process whose checked code hangs: that of a panicking test.
const STATUS: i32 = 101;

/// The progress of the checked code, as far as a watching thread can see.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Odd while checked code runs; each call of it adds two.
    calls: AtomicU64,
    level: AtomicU32,
    op: AtomicUsize,
    ended: AtomicBool,
}

impl Watch {
    /// Runs `body`, and ends the process if one call of checked code in it takes longer than
    /// `limit`.
    pub fn over<R>(limit: Duration, body: impl FnOnce(&Self) -> R) -> R {
        struct End<'a>(&'a Watch, std::thread::Thread);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.ended.store(true, Ordering::Release);
                self.1.unpark();
            }
        }
        let watch = Self::default();
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch.look(limit));
            let _end = End(&watch, watcher.thread().clone());
            body(&watch)
        })
    }

    /// Recovery and oracle run on an image of this crash.
    pub fn recovery<R>(&self, crash: &Crash<'_>, body: impl FnOnce() -> R) -> R {
        struct Return<'a>(&'a AtomicU64, u64);
        impl Drop for Return<'_> {
            fn drop(&mut self) {
                self.0.store(self.1, Ordering::Relaxed);
            }
        }
        let before = self.calls.load(Ordering::Relaxed);
        self.level.store(crash.level, Ordering::Relaxed);
        self.op.store(crash.op, Ordering::Relaxed);
        self.calls.store(before + 1, Ordering::Relaxed);
        let _return = Return(&self.calls, before + 2);
        body()
    }

    fn look(&self, limit: Duration) {
        let tick = (limit / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let (mut seen, mut since) = (0, Instant::now());
        while !self.ended.load(Ordering::Acquire) {
            std::thread::park_timeout(tick);
            let calls = self.calls.load(Ordering::Relaxed);
            if calls != seen || calls.is_multiple_of(2) {
                (seen, since) = (calls, Instant::now());
            } else if since.elapsed() > limit {
                self.give_up(limit);
            }
        }
    }

    fn give_up(&self, limit: Duration) -> ! {
        let op = self.op.load(Ordering::Relaxed);
        let what = match self.level.load(Ordering::Relaxed) {
            1 => format!("the recovery or the oracle after a crash before operation {op}"),
            level => format!(
                "the recovery or the oracle after a crash before operation {op} of the recovery \
                 from crash {}",
                level - 1
            ),
        };
        // A test's captured output would be lost with the process.
        let _ = writeln!(
            std::io::stderr().lock(),
            "endless: {what} has run for {limit:?} and cannot be interrupted; this process ends"
        );
        std::process::exit(STATUS);
    }
}
