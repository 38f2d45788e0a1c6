//! Commands that the program prints for its reader to run: a shell takes them as they are, and they
//! show what they promise.

mod common;

use std::process::{Command, Output};

use common::text;

/// Runs a command of ours through a shell.
fn in_shell(command: &str) -> Output {
    let words = command.strip_prefix("outlast ").expect("it is a command of ours");
    let script = format!("\"$0\" {words}");
    let program = env!("CARGO_BIN_EXE_outlast");
    Command::new("sh").args(["-c", &script, program]).output().expect("there is a shell")
}

/// The last command that a run prints on standard error.
fn hint(output: &Output) -> String {
    let errors = text(&output.stderr);
    let at = errors.rfind("outlast crash ").or_else(|| errors.rfind("outlast sim "));
    let command = &errors[at.unwrap_or_else(|| panic!("no command in: {errors}"))..];
    command.lines().next().unwrap_or_default().to_owned()
}

/// The hint of a run in which a planted bug went unnoticed finds it. Returns the hint.
fn finding_hint(command: &str) -> String {
    let unnoticed = in_shell(command);
    let errors = text(&unnoticed.stderr);
    let is_unnoticed =
        |errors: &str| errors.contains("noticed here") || errors.contains("reached here");
    assert!(is_unnoticed(&errors), "{command}: {errors}");
    let hint = hint(&unnoticed);
    let found = in_shell(&hint);
    let errors = text(&found.stderr);
    assert_eq!(found.status.code(), Some(1), "{hint}: {errors}");
    assert!(!is_unnoticed(&errors), "{hint}: {errors}");
    hint
}

/// A run that fails prints a command that fails, too.
fn assert_repeats(command: &str) {
    let failed = in_shell(command);
    assert_eq!(failed.status.code(), Some(1), "{command}: {}", text(&failed.stderr));
    let again = hint(&failed);
    let repeated = in_shell(&again);
    assert_eq!(repeated.status.code(), Some(1), "{again}: {}", text(&repeated.stderr));
}

const SKELETON: &str = "outlast sim hash-toggle --config tiny --footprint 2K --threads 2 \
                        --transactions 80 --scheme skeleton --plant";

/// Neighbouring lines in different channels.
const UNORDERED: &str = "--set memory.channels=2 --set 'memory.mapping=row rank bank group column \
                         channel' --set memory.write_queue=2 --set memory.drain_high=2 \
                         --set memory.drain_low=0 --set memory.adr=false";

#[test]
fn a_scope_whose_name_has_two_words_is_one_word_of_the_hint() {
    for plant in ["skip-fence:FirstLap", "skip-flush:FirstLap"] {
        let hint = finding_hint(&format!(
            "outlast crash hash --points 4 --transactions 12 --keys 40 --policy lru --caches tiny \
             --single --scheme swift --plant {plant}"
        ));
        assert!(hint.starts_with("outlast crash 'other form' --policy any"), "{hint}");
    }
}

#[test]
fn a_planted_bug_of_the_machine_is_found_by_the_hint() {
    // The plant shows where work goes on from a recovered image, but not from those that this seed draws.
    finding_hint(&format!("{SKELETON} skeleton-counts-anew --crash all --seed 1"));
    // One channel keeps the order of writes.
    let hint = finding_hint(&format!("{SKELETON} skeleton-record-early --crash 40"));
    assert!(hint.contains("--set memory.mapping='row rank bank group column channel'"), "{hint}");
}

#[test]
fn the_command_of_a_failure_repeats_it() {
    assert_repeats(&format!("{SKELETON} skeleton-record-early --crash all {UNORDERED}"));
    assert_repeats(
        "outlast crash hash --scheme undo --points 200 --transactions 60 --keys 40 --policy lru \
         --caches tiny --plant skip-flush:UndoData",
    );
}

#[test]
fn the_command_of_an_explanation_explains_the_same() {
    let told = |command: &str| {
        let output = in_shell(command);
        assert_eq!(output.status.code(), Some(0), "{command}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let first = told(
        "outlast crash 'other form' --policy any --scheme swift --plant skip-flush:FirstLap --explain",
    );
    let at = first.rfind("Again\n  ").expect("it says how to see it again");
    let again = first[at..].lines().nth(1).unwrap_or_default().trim();
    assert!(again.starts_with("outlast crash 'other form' "), "{again}");
    assert_eq!(told(again), first);
}
