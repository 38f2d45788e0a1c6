//! The README's program with a bug: the bug is found and named, as the README shows it.

mod publish {
    include!("../examples/publish.rs");

    const README: &str = include_str!("../../../README.md");

    #[test]
    fn the_missing_fence_is_found() {
        let report = check();
        assert_eq!(report.findings[0].class, outlast_crash::Class::MissingFence);
        assert_eq!(report.findings[0].place.line, Some(VALUE.line()));
        assert_eq!(report.failures().count(), 1);
        main();
    }

    #[test]
    fn the_readme_shows_the_function_as_it_is() {
        let example = include_str!("../examples/publish.rs");
        let shown = README.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
        let shown = shown.expect("a block of code");
        assert!(shown.starts_with("/// The program under test"), "{shown}");
        assert!(example.contains(shown), "{shown}");
    }

    /// Where the paths of source files differ from build to build, the line is left out.
    #[test]
    fn the_readme_shows_what_is_found() {
        let finding = check().findings[0].to_string();
        for line in finding.lines().filter(|line| !line.contains(".rs:")) {
            assert!(README.contains(line.trim_end()), "{line}");
        }
    }

    #[test]
    fn the_readme_is_short() {
        assert!(README.lines().count() <= 150);
    }
}
