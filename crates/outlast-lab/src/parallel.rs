//! Jobs dealt out to all processors.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::progress::{Listener, Progress};

/// Runs independent jobs, at most `most` at a time and no more than there are processors; each
/// processor takes the next one that none has taken. Results come in the order of the jobs.
///
/// # Errors
/// That of the first job, in their order, that has one. After an error no more are begun.
///
/// # Panics
/// As a job does.
pub fn in_parallel<J: Sync, R: Send, E: Send>(
    jobs: &[J],
    most: usize,
    stage: &str,
    listen: &mut Listener<'_>,
    run: impl Fn(&J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(most).max(1);
    let total = jobs.len() as u64;
    let next = AtomicUsize::new(0);
    let (told, heard) = mpsc::channel();
    listen(Progress::Step { stage, done: 0, total });
    thread::scope(|scope| {
        let work = || {
            let told = told.clone();
            let (next, run) = (&next, &run);
            move || {
                let mut results = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(number) else { return results };
                    let result = run(job);
                    if result.is_err() {
                        next.store(jobs.len(), Ordering::Relaxed);
                    }
                    results.push((number, result));
                    // The receiver is gone where the listener has panicked.
                    let _ = told.send(());
                }
            }
        };
        let running: Vec<_> = (0..workers.min(jobs.len())).map(|_| scope.spawn(work())).collect();
        drop(told);
        for (done, ()) in (1..).zip(heard) {
            listen(Progress::Step { stage, done, total });
        }
        let mut results: Vec<_> = running
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|payload| resume_unwind(payload)))
            .collect();
        results.sort_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs_and_every_end_is_told() {
        let jobs: Vec<u64> = (0..100).collect();
        let told = RefCell::new(Vec::new());
        let mut listen = |progress: Progress<'_>| {
            if let Progress::Step { done, total: 100, .. } = progress {
                told.borrow_mut().push(done);
            }
        };
        let doubled = in_parallel(&jobs, 3, "doubling", &mut listen, |job| Ok::<_, ()>(2 * job));
        assert_eq!(doubled.unwrap(), (0..100).map(|job| 2 * job).collect::<Vec<_>>());
        assert_eq!(*told.borrow(), (0..=100).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_is_returned_and_ends_it() {
        let jobs: Vec<u64> = (0..1000).collect();
        let failed = in_parallel(&jobs, 2, "failing", &mut |_| (), |job| {
            if *job < 10 { Ok(()) } else { Err(*job) }
        });
        assert_eq!(failed, Err(10));
    }

    #[test]
    fn no_jobs_have_no_results() {
        let none = in_parallel(&[(); 0], 2, "nothing", &mut |_| (), |_| Err::<(), _>(()));
        assert_eq!(none, Ok(Vec::new()));
    }
}
