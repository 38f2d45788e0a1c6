//! Both sides under the scheduler: a writer and a reader that take turns at every access to the pool and to the words
//! and the ring that they share. A snapshot at each point of a writer, and a writer at each point of a snapshot: what
//! the other sees when one is stopped there, or dies.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outlast_pmem::schedule::Explorer;
use outlast_pmem::{Access, Layer, MapOptions, Medium, PageCache, Pass, Recorder, Side};
use outlast_trace::{LineAddr, PoolOffset};

use super::head::{HEAD, Head, RING_BYTES, Ring, State, remove_unused};
use super::snapshot::{NoSnapshot, Snapshot};
use super::{Mistake, Mistakes, Versions, WritersPlace};
use crate::barrier::Barrier;
use crate::pool::{CreateOptions, OpenOptions, Pool, UnrecoveredPool, read_root};
use crate::{Abort, BlockKind, Lane, RootKind, Runner, Scheme, Transact};

/// Transactions of a writer.
const COMMITS: u64 = 2;

/// The media of a run.
struct Media {
    pool: Recorder,
    head: Recorder,
    ring: Recorder,
}

impl Media {
    fn new() -> Self {
        let [pool, head, ring] =
            [64 << 10, Head::<Recorder>::bytes(2).next_multiple_of(64), RING_BYTES]
                .map(Recorder::new);
        Self { pool, head, ring }
    }
}

/// What a run is to be.
#[derive(Clone, Copy)]
struct Run {
    scheme: Scheme,
    writers: usize,
    mistake: Option<Mistake>,
    /// The reader does not wait for a commit under way, as if its process were dead.
    is_impatient: bool,
    /// Lines that the writer changes beside.
    more_lines: u64,
}

const RUN: Run =
    Run { scheme: Scheme::Swift, writers: 1, mistake: None, is_impatient: false, more_lines: 0 };

/// Two cells, a block whose content is its number, and lines for more.
struct Places {
    cells: [PoolOffset; 2],
    /// Those of another writer.
    others: [PoolOffset; 2],
    more: PoolOffset,
}

fn create<'m>(media: &'m Media, run: &Run) -> (Pool<&'m Recorder>, Places) {
    create_on(&media.pool, &media.head, &media.ring, run)
}

fn create_on<M: Medium + Copy + Sync>(medium: M, head: M, ring: M, run: &Run) -> (Pool<M>, Places) {
    let create = CreateOptions { lanes: 2, lane_bytes: 1024, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(run.scheme) };
    let mut pool = Pool::create_on(medium, &create, &open).unwrap();
    let places = {
        let mut lane = pool.lane().unwrap();
        let places = lane.run(|tx| {
            let block = tx.alloc(64 * 22, BlockKind::General)?;
            tx.store(block, &[0; 64 * 22])?;
            let root = tx.alloc(512, BlockKind::General)?;
            tx.store(root, &[0; 512])?;
            tx.set_root(root, RootKind::Opaque)?;
            Ok(Places {
                cells: [block, block.plus(64)],
                others: [block.plus(20 * 64), block.plus(21 * 64)],
                more: block.plus(128),
            })
        });
        places.unwrap()
    };
    let mut versions = Versions::on(Head(head), Ring(ring), Barrier::between_processes(), None);
    versions.mistakes = Mistakes::of(run.mistake);
    versions.start(true);
    Head(head).add_reader(0);
    pool.versions = Some(Box::new(versions));
    (pool, places)
}

/// One commit: both cells go up by one, and the root becomes a new block with that number all over; the old one
/// is given back, and used for the one after.
fn commit(lane: &mut Lane<'_, &Recorder>, places: &Places, run: &Run) {
    try_commit(lane, places, run).unwrap();
}

fn try_commit<M: Medium>(lane: &mut Lane<'_, M>, places: &Places, run: &Run) -> Result<(), Abort> {
    lane.run(|tx| {
        let number = tx.load_u64(places.cells[0])? + 1;
        tx.store_u64(places.cells[0], number)?;
        tx.store_u64(places.cells[1], number)?;
        for line in 0..run.more_lines {
            tx.store_u64(places.more.plus(line * 64), number)?;
        }
        let (old, _) = tx.root()?.expect("there is a root");
        let new = tx.alloc(512, BlockKind::General)?;
        tx.store(new, &[number as u8; 512])?;
        tx.set_root(new, RootKind::Opaque)?;
        tx.free(old)
    })
}

/// A commit of another writer: both of its cells go up by one.
fn commit_others(lane: &mut Lane<'_, &Recorder>, places: &Places) {
    let done = lane.run(|tx| {
        let number = tx.load_u64(places.others[0])? + 1;
        places.others.iter().try_for_each(|at| tx.store_u64(*at, number))
    });
    done.unwrap();
}

