//! The examples do what they say, and the README's is the file.
#![cfg(not(miri))]

#[path = "../examples/diary.rs"]
#[allow(dead_code)]
mod diary;

#[path = "../examples/requests.rs"]
#[allow(dead_code)]
mod requests;

/// More than eight tasks are more than there are lanes.
#[test]
fn two_hundred_concurrent_requests_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("visits.pool");
    for _ in 0..2 {
        assert_eq!(requests::serve(&path, 200).unwrap(), 200);
    }
    let open = outlast::OpenOptions::default();
    let pool = outlast::FilePool::open(&path, &open, &Default::default()).unwrap();
    let visits = pool.typed(|pool| {
        pool.lane().unwrap().run(|tx| {
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
    for entries in 1..=3 {
        assert_eq!(diary::write(&path, 1, 600, 3).unwrap(), entries);
    }
    assert_eq!(diary::write(&path, 2, 0, -1).unwrap(), 1);
}

#[test]
fn the_readme_shows_the_example_whole() {
    let (_, example) = include_str!("../examples/diary.rs").split_once("\n\n").unwrap();
    assert!(include_str!("../../../README.md").contains(&format!("```rust\n{example}```\n")));
}
