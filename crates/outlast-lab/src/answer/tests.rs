use super::*;
use crate::html::tests::made_up;

fn native(workload: &str, scheme: &str, value: f64) -> Record {
    Record::new(Kind::Native, workload, scheme, Metric::THROUGHPUT, value)
}

#[test]
fn five_sentences_answer_what_was_measured() {
    let mut document = made_up();
    let sim = |scheme: &str, guarantee: &str, value| {
        let metric = Metric::SPEED_OVER_PLAIN;
        Record::new(Kind::Sim, "hash", scheme, metric, value).guarantee(guarantee)
    };
    document.compared = vec![
        sim("non-pers", "none", 1.0),
        sim("hwl", "durable", 0.75),
        sim("ehou", "durable", 0.5),
        sim("picl", "epoch", 0.9),
        sim("frm", "epoch", 1.0),
        Record::new(Kind::Sim, "hash", "frm", Metric::MEMORY_WRITES_TX, 0.0),
        sim("undo-clwb", "durable", 0.25),
    ];
    let answer = Answer::of(&document);
    let begins = [
        "Durable and fastest on this machine: `redo`, ",
        "It keeps ",
        "Best simulated hardware per guarantee, throughput against plain memory on `hash`: durable 75 % (`hwl`; the slowest of 3, `undo-clwb`, 25 %), \
         epoch 90 % (`picl`).",
        "7\u{202f}348\u{202f}140 images of 24\u{202f}000 crash points were recovered by the \
         production code and judged: 0 acknowledged transactions lost, 1 found in part, 0 images \
         beyond repair; 4 of 6 planted bugs were caught.",
        "Not reached: 1 of 12 own goals and 1 of 1 claims of papers; farthest from its goal is `redo` \
         on sps1 (cost of redo ≤ 0.45 × the better peer's): 0.520 instead of 0.450.",
    ];
    assert_eq!(answer.sentences.len(), begins.len(), "{:#?}", answer.sentences);
    for (sentence, begin) in answer.sentences.iter().zip(begins) {
        assert!(sentence.starts_with(begin), "{sentence}");
    }
    assert!(answer.figure().contains("redo (durable)"));
    // A scheme that did nothing in the run is not advised.
    let told: Vec<String> = answer
        .advice
        .iter()
        .map(|advice| format!("{}: {}", advice.situation, advice.choose))
        .collect();
    let expected = [
        "a program's own structures, throughput: `redo`",
        "a program's own structures, latency: `redo`",
        "hardware: each acknowledged transaction survives: `hwl`",
        "hardware: unmodified programs, the last epochs may be lost: `picl`",
    ];
    assert_eq!(told, expected);
    assert!(answer.advice[0].because.contains("× libpmemobj (`pmdk`)"), "{:?}", answer.advice[0]);
    document.beside = crate::beside::tests::made_up();
    let sqlite = Answer::of(&document).advice.into_iter().find(|a| a.situation.contains("SQLite"));
    let sqlite = sqlite.unwrap();
    assert_eq!(sqlite.choose, "`pool swift`");
    assert!(sqlite.because.contains("2.00 × (update)"), "{sqlite:?}");
    document.beside = crate::beside::Beside::default();
    (document.records, document.compared) = (Vec::new(), Vec::new());
    assert_eq!(Answer::of(&document), Answer::default());
}

/// A scheme that ran only the work it is good at is compared on that work alone.
#[test]
fn means_go_over_work_that_all_have_run() {
    let records = [
        native("a", "pmdk", 1.0),
        native("a", "swift", 2.0),
        native("b", "pmdk", 1.0),
        native("b", "swift", 8.0),
        native("c", "swift", 1000.0),
    ];
    let grid = Grid::of_metric(&records, Kind::Native, Metric::THROUGHPUT);
    let speeds = speeds(&grid, "pmdk", native_guarantee);
    assert_eq!(speeds[0].scheme, "swift");
    assert!((speeds[0].mean - 4.0).abs() < 1e-9);
    assert_eq!((speeds[0].lowest.1.as_str(), speeds[0].highest.1.as_str()), ("a", "b"));
    assert_eq!(shared_rows(&grid), ["a", "b"]);
}

/// What promises nothing is never called the fastest durable one, and what it loses is no harm.
#[test]
fn only_durable_schemes_are_called_durable() {
    let mut document = made_up();
    document.records = vec![
        native("a", "none", 9.0),
        native("a", "undo", 2.0),
        Record::new(Kind::Crash, "a", "none", Metric::CRASH_POINTS, 5.0),
        Record::new(Kind::Crash, "a", "none", Metric::LOST, 5.0),
    ];
    let answer = Answer::of(&document);
    assert_eq!(answer.base, "none");
    assert_eq!(answer.speeds[0].guarantee, "none");
    assert_eq!(answer.sentences.len(), 2, "{:?}", answer.sentences);
    assert!(answer.sentences[0].contains("`undo`, 0.222 times the throughput of `none`"));
}
