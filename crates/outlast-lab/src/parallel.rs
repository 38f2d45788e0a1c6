//! Jobs dealt out to all processors.

use std::cmp::Reverse;
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
    weighed(jobs, |_| 1, most, stage, listen, run)
}

/// As [`in_parallel`], for jobs that take unlike times: the heaviest begin first, so that none is left for one
/// processor at the end, and steps are the weights of those that are done.
///
/// # Errors
/// As [`in_parallel`].
///
/// # Panics
/// As a job does.
pub fn weighed<J: Sync, R: Send, E: Send>(
    jobs: &[J],
    weight: impl Fn(&J) -> u64 + Sync,
    most: usize,
    stage: &str,
    listen: &mut Listener<'_>,
    run: impl Fn(&J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    told_each(jobs, weight, most, stage, listen, run, |_, _, _| ())
}

/// As [`weighed`]; `hear` is told of each job that is done without an error.
///
/// # Errors
/// As [`in_parallel`].
///
/// # Panics
/// As a job does.
pub fn told_each<J: Sync, R: Send, E: Send>(
    jobs: &[J],
    weight: impl Fn(&J) -> u64 + Sync,
    most: usize,
    stage: &str,
    listen: &mut Listener<'_>,
    run: impl Fn(&J) -> Result<R, E> + Sync,
    mut hear: impl FnMut(&J, &R, &mut Listener<'_>),
) -> Result<Vec<R>, E> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(most).max(1);
    let total = jobs.iter().map(&weight).sum();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|number| Reverse(weight(&jobs[*number])));
    let next = AtomicUsize::new(0);
    let (told, heard) = mpsc::channel();
    listen(Progress::Step { stage, done: 0, total });
    thread::scope(|scope| {
        let work = || {
            let told = told.clone();
            let (next, order, run) = (&next, &order, &run);
            move || {
                while let Some(&number) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run(&jobs[number]);
                    if result.is_err() {
                        next.store(jobs.len(), Ordering::Relaxed);
                    }
                    // The receiver is gone where the listener has panicked.
                    let _ = told.send((number, result));
                }
            }
        };
        let running: Vec<_> = (0..workers.min(jobs.len())).map(|_| scope.spawn(work())).collect();
        drop(told);
        let mut done = 0;
        let mut results = Vec::new();
        for (number, result) in heard {
            done += weight(&jobs[number]);
            listen(Progress::Step { stage, done, total });
            if let Ok(result) = &result {
                hear(&jobs[number], result, listen);
            }
            results.push((number, result));
        }
        for worker in running {
            worker.join().unwrap_or_else(|payload| resume_unwind(payload));
        }
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
        told.borrow_mut().clear();
        let heavy =
            weighed(&[10, 20, 70], |job| *job, 1, "weighed", &mut listen, |_| Ok::<_, ()>(()));
        assert_eq!((heavy, told.into_inner()), (Ok(vec![(); 3]), vec![0, 70, 90, 100]));
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
