//! The README's program with a bug: the bug is found and named, as the README shows it.

use outlast_check::memory::Class;
use outlast_trace::LineAddr;

#[path = "../examples/publish.rs"]
#[allow(dead_code)]
mod publish;

const README: &str = include_str!("../../../README.md");

#[test]
fn the_missing_fence_is_found() {
    let report = publish::check();
    assert_eq!(report.findings[0].class, Class::MissingFence);
    assert_eq!(report.findings[0].place.line, Some(LineAddr(1)));
    assert_eq!(report.failures().count(), 1);
}

#[test]
fn the_readme_shows_the_function_as_it_is() {
    let example = include_str!("../examples/publish.rs");
    let mut blocks = README.split("```rust\n").filter_map(|rest| rest.split("```").next());
    let shown = blocks.find(|block| block.starts_with("/// The program under test"));
    let shown = shown.expect("a block of code");
    assert!(example.contains(shown), "{shown}");
}

#[test]
fn the_readme_shows_what_is_found() {
    // Included here, the file has another path than where it is an example.
    let finding = publish::check().findings[0].to_string().replace("tests/../", "");
    assert!(README.contains(&finding), "{finding}");
}

#[test]
fn the_readme_is_short() {
    assert!(README.lines().count() <= 150);
}
