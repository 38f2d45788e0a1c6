//! The examples do what they say, also when their process is killed in the middle, and the README's is the file.
#![cfg(not(miri))]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use outlast::Pool;

#[path = "../examples/cache.rs"]
#[allow(dead_code)]
mod cache;
#[path = "../examples/counter.rs"]
#[allow(dead_code)]
mod counter;
#[path = "../examples/diary.rs"]
#[allow(dead_code)]
mod diary;
#[path = "../examples/event_log.rs"]
#[allow(dead_code)]
mod event_log;
#[path = "../examples/job_queue.rs"]
#[allow(dead_code)]
mod job_queue;
#[path = "../examples/requests.rs"]
#[allow(dead_code)]
mod requests;
#[path = "../examples/sessions.rs"]
#[allow(dead_code)]
mod sessions;

#[path = "common/own_program.rs"]
mod own_program;

use own_program::own_program;

const CHILD_POOL: &str = "OUTLAST_EXAMPLES_CHILD_POOL";

/// More than eight tasks are more than there are lanes.
#[test]
fn two_hundred_concurrent_requests_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("visits.pool");
    for _ in 0..2 {
        assert_eq!(requests::serve(&path, 200).unwrap(), 200);
    }
    let pool = Pool::open(&path).unwrap();
    assert_eq!(pool.header().geometry.lanes, 8);
    let visits = pool.typed(|pool| {
        pool.run(|tx| {
            let pages = tx.root::<outlast::typed::PHashMap<'_, u64, u64>>()?.expect("it was made");
            let pages = pages.get(tx)?;
            (0..10).map(|page| Ok(pages.get(tx, &page)?.unwrap_or(0))).sum::<Result<u64, _>>()
        })
    });
    assert_eq!(visits.unwrap(), 400);
}

#[test]
fn the_diary_grows_from_run_to_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("diary.pool");
    for moods in 1..=3 {
        assert_eq!(diary::write(&path, 1, 3).unwrap(), moods);
    }
    assert_eq!(diary::write(&path, 2, -1).unwrap(), 1);
}

#[test]
fn the_readme_shows_the_example_whole_in_25_lines() {
    let (_, example) = include_str!("../examples/diary.rs").split_once("\n\n").unwrap();
    assert!(include_str!("../../../README.md").contains(&format!("```rust\n{example}```\n")));
    assert!(example.lines().count() <= 25);
}

#[test]
fn jobs_are_done_in_their_order_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.pool");
    {
        let pool = Pool::open_or_create(&path).unwrap();
        ["a", "b", "c"].iter().for_each(|job| job_queue::add(&pool, job).unwrap());
        assert_eq!(job_queue::work(&pool).unwrap().as_deref(), Some("a"));
    }
    let pool = Pool::open_or_create(&path).unwrap();
    assert_eq!(job_queue::work(&pool).unwrap().as_deref(), Some("b"));
    assert_eq!(job_queue::work(&pool).unwrap().as_deref(), Some("c"));
    assert_eq!(job_queue::work(&pool).unwrap(), None);
}

#[test]
fn the_index_finds_a_users_events_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::open_or_create(dir.path().join("events.pool")).unwrap();
    let event = |user, at_seconds| event_log::Event { at_seconds, user, kind: 1 };
    for (user, at_seconds) in [(7, 10), (8, 11), (7, 12)] {
        event_log::append(&pool, event(user, at_seconds)).unwrap();
    }
    assert_eq!(event_log::of_user(&pool, 7).unwrap(), [event(7, 10), event(7, 12)]);
    assert_eq!(event_log::of_user(&pool, 9).unwrap(), []);
}

#[test]
fn a_session_ends_when_it_is_idle() {
    use sessions::{SessionError, log_in, user_of};
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::open_or_create(dir.path().join("sessions.pool")).unwrap();
    let token = b"sixteen letters!";
    assert!(matches!(user_of(&pool, token, 0), Err(SessionError::Unknown)));
    log_in(&pool, token, 7, 1000).unwrap();
    assert_eq!(user_of(&pool, token, 2000).unwrap(), 7);
    assert_eq!(user_of(&pool, token, 3799).unwrap(), 7, "the request at 2000 has prolonged it");
    assert!(matches!(user_of(&pool, token, 9000), Err(SessionError::Expired)));
}

