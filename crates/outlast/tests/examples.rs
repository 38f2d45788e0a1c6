//! The README's example of the runtime: it is the file, and it does what it says.
#![cfg(not(miri))]

#[path = "../examples/diary.rs"]
#[allow(dead_code)]
mod diary;

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
