//! The events of a pool, heard by a subscriber.
#![cfg(not(miri))]

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use outlast::{Abort, BlockKind, Pool, Runner, Transact};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The events so far: level, name and fields.
type Heard = Arc<Mutex<Vec<(Level, String)>>>;

struct Listener(Heard);

/// An event's fields in one line, its name first.
#[derive(Default)]
struct Line {
    name: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.name = format!("{value:?}"),
            name => self.fields += &format!(" {name}={value:?}"),
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "outlast"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let Line { name, fields } = line;
        self.0.lock().unwrap().push((*event.metadata().level(), name + &fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What is heard while `body` runs.
fn heard(body: impl FnOnce()) -> Vec<(Level, String)> {
    let all = Heard::default();
    tracing::subscriber::with_default(Listener(Arc::clone(&all)), body);
    let all = all.lock().unwrap();
    all.clone()
}

/// How often an event was heard at that level, its line beginning so.
fn count(heard: &[(Level, String)], level: Level, begin: &str) -> usize {
    heard.iter().filter(|(at, line)| *at == level && line.starts_with(begin)).count()
}

/// One test: `tracing` remembers of each event whether any subscriber wants it, for all threads at once.
#[test]
fn a_pool_tells_its_life_and_its_conflict_storms() {
    a_pool_tells_its_life();
    a_conflict_storm_is_told();
}

fn a_pool_tells_its_life() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.pool");
    let made = heard(|| {
        let pool = Pool::open_or_create(&path).unwrap();
        let mut lane = pool.lane().unwrap();
        for _ in 0..40 {
            lane.run(|tx| tx.alloc(1 << 20, BlockKind::General)).unwrap();
        }
        drop(lane);
        pool.checkpoint(dir.path().join("some.checkpoint")).unwrap();
        // Without a close: the next opening has work.
    });
    assert_eq!(count(&made, Level::INFO, "opened bytes=16777216 lanes=8 scheme="), 1, "{made:?}");
    assert_eq!(count(&made, Level::INFO, "recovered undone=0 replayed=0"), 1, "{made:?}");
    assert!(count(&made, Level::INFO, "grew bytes=") >= 2, "{made:?}");
    assert_eq!(count(&made, Level::INFO, "checkpoint number=1 pages="), 1, "{made:?}");
    let again = heard(|| {
        let pool = Pool::open_or_create(&path).unwrap();
        pool.close();
    });
    assert_eq!(count(&again, Level::WARN, "recovered undone=0 replayed="), 1, "{again:?}");
    assert!(count(&again, Level::DEBUG, "swept lane=") >= 1, "{again:?}");
    assert_eq!(count(&again, Level::INFO, "closed commits=0"), 1, "{again:?}");
    let closed = heard(|| drop(Pool::open_or_create(&path).unwrap()));
    assert_eq!(count(&closed, Level::INFO, "recovered undone=0 replayed=0"), 1, "{closed:?}");
}

/// Conflict upon conflict ends in a turn alone, which is told and counted.
fn a_conflict_storm_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::open_or_create(dir.path().join("some.pool")).unwrap();
    let told = heard(|| {
        let mut lane = pool.lane().unwrap();
        let mut runs = 0;
        lane.run(|tx| {
            runs += 1;
            let block = tx.alloc(64, BlockKind::General)?;
            if runs < 40 { Err(Abort::Conflict) } else { tx.store_u64(block, 1) }
        })
        .unwrap();
    });
    assert_eq!(count(&told, Level::WARN, "conflict storm lane=0 conflicts=16"), 1, "{told:?}");
    let counters = pool.stats().counters.unwrap();
    assert_eq!((counters.conflicts, counters.turns_alone, counters.commits), (39, 1, 1));
}
