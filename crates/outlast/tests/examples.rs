//! The README's example of the runtime: it is the file, and it does what it says.
#![cfg(not(miri))]

mod diary {
    include!("../examples/diary.rs");

    #[test]
    fn the_diary_grows_from_run_to_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("diary.pool");
        for entries in 1..=3 {
            assert_eq!(write(&path, 1, Entry { minute: 600, mood: 3 }).unwrap(), entries);
        }
        assert_eq!(write(&path, 2, Entry { minute: 0, mood: -1 }).unwrap(), 1);
        main().unwrap();
    }
}

#[test]
fn the_readme_shows_the_example_whole() {
    let example = include_str!("../examples/diary.rs");
    assert!(include_str!("../../../README.md").contains(&format!("```rust\n{example}```\n")));
}
