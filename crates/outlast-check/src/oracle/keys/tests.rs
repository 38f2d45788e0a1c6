use super::*;

/// The name's first letter is the lane.
fn tx(
    name: &str,
    span: (usize, usize),
    reads: &[(u64, u64, u64)],
    writes: &[(u64, u64)],
) -> Transaction {
    Transaction {
        lane: name.as_bytes()[0].into(),
        name: name.to_owned(),
        begun: span.0,
        acked: span.1,
        reads: reads.iter().map(|&(key, state, time)| Seen { key, state, time }).collect(),
        writes: writes.to_vec(),
    }
}

fn verdict(history: &KeyHistory, ops: usize, found: &[KeyState]) -> Option<Broken> {
    let mut moment = history.beginning();
    moment.advance(ops);
    moment.judge(found).err().map(|violation| violation.broken)
}

/// `a` swaps keys 0 and 1 and is acknowledged at 9, `b` changes 1 and 2 and is at 19.
fn swaps() -> KeyHistory {
    let a = tx("a", (0, 9), &[(0, 0, 1), (1, 0, 2)], &[(0, 10), (1, 10)]);
    let b = tx("b", (10, 19), &[(1, 10, 3), (2, 0, 4)], &[(1, 20), (2, 20)]);
    KeyHistory::new(vec![0; 3], &[b, a]).unwrap()
}

#[test]
fn whole_or_absent_in_flight_and_present_when_acknowledged() {
    let history = swaps();
    assert_eq!(verdict(&history, 5, &[0, 0, 0]), None);
    assert_eq!(verdict(&history, 5, &[10, 10, 0]), None);
    assert_eq!(verdict(&history, 5, &[10, 0, 0]), Some(Broken::Torn));
    assert_eq!(verdict(&history, 9, &[0, 0, 0]), None, "acknowledged by the operation after");
    assert_eq!(verdict(&history, 10, &[0, 10, 0]), Some(Broken::Lost));
    assert_eq!(verdict(&history, 10, &[10, 10, 0]), None);
    assert_eq!(verdict(&history, 15, &[10, 20, 0]), Some(Broken::Torn));
    assert_eq!(verdict(&history, 25, &[10, 20, 20]), None);
    assert_eq!(verdict(&history, 25, &[10, 20, 0]), Some(Broken::Lost));
    assert_eq!(verdict(&history, 25, &[10, 20, 77]), Some(Broken::Garbage));
    assert_eq!(verdict(&history, 25, &[10, 10, 20]), Some(Broken::Lost));
}

#[test]
fn a_lane_loses_its_last_transactions_first() {
    let first = tx("a1", (0, 19), &[(0, 0, 1)], &[(0, 10)]);
    let second = tx("a2", (5, 20), &[(1, 0, 2)], &[(1, 20)]);
    let other = tx("b", (6, 21), &[(2, 0, 3)], &[(2, 30)]);
    let history = KeyHistory::new(vec![0; 3], &[first, second, other]).unwrap();
    assert_eq!(verdict(&history, 8, &[10, 0, 30]), None);
    assert_eq!(verdict(&history, 8, &[10, 20, 0]), None);
    assert_eq!(verdict(&history, 8, &[0, 0, 30]), None);
    assert_eq!(verdict(&history, 8, &[0, 20, 30]), Some(Broken::Torn));
    assert_eq!(verdict(&history, 20, &[0, 0, 30]), Some(Broken::Lost));
}

#[test]
fn what_survives_is_closed_under_reading() {
    // `b` reads `a`'s write to 0 and writes 1; both are in flight, then `b` is acknowledged.
    let a = tx("a", (0, 30), &[(0, 0, 1)], &[(0, 10)]);
    let b = tx("b", (0, 20), &[(0, 10, 2), (1, 0, 3)], &[(1, 20)]);
    let history = KeyHistory::new(vec![0; 2], &[a, b]).unwrap();
    for found in [[0, 0], [10, 0], [10, 20]] {
        assert_eq!(verdict(&history, 10, &found), None);
    }
    assert_eq!(verdict(&history, 10, &[0, 20]), Some(Broken::NotClosed));
    assert_eq!(verdict(&history, 25, &[10, 20]), None);
    assert_eq!(verdict(&history, 25, &[0, 20]), Some(Broken::NotClosed));
}

#[test]
fn a_reader_that_wrote_nothing_keeps_what_it_saw() {
    let a = tx("a", (0, 30), &[(0, 0, 1)], &[(0, 10)]);
    let reader = tx("r", (0, 20), &[(0, 10, 2)], &[]);
    let history = KeyHistory::new(vec![0], &[a, reader]).unwrap();
    assert_eq!(verdict(&history, 10, &[0]), None);
    assert_eq!(verdict(&history, 25, &[0]), Some(Broken::NotClosed));
    assert_eq!(verdict(&history, 25, &[10]), None);
}

#[test]
fn removals_are_told_apart_by_counting() {
    // Key 0: there, removed by `a`, added by `b`, removed by `c`; `b` and `c` in flight at 25.
    let a = tx("a", (0, 10), &[(0, 0, 1)], &[(0, ABSENT)]);
    let b = tx("b", (11, 40), &[(0, ABSENT, 2)], &[(0, 7)]);
    let c = tx("c", (12, 50), &[(0, 7, 3), (1, 0, 4)], &[(0, ABSENT), (1, 9)]);
    let history = KeyHistory::new(vec![0, 0], &[a, b, c]).unwrap();
    assert_eq!(verdict(&history, 25, &[ABSENT, 0]), None, "neither");
    assert_eq!(verdict(&history, 25, &[7, 0]), None, "b");
    assert_eq!(verdict(&history, 25, &[ABSENT, 9]), None, "both");
    assert_eq!(verdict(&history, 25, &[7, 9]), Some(Broken::Torn), "half of c");
    assert_eq!(verdict(&history, 25, &[0, 0]), Some(Broken::Lost), "a is acknowledged");
    assert_eq!(verdict(&history, 45, &[ABSENT, 0]), Some(Broken::Torn), "b is acknowledged");
    assert_eq!(verdict(&history, 60, &[7, 9]), Some(Broken::Lost), "c is acknowledged");
}

#[test]
fn a_run_that_is_not_serializable_is_noticed_before_any_crash() {
    let a = tx("a", (0, 10), &[(0, 0, 1)], &[(0, 10)]);
    let b = tx("b", (0, 10), &[(0, 0, 2)], &[(0, 20)]);
    let error = KeyHistory::new(vec![0], &[a, b]).err().unwrap();
    assert_eq!(error.broken, Broken::Cycle);
    let reader = tx("r", (0, 20), &[(0, 77, 2)], &[]);
    let a = tx("a", (0, 10), &[(0, 0, 1)], &[(0, 10)]);
    assert_eq!(KeyHistory::new(vec![0], &[a, reader]).err().unwrap().broken, Broken::Cycle);
}
