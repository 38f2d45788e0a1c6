use super::*;

#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn every_engine_does_the_same_work_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let setup = EnginesSetup {
        file: directory.path().join("pool"),
        domain: Some(Domain::Page),
        schemes: vec![Scheme::Swift, Scheme::Aof],
        keys: 2000,
        rounds: 2,
        transactions: 20,
        threads: vec![1, 3],
        seed: 1,
        program: None,
    };
    let mut notes = Vec::new();
    let mut listen = |progress: Progress<'_>| {
        if let Progress::Note(note) = progress {
            notes.push(note.to_owned());
        }
    };
    let records = measure(&setup, &mut listen).unwrap();
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
    let of = |scheme: &str, metric: Metric| {
        let wanted = |record: &&Record| record.scheme == scheme && record.is(metric);
        records.iter().filter(wanted).collect::<Vec<_>>()
    };
    assert_eq!(of("swift", Metric::THROUGHPUT).len(), 6, "{records:?}");
    assert_eq!(of("floor", Metric::THROUGHPUT).len(), 4, "it cannot be read");
    let alone = of("swift", Metric::SYNCS)[0];
    assert_eq!(alone.threads, Some(1));
    assert!((1.0..1.3).contains(&alone.value.unwrap()), "{alone:?}");
    assert!(of("swift", Metric::FLOOR_SHARE).iter().all(|r| r.value > Some(0.0)));
    assert_eq!(of("swift", Metric::SPACE_RATIO).len(), 2);
    assert_eq!(
        notes.iter().filter(|note| note.contains("--features engines")).count(),
        usize::from(how_to_build().is_some())
    );

    let none = EnginesSetup { schemes: vec![Scheme::None], ..setup };
    let error = measure(&none, &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("none: choose a scheme that is durable"), "{error}");
}

#[test]
fn keys_are_distinct_and_values_change_with_their_version() {
    for set in [UPDATES, ROWS] {
        let keys: std::collections::HashSet<_> = (0..10_000).map(|n| set.key(n)).collect();
        assert_eq!(keys.len(), 10_000);
        assert_eq!(set.bytes(1), (set.key(5).len() + set.value(5, 0).len()) as u64);
        assert_ne!(set.value(5, 0), set.value(5, 1));
    }
}
