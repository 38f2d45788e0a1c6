//! Wall time and the CPU time of this whole process.

use std::time::{Duration, Instant};

/// What passed between two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Elapsed {
    /// On the wall.
    pub wall: Duration,
    /// On all CPUs, in all threads of this process, in user mode and in the kernel; `None`
    /// where the system does not tell.
    pub cpu: Option<Duration>,
}

/// A running measurement.
#[derive(Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::new_without_default, reason = "a stopwatch starts when it is made")]
    pub fn new() -> Self {
        // Wall time is read innermost, so that reading the CPU clock does not count in it.
        let cpu = process_cpu_time();
        Self { wall: Instant::now(), cpu }
    }

    /// What passed since the start.
    pub fn elapsed(&self) -> Elapsed {
        let wall = self.wall.elapsed();
        let cpu = process_cpu_time().zip(self.cpu).map(|(now, then)| now.saturating_sub(then));
        Elapsed { wall, cpu }
    }
}

/// The CPU time of the calling thread alone.
#[derive(Debug)]
pub struct ThreadStopwatch {
    start: Option<Duration>,
}

impl ThreadStopwatch {
    /// Starts now.
    #[expect(clippy::new_without_default, reason = "a stopwatch starts when it is made")]
    pub fn new() -> Self {
        Self { start: thread_cpu_time() }
    }

    /// What this thread has computed since the start; `None` where the system does not tell.
    /// Means nothing on another thread than the one that started it.
    pub fn elapsed(&self) -> Option<Duration> {
        thread_cpu_time().zip(self.start).map(|(now, then)| now.saturating_sub(then))
    }
}

#[cfg(unix)]
fn process_cpu_time() -> Option<Duration> {
    clock(rustix::time::ClockId::ProcessCPUTime)
}

#[cfg(unix)]
fn thread_cpu_time() -> Option<Duration> {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

#[cfg(unix)]
fn clock(id: rustix::time::ClockId) -> Option<Duration> {
    let time = rustix::time::clock_gettime(id);
    Some(Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?))
}

#[cfg(not(unix))]
fn process_cpu_time() -> Option<Duration> {
    None
}

#[cfg(not(unix))]
fn thread_cpu_time() -> Option<Duration> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn work_in_another_thread_counts_as_cpu_time_and_sleep_does_not() {
        let busy = Stopwatch::new();
        std::thread::spawn(|| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(50) {
                std::hint::spin_loop();
            }
        })
        .join()
        .unwrap();
        let busy = busy.elapsed();
        assert!(busy.cpu.unwrap() > Duration::ZERO);
        assert!(busy.wall >= Duration::from_millis(50));
    }
}