#[test]
fn the_cache_forgets_what_has_expired_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::open_or_create(dir.path().join("cache.pool")).unwrap();
    cache::put(&pool, 1, "one", 1000).unwrap();
    cache::put(&pool, 2, "two", 2000).unwrap();
    cache::put(&pool, 1, "once more", 3000).unwrap();
    assert_eq!(cache::get(&pool, 2, 2000).unwrap(), None);
    assert_eq!(cache::sweep(&pool, 2500).unwrap(), 1);
    assert_eq!(cache::get(&pool, 1, 2500).unwrap().as_deref(), Some("once more"));
    assert_eq!(cache::sweep(&pool, 3000).unwrap(), 1);
    assert_eq!(cache::sweep(&pool, 3000).unwrap(), 0);
}

#[test]
fn threads_count_without_losing_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counter.pool");
    for round in 1..=2 {
        let pool = Pool::open_or_create(&path).unwrap();
        assert_eq!(counter::count(&pool, 4, 50).unwrap(), round * 200);
    }
}

/// The names at the root of the crate, without the feature `lab`: types, functions and modules.
#[test]
fn the_root_has_at_most_thirty_names() {
    let mut items = include_str!("../src/lib.rs").split(";\n").collect::<Vec<_>>();
    items.retain(|item| !item.contains("#[cfg(feature = \"lab\")]"));
    let names = items.iter().flat_map(|item| match item.rsplit_once("pub ") {
        Some((_, item)) if item.starts_with("mod ") => vec![&item[4..]],
        Some((_, item)) if item.starts_with("use ") => {
            let (_, names) = item.rsplit_once("::").expect("it comes from a module");
            names
                .trim_matches(['{', '}'])
                .split(',')
                .map(str::trim)
                .filter(|n| !n.is_empty())
                .collect()
        }
        _ => Vec::new(),
    });
    let names: Vec<_> = names.collect();
    assert!(names.contains(&"Pool") && names.contains(&"typed") && !names.contains(&"lab"));
    assert!(names.len() <= 30, "{} names: {names:?}", names.len());
    println!("{} names: {names:?}", names.len());
}

/// Works on a pool until it is killed, and prints each result. Only runs as the child of the tests below.
#[test]
#[ignore = "a child of the tests of killed examples"]
fn child_of_killed_examples() {
    let Ok(path) = std::env::var(CHILD_POOL) else { return };
    let pool = Pool::open_or_create(&path).unwrap();
    let mut out = std::io::stdout();
    if path.ends_with("counter.pool") {
        loop {
            writeln!(out, "acknowledged {}", counter::count(&pool, 2, 1).unwrap()).unwrap();
        }
    }
    for number in 0u64.. {
        job_queue::add(&pool, &number.to_string()).unwrap();
        if number % 2 == 1 {
            let job = job_queue::work(&pool).unwrap().unwrap();
            writeln!(out, "acknowledged {job}").unwrap();
        }
    }
}

/// Runs the child on a pool and kills it behind that many lines. Returns the number in the last line.
fn killed_behind(path: &Path, lines: usize) -> u64 {
    let mut child = own_program()
        .args(["child_of_killed_examples", "--exact", "--ignored", "--nocapture"])
        .env(CHILD_POOL, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let numbers = told.filter_map(|line| {
        line.split_once("acknowledged ").and_then(|(_, number)| number.parse().ok())
    });
    let last = numbers.take(lines).last();
    child.kill().unwrap();
    child.wait().unwrap();
    last.expect("the child has done something")
}

#[test]
fn a_killed_counter_goes_on_from_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counter.pool");
    let mut least = 0;
    for lines in [1, 20, 57] {
        least = killed_behind(&path, lines).max(least + 2);
    }
    let pool = Pool::open_or_create(&path).unwrap();
    assert!(counter::count(&pool, 1, 1).unwrap() > least);
}

#[test]
fn jobs_of_a_killed_worker_are_waiting_or_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.pool");
    let done = killed_behind(&path, 40);
    let pool = Pool::open_or_create(&path).unwrap();
    let next = job_queue::work(&pool).unwrap().expect("half of the jobs were waiting");
    let next: u64 = next.parse().unwrap();
    // The child may have done more jobs before it was killed than it was heard to.
    assert!(next > done, "{next} was done again behind {done}");
    let mut expected = next + 1;
    while let Some(job) = job_queue::work(&pool).unwrap() {
        assert_eq!(job.parse::<u64>().unwrap(), expected, "no job is left out");
        expected += 1;
    }
    assert!(expected > 2 * done);
}