/// What a snapshot shows; `None` when it is over by then.
fn look<M: Medium>(snapshot: &Snapshot<M>, places: &Places) -> Option<[u64; 3]> {
    let cell = |at| snapshot.load_u64(at);
    let (first, others) = (places.cells.map(cell), places.others.map(cell));
    let root = read_root(snapshot).map(|root| root.expect("there is a root").0);
    if !snapshot.is_usable() {
        return None;
    }
    let mut block = [0; 512];
    snapshot.load(root.expect("a root word that proves itself"), &mut block);
    let again = (places.cells.map(cell), places.others.map(cell));
    if !snapshot.is_usable() {
        return None;
    }
    assert_eq!((first, others), again, "a snapshot does not change");
    assert_eq!(others[0], others[1], "another writer's transaction in parts");
    assert!(block.iter().all(|byte| *byte == block[0]), "a block in parts: {block:?}");
    Some([first[0], first[1], u64::from(block[0])])
}

fn read(media: &Media, places: &Places, run: &Run, acknowledged: &AtomicU64) -> u64 {
    let head = Head(&media.head);
    let generation = head.generation();
    let snapshot = Snapshot::beside(&media.pool, head, Ring(&media.ring), 2, 0, generation)
        .making(Mistakes::of(run.mistake));
    let (mut before, mut seen) = (0, 0);
    for _ in 0..2 {
        let at_least = acknowledged.load(Ordering::SeqCst);
        match snapshot.take(|| !run.is_impatient) {
            Ok(_) => {}
            Err(NoSnapshot::Stuck) if run.is_impatient => continue,
            Err(why) => panic!("{why:?}"),
        }
        let Some(shown) = look(&snapshot, places) else { continue };
        assert!(shown.iter().all(|number| *number == shown[0]), "transactions in parts: {shown:?}");
        assert!(shown[0] >= at_least, "{at_least} was acknowledged, {shown:?} is there");
        assert!(shown[0] >= before, "a later snapshot is older");
        before = shown[0];
        seen += 1;
    }
    seen
}

/// Explores all schedules, with either side first; how many there were and how many snapshots were looked at, or what went wrong.
fn explore(run: Run, preemptions: u32) -> Result<(u64, u64), String> {
    let both = [explore_from(run, preemptions, false)?, explore_from(run, preemptions, true)?];
    Ok((both[0].0 + both[1].0, both[0].1 + both[1].1))
}

fn explore_from(run: Run, preemptions: u32, writer_first: bool) -> Result<(u64, u64), String> {
    let mut explorer = Explorer::new(preemptions);
    let mut snapshots = 0;
    while let Some(scheduler) = explorer.next() {
        let media = Media::new();
        let (pool, places) = create(&media, &run);
        let acknowledged = AtomicU64::new(0);
        let (media, pool, places, acknowledged) = (&media, &pool, &places, &acknowledged);
        let write: Box<dyn Fn() -> u64 + Send + '_> = Box::new(move || {
            let mut lane = pool.lane().unwrap();
            for _ in 0..COMMITS {
                commit(&mut lane, places, &run);
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            0
        });
        let read: Box<dyn Fn() -> u64 + Send + '_> =
            Box::new(move || read(media, places, &run, acknowledged));
        let mut lanes = if writer_first { vec![write, read] } else { vec![read, write] };
        for _ in 1..run.writers {
            lanes.push(Box::new(move || {
                commit_others(&mut pool.lane().unwrap(), places);
                0
            }));
        }
        let ran = scheduler.run(lanes).map_err(|error| error.to_string())?;
        explorer.ran(&ran);
        for lane in ran.lanes {
            match lane {
                Ok(seen) => snapshots += seen,
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().cloned();
                    return Err(text.unwrap_or_else(|| "a panic".to_owned()));
                }
            }
        }
    }
    Ok((explorer.schedules(), snapshots))
}

fn is_sound(run: Run, preemptions: u32) {
    let (schedules, snapshots) = explore(run, preemptions).unwrap();
    println!("{schedules} schedules, {snapshots} snapshots");
    assert!(
        schedules > 100 && snapshots > schedules,
        "{schedules} schedules, {snapshots} snapshots"
    );
}

#[test]
fn a_snapshot_at_every_point_of_a_writer_is_whole() {
    is_sound(RUN, 1);
    is_sound(Run { scheme: Scheme::Redo, ..RUN }, 1);
}

#[test]
fn a_snapshot_beside_two_writers_is_whole() {
    is_sound(Run { writers: 2, ..RUN }, 1);
}

