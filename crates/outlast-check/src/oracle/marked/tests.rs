use super::*;
use crate::run::Event;

/// A run of marks alone: `I 7 a=3`, `A 7`.
fn marked(lines: &str) -> Result<Arc<Marked>, String> {
    let mut run = Run::empty("data".into());
    let mut parser = crate::capture::marks::Lines::default();
    let steps = parser.add(lines.as_bytes(), &crate::capture::marks::Marks::default());
    run.events = steps.into_iter().map(|step| Event { call: 0, step }).collect();
    Marked::of(&run).map(Arc::new)
}

fn verdict(marked: &Arc<Marked>, state: &str, issued: u64, acked: u64) -> Option<Broken> {
    let listed = Listed::in_words(marked, state).expect("words NAME=VERSION");
    listed.judge(issued, acked).err().map(|wrong| wrong.broken)
}

#[test]
fn acknowledged_ones_are_there_and_others_whole_or_absent() {
    let marked = marked("I 1 a=1 b=1\nA 1\nI 2 a=2 c=1\nA 2\nI 3 b=2 c=2\n").unwrap();
    assert_eq!(verdict(&marked, "a=1 b=1", 2, 1), None);
    assert_eq!(verdict(&marked, "a=2 b=1 c=1", 2, 1), None, "whole, not yet acknowledged");
    assert_eq!(verdict(&marked, "a=2 b=1", 2, 1), Some(Broken::Torn));
    assert_eq!(verdict(&marked, "a=1 b=1", 3, 2), Some(Broken::Lost));
    assert_eq!(verdict(&marked, "", 1, 0), None);
    assert_eq!(verdict(&marked, "", 1, 1), Some(Broken::Lost));
    assert_eq!(verdict(&marked, "a=2 b=2 c=2", 3, 2), None);
    assert_eq!(
        verdict(&marked, "a=1 b=2 c=2", 3, 1),
        Some(Broken::Torn),
        "3 replaced a version of 2"
    );
    assert_eq!(verdict(&marked, "a=2 b=2 c=2", 2, 2), Some(Broken::Garbage), "3 has not begun");
    assert_eq!(verdict(&marked, "a=1 b=1 d=1", 1, 1), Some(Broken::Garbage));
    let torn = Listed::in_lines(&marked, "opened\nkey a 2\nkey b 1\n").unwrap().judge(2, 1);
    assert_eq!(
        torn.unwrap_err().to_string(),
        "torn: transaction 2 is there in part: in a, missing in c"
    );
}

#[test]
fn a_transaction_that_was_given_up_is_none() {
    let marked = marked("I 1 a=1 b=1\nI 2 a=1\nA 2\nI 3 b=1\nA 3\n").unwrap();
    assert_eq!(verdict(&marked, "a=1 b=1", 1, 0), None);
    assert_eq!(verdict(&marked, "a=1", 2, 2), None);
    assert_eq!(verdict(&marked, "a=1", 3, 3), Some(Broken::Lost));
}

#[test]
fn lanes_acknowledge_in_any_order() {
    let marked = marked("I 1 a=1\nI 2 b=1\nA 2\nA 1\n").unwrap();
    assert_eq!(verdict(&marked, "b=1", 2, 2), None, "1 is still in flight");
    assert_eq!(verdict(&marked, "a=1", 2, 2), Some(Broken::Lost));
}

#[test]
fn odd_marks_are_refused() {
    assert!(marked("I 1 a=1\nA 1\nI 1 a=2\n").unwrap_err().contains("begins again"));
    assert!(marked("I 1 a=0\n").unwrap_err().contains("'a=0'"));
    let twice = marked("I 1 a=1\nA 1\nI 2 a=1\n").unwrap();
    assert_eq!(verdict(&twice, "a=1", 2, 1), Some(Broken::Other));
}

#[test]
fn output_without_keys_lists_none() {
    let marked = marked("I 1 a=1\n").unwrap();
    assert!(Listed::in_lines(&marked, "recovered 7\nkey\nkey a\nkey a b\n").is_none());
    assert!(Listed::in_words(&marked, "a=b").is_none());
}
