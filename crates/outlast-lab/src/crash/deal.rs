//! Work that needs no quiet machine, dealt out to all processors from one queue.

use std::panic;
use std::thread;

use super::CrashError;
use crate::parallel::weighed;
use crate::progress::Listener;

/// One piece of work for one processor.
pub(crate) trait Work: Sync {
    /// What comes of it.
    type Result: Send;

    /// Its name in an error.
    fn name(&self) -> String;

    /// The milliseconds that it is expected to take.
    fn expected_ms(&self) -> u64;

    /// Does it.
    fn run(&self) -> Result<Self::Result, CrashError>;
}

/// Has every processor do work until none is left. Results come in the order of the work given.
pub(crate) fn deal<W: Work>(
    stage: &str,
    all: &[W],
    listen: &mut Listener<'_>,
) -> Result<Vec<W::Result>, CrashError> {
    weighed(all, W::expected_ms, usize::MAX, stage, listen, |work| {
        panic::catch_unwind(panic::AssertUnwindSafe(|| work.run()))
            .unwrap_or_else(|_| Err(CrashError::Panicked(work.name())))
    })
}

/// No panic prints anything while this lives.
pub(super) struct Silence {
    before: Option<Hook>,
}

type Hook = Box<dyn Fn(&panic::PanicHookInfo<'_>) + Sync + Send + 'static>;

impl Silence {
    pub fn new() -> Self {
        let before = panic::take_hook();
        panic::set_hook(Box::new(|_| ()));
        Self { before: Some(before) }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A hook cannot be set while unwinding; then the process has other troubles.
        if let Some(before) = self.before.take().filter(|_| !thread::panicking()) {
            panic::set_hook(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::progress::Progress;

    /// Takes that many milliseconds, it says; on the last one it panics where that is asked for.
    struct Number<'m> {
        ms: u64,
        begun: &'m Mutex<Vec<u64>>,
        panics: bool,
    }

    impl Work for Number<'_> {
        type Result = u64;

        fn name(&self) -> String {
            self.ms.to_string()
        }

        fn expected_ms(&self) -> u64 {
            self.ms
        }

        fn run(&self) -> Result<u64, CrashError> {
            self.begun.lock().unwrap().push(self.ms);
            assert!(!self.panics, "number {}", self.ms);
            Ok(2 * self.ms)
        }
    }

    #[test]
    fn the_longest_is_begun_first_and_results_come_in_the_order_given() {
        let begun = Mutex::new(Vec::new());
        let all: Vec<_> = (1..=50).map(|ms| Number { ms, begun: &begun, panics: false }).collect();
        let mut told = Vec::new();
        let mut listen = |progress: Progress<'_>| {
            if let Progress::Step { done, total, .. } = progress {
                told.push((done, total));
            }
        };
        let doubled = deal("double", &all, &mut listen).unwrap();
        assert_eq!(doubled, (1..=50).map(|ms| 2 * ms).collect::<Vec<_>>());
        let all_ms = (1..=50).sum::<u64>();
        assert_eq!(told.last(), Some(&(all_ms, all_ms)), "the share that is done is of the time");
        let first = begun.lock().unwrap()[0];
        let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
        assert!(first + threads > 50, "{first} was begun first");
    }

    #[test]
    fn a_panic_is_an_error_with_the_name_of_the_work() {
        let begun = Mutex::new(Vec::new());
        let silence = Silence::new();
        let result = deal("panic", &[Number { ms: 7, begun: &begun, panics: true }], &mut |_| ());
        drop(silence);
        assert_eq!(result.unwrap_err().to_string(), "7: the checker panicked");
    }
}