#[test]
fn a_writer_that_dies_at_any_point_leaves_whole_snapshots() {
    let (schedules, snapshots) = explore(Run { is_impatient: true, ..RUN }, 1).unwrap();
    assert!(schedules > 100 && snapshots > schedules, "{schedules}, {snapshots}");
}

#[test]
fn an_overtaken_snapshot_is_over() {
    is_sound(Run { more_lines: 18, ..RUN }, 1);
}

#[test]
fn every_mistake_is_noticed() {
    use Mistake::*;
    let runs = [
        (NotKept, RUN, 1),
        (NotAwaited, RUN, 1),
        (DoneTooEarly, RUN, 1),
        (LookedOnce, RUN, 1),
        (NewestTaken, RUN, 1),
        (TagBeforeWord, RUN, 2),
    ];
    let unseen: Vec<_> = runs
        .into_iter()
        .filter(|(mistake, run, preemptions)| {
            let run = Run { mistake: Some(*mistake), ..*run };
            explore(run, *preemptions).is_ok()
        })
        .map(|(mistake, ..)| mistake)
        .collect();
    assert_eq!(unseen, []);
}

/// VERSION-2: of two commits that keep lines of a bucket at once the one with the older number comes second, and takes
/// another number.
#[test]
fn numbers_rise_in_a_bucket() {
    let is_found = |keeps_order| {
        let (media, older, newer) = (Media::new(), LineAddr(4), LineAddr(4));
        let ring = Ring(&media.ring);
        assert!(ring.push(11, newer, 1, &[7; 8], keeps_order));
        if !ring.push(10, older, 1, &[8; 8], keeps_order) {
            assert!(ring.push(12, older, 1, &[8; 8], keeps_order));
        }
        let mut next = ring.newest(older);
        let mut found = Vec::new();
        while next > 0 {
            let before = ring.entry(next - 1).before;
            found.push(ring.content(next - 1)[0]);
            next = if before < next { before } else { 0 };
        }
        found == [8, 7]
    };
    assert!(is_found(true));
    assert!(!is_found(false), "a mistake is noticed");
}

/// VERSION-3: blocks that the snapshot reaches are given back and used for others meanwhile.
#[test]
fn blocks_that_are_used_again_are_read_as_they_were() {
    let shows_itself = |mistake| {
        let (media, run) = (Media::new(), Run { mistake, ..RUN });
        let (pool, places) = create(&media, &run);
        let snapshot = Snapshot::beside(&media.pool, Head(&media.head), Ring(&media.ring), 2, 0, 0);
        snapshot.take(|| true).unwrap();
        let mut lane = pool.lane().unwrap();
        let mut count = 0;
        while let Some(shown) = look(&snapshot, &places) {
            if shown != [0; 3] {
                return false;
            }
            commit(&mut lane, &places, &run);
            count += 1;
        }
        assert!(count > 10, "overtaken by {count} commits");
        true
    };
    assert!(shows_itself(None));
    let noticed = std::panic::catch_unwind(|| shows_itself(Some(Mistake::FreshNotKept)));
    assert!(!noticed.unwrap_or(false));
}

/// The ring is used again as often as it likes: a snapshot says that it is over before it shows anything else.
#[test]
fn nothing_is_read_of_a_ring_that_is_used_again() {
    let shown = |mistake| {
        let (media, run) = (Media::new(), Run { mistake, more_lines: 18, ..RUN });
        let (pool, places) = create(&media, &run);
        let snapshot = Snapshot::beside(&media.pool, Head(&media.head), Ring(&media.ring), 2, 0, 0)
            .making(Mistakes::of(mistake));
        snapshot.take(|| true).unwrap();
        let mut lane = pool.lane().unwrap();
        let is_over = Cell::new(None);
        for count in 0..40 {
            commit(&mut lane, &places, &run);
            if snapshot.load_u64(places.cells[0]) != 0 && snapshot.is_usable() {
                is_over.set(Some(count));
                break;
            }
        }
        is_over.get()
    };
    assert_eq!(shown(None), None, "all that it shows is of its time");
    assert!(shown(Some(Mistake::OvertakenUnseen)).is_some());
}

/// VERSION-7: who has cleared a reader's mark keeps nothing for it any more.
#[test]
fn a_reader_without_its_mark_has_no_snapshot() {
    let media = Media::new();
    let (pool, places) = create(&media, &RUN);
    let snapshot = Snapshot::beside(&media.pool, Head(&media.head), Ring(&media.ring), 2, 0, 0);
    snapshot.take(|| true).unwrap();
    Head(&media.head).remove_reader(0);
    commit(&mut pool.lane().unwrap(), &places, &RUN);
    assert_eq!(look(&snapshot, &places), None);
    assert_eq!(snapshot.take(|| true), Err(NoSnapshot::OtherWriter));
    Head(&media.head).add_reader(0);
    assert_eq!(snapshot.take(|| true), Ok(true));
    assert_eq!(look(&snapshot, &places), Some([1; 3]));
}

/// A pool on a disk that fails while a commit changes memory: what is stored from then on no longer reaches the file.
struct Failing {
    below: PageCache,
    /// Changes until then.
    left: AtomicU64,
    /// Writes to the disk before that moment, once it has come.
    writes: AtomicU64,
}

impl Failing {
    fn new(len: u64) -> Self {
        let below = PageCache::new(len);
        Self { below, left: AtomicU64::new(u64::MAX), writes: AtomicU64::new(u64::MAX) }
    }
}

impl Layer for Failing {
    type Inner = PageCache;

    fn inner(&self) -> &PageCache {
        &self.below
    }

    fn before(&self, access: Access) -> Pass {
        let changes =
            matches!(access, Access::Store { .. } | Access::Words { .. } | Access::Stream { .. });
        if !changes || self.left.load(Ordering::SeqCst) == u64::MAX {
            return Pass::On;
        }
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            if self.writes.load(Ordering::SeqCst) == u64::MAX {
                self.writes.store(self.below.writes(), Ordering::SeqCst);
                self.below.flush_range(PoolOffset(0), 8);
                // Another thread's fence is the one that fails.
                let _ = self.below.try_fence();
            }
        } else {
            self.left.store(left - 1, Ordering::SeqCst);
        }
        if self.below.is_usable() { Pass::On } else { Pass::Off }
    }
}

/// VERSION-6: a snapshot shows whole transactions, or nothing, wherever in a commit the disk fails.
#[test]
fn a_disk_that_fails_ends_snapshots() {
    let is_whole = |mistake| {
        let (mut failures, mut is_over) = (0, 0);
        for changes in 0.. {
            let run = Run { mistake, ..RUN };
            let mut write = u64::MAX;
            // The first time tells which write to the disk is the one to fail.
            for fails in [false, true] {
                let mut pool = Failing::new(64 << 10);
                if fails {
                    pool.below = pool.below.failing_at(write);
                }
                let head = Failing::new(Head::<Recorder>::bytes(2).next_multiple_of(64));
                let ring = Failing::new(RING_BYTES);
                let media = [&pool, &head, &ring];
                let (running, places) = create_on(media[0], media[1], media[2], &run);
                let snapshot = Snapshot::beside(&pool, Head(&head), Ring(&ring), 2, 0, 0);
                snapshot.take(|| true).unwrap();
                pool.left.store(changes, Ordering::SeqCst);
                let mut lane = running.lane().unwrap();
                let done = try_commit(&mut lane, &places, &run);
                write = pool.writes.load(Ordering::SeqCst);
                if write == u64::MAX {
                    return failures > 10 && is_over > 5;
                }
                if !fails {
                    continue;
                }
                failures += 1;
                if done.is_ok() && look(&snapshot, &places).is_some_and(|shown| shown != [0; 3]) {
                    return false;
                }
                match snapshot.take(|| true) {
                    Ok(_) => {
                        let shown = look(&snapshot, &places);
                        if shown.is_some_and(|shown| shown != [shown[0]; 3]) {
                            return false;
                        }
                    }
                    Err(_) => is_over += 1,
                }
            }
        }
        unreachable!("a commit ends")
    };
    assert!(is_whole(None));
    let noticed = std::panic::catch_unwind(|| is_whole(Some(Mistake::FailureUntold)));
    assert!(!noticed.unwrap_or(false));
}

/// VERSION-7: words that a killed writer has left are not those of the next one, which is about to open the pool.
#[test]
#[cfg(all(target_os = "linux", not(miri), not(outlast_portable)))]
fn words_of_a_killed_writer_are_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    Pool::create(&path).unwrap().close();
    let read_only = MapOptions { read_only: true, ..MapOptions::default() };
    let pool = UnrecoveredPool::open_file(&path, &read_only).unwrap().read_only().unwrap();
    let side = Side::of(pool.medium().file().unwrap()).unwrap();
    let (head, ()) = Head::open(&side, pool.header(), |_| ()).unwrap();
    drop(pool);
    head.set_state(State::Live);
    let place = WritersPlace::of_path(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(place);
        });
        let reader = Pool::read(&path).unwrap();
        assert!(!reader.is_beside_writer(), "it waits until the pool is opened, or left");
    });
    remove_unused(&side, &head, || false);
    assert!(!side.has(HEAD));
}
