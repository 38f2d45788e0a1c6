//! The pools that are damaged: every scheme and structure, closed, killed and crashed.

use std::collections::HashSet;
use std::ops::Range;

use outlast::medium::{CreateOptions, LINE_BYTES, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Pool, PoolOffset, Runner, Scheme};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::TxId;

use super::content::{Content, State};
use super::draw::Draw;
use crate::{Crash, Exhaustive, ImageMedium, Live, Model, Violation, bytes_of, live};

const POOL_BYTES: u64 = 256 << 10;
const LANES: u32 = 2;
const LANE_BYTES: u64 = 4096;

/// Transactions that fill a pool, and those that its last opening adds.
const FILLING: u64 = 40;
const LAST_ONES: u64 = 25;

/// How a pool came to be as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// In peace: its log is empty.
    Closed,
    /// The process was killed: whatever was stored is there.
    Killed,
    /// The power failed: what was not durable may be there or not.
    Crashed,
}

/// A sound pool.
pub(super) struct Base {
    pub name: String,
    pub scheme: Scheme,
    pub checksums: bool,
    pub content: Content,
    pub image: Vec<u8>,
    /// What the pool was before, at some moments.
    pub earlier: Vec<Vec<u8>>,
    /// What it may hold: one state, or two where a transaction was under way.
    pub right: Vec<State>,
    pub areas: Vec<(Area, Vec<u64>)>,
    /// Lines that blocks of the recovered pool have. Regions of the log lie beside them.
    allocated: HashSet<u64>,
    /// What it held some transactions ago, as if the last records were missing.
    pub before: Vec<State>,
}

/// Parts of a pool, by what they are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Area {
    Header,
    Floor,
    Root,
    Size,
    /// The rest of the header page.
    Blank,
    LaneHeader,
    Ring,
    Directory,
    Bitmap,
    Sums,
    /// Lines of the heap that hold something.
    Data,
    /// Lines of the heap that hold nothing.
    Empty,
}

/// How to run pools here: small caches, so that data ages.
pub(super) fn options(scheme: Scheme) -> OpenOptions {
    OpenOptions {
        lock_stripes: 64,
        cache_bytes: Some(4096),
        sample_bits: 0,
        step_every: 4,
        stream_from: Some(1),
        ..OpenOptions::with_scheme(scheme)
    }
}

/// What is built: every structure with checksums under both schemes that keep them, and two of them
/// under every other scheme that keeps its word.
fn plans() -> Vec<(Scheme, bool, Content, Ending)> {
    let mut plans = Vec::new();
    let endings = [Ending::Closed, Ending::Killed, Ending::Crashed];
    for ending in endings {
        for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
            plans.extend(Content::ALL.iter().map(|content| (scheme, true, *content, ending)));
        }
        let plain = [
            Scheme::Undo,
            Scheme::Redo,
            Scheme::Swift,
            Scheme::Rollback,
            Scheme::Atlas,
            Scheme::Aof,
            Scheme::UndoArchapt,
            Scheme::RedoArchapt,
        ];
        let contents = Content::ALL.iter().copied().cycle();
        for (scheme, content) in plain.into_iter().flat_map(|s| [s, s]).zip(contents) {
            plans.push((scheme, false, content, ending));
        }
    }
    plans
}

impl Base {
    /// All of them. `seed` decides what they hold.
    pub fn all(seed: u64) -> Vec<Self> {
        let plans = plans().into_iter().enumerate();
        plans.map(|(nth, plan)| Self::build(plan, Draw::of(seed, nth as u64 + (1 << 40)))).collect()
    }

    fn build(
        (scheme, checksums, content, ending): (Scheme, bool, Content, Ending),
        mut draw: Draw,
    ) -> Self {
        let create = CreateOptions {
            lanes: LANES,
            lane_bytes: LANE_BYTES,
            chunk_bytes: Some(if draw.below(4) == 0 { 16 << 10 } else { 4096 }),
            checksums,
            uuid: Some(Default::default()),
            fence_log_bytes: Some(if checksums { 8 << 10 } else { 0 }),
        };
        let pool = Pool::create_on(live(&[0; POOL_BYTES as usize]), &create, &options(scheme));
        let pool = pool.expect("a pool of these parameters");
        let mut states = vec![content.create(&pool).expect("room for an empty structure")];
        let mut earlier = vec![bytes_of(pool.medium())];
        run(&pool, content, &mut states, FILLING / 2, &mut draw, |_, _| ());
        earlier.push(bytes_of(pool.medium()));
        run(&pool, content, &mut states, FILLING / 2, &mut draw, |_, _| ());
        let filled = bytes_of(&pool.close());
        earlier.push(filled.clone());
        states.drain(..states.len() - 1);

        let (image, right, before) = if ending == Ending::Crashed {
            crashed(scheme, content, &filled, &mut states, &mut draw)
        } else {
            let pool = started(live(&filled), scheme);
            let mut lanes = Vec::new();
            let half = |states: &mut Vec<State>, lanes: &mut Vec<usize>, draw: &mut Draw| {
                run(&pool, content, states, LAST_ONES / 2, draw, |lane, _| lanes.push(lane));
            };
            half(&mut states, &mut lanes, &mut draw);
            earlier.push(bytes_of(pool.medium()));
            half(&mut states, &mut lanes, &mut draw);
            let before = last_ones(&states, &lanes);
            let right = vec![states.pop().expect("a last state")];
            match ending {
                Ending::Closed => (bytes_of(&pool.close()), right, before),
                _ => (bytes_of(&pool.into_medium()), right, before),
            }
        };
        let sums = if checksums { ", checksums" } else { "" };
        let name = format!("{scheme}{sums}, {content:?}, {ending:?}");
        let is_sound = super::judge::check(&image).is_ok_and(|report| report.findings.is_empty());
        assert!(is_sound, "{name} is not sound before any damage");
        let areas = areas(&image);
        let allocated = allocated(&image, scheme);
        Self { name, scheme, checksums, content, image, earlier, right, before, areas, allocated }
    }
}

fn started(medium: Live<'_>, scheme: Scheme) -> Pool<Live<'_>> {
    let recovered = UnrecoveredPool::open(medium).and_then(|pool| pool.recover());
    recovered.and_then(|pool| pool.start(&options(scheme))).expect("a sound pool")
}

/// Runs transactions; `done` hears of each that changed something its lane and the number of the state
/// that it leaves. A pool that is full takes no more.
pub(super) fn run(
    pool: &Pool<Live<'_>>,
    content: Content,
    states: &mut Vec<State>,
    count: u64,
    draw: &mut Draw,
    mut done: impl FnMut(usize, u64),
) {
    for _ in 0..count {
        let lane = draw.below(u64::from(LANES)) as usize;
        let of_step = Draw::of(draw.next(), 0);
        let state = states.last().expect("a state to start from");
        if let Ok(state) = content.step(pool, lane, state, of_step) {
            states.push(state);
            done(lane, states.len() as u64 - 1);
        }
    }
}

/// An image that a power failure may leave somewhere in the last opening.
fn crashed(
    scheme: Scheme,
    content: Content,
    filled: &[u8],
    states: &mut Vec<State>,
    draw: &mut Draw,
) -> (Vec<u8>, Vec<State>, Vec<State>) {
    let medium = Recorder::from_image(filled.to_vec());
    let pool = started(Live::B(&medium), scheme);
    let mut lanes = Vec::new();
    run(&pool, content, states, LAST_ONES, draw, |lane, number| {
        lanes.push(lane);
        medium.mark(Mark::Ack(TxId(number)));
    });
    drop(pool);
    let mut found = None;
    let judge = |image: &ImageMedium, crash: &Crash<'_>| {
        // The latest is the one with the most in its log.
        found = Some((image.to_bytes(), crash.acked.len()));
        Ok::<(), Violation>(())
    };
    let log = medium.take_log();
    let settings = Exhaustive::new(Model::default()).crashes(1);
    settings.sample(filled, &log, draw.next(), 4, 1, judge).expect("units that can be drawn");
    let (image, acked) = found.expect("an image");
    let right = states[acked..].iter().take(2).cloned().collect();
    (image, right, last_ones(states, &lanes[..acked]))
}

/// What stood before the last transactions of each lane: its last record may lack, and one more that
/// shares its fence. `lanes` has the lane of each transaction, from the first state on.
fn last_ones(states: &[State], lanes: &[usize]) -> Vec<State> {
    let last = |lane: usize| (0..lanes.len()).rev().filter(move |nth| lanes[*nth] == lane).take(2);
    (0..LANES as usize).flat_map(last).map(|nth| states[nth].clone()).collect()
}

/// Which lines of the image belong to what.
fn areas(image: &[u8]) -> Vec<(Area, Vec<u64>)> {
    let geometry = UnrecoveredPool::open(live(image))
        .and_then(|pool| pool.info())
        .expect("a sound pool")
        .header
        .geometry;
    let copy = UnrecoveredPool::open(live(image)).and_then(|pool| pool.recover());
    let sums: Vec<u64> = copy.map_or(Vec::new(), |pool| {
        pool.checksum_lines().into_iter().map(|line| line.start().0).collect()
    });
    let mut areas = vec![
        (Area::Header, vec![0, 64]),
        (Area::Floor, vec![128]),
        (Area::Root, vec![192]),
        (Area::Size, vec![256]),
        (Area::Blank, (320..4096).step_by(64).collect()),
    ];
    let lanes = 0..geometry.lanes as usize;
    areas.push((Area::LaneHeader, lanes.clone().map(|lane| geometry.lane_at(lane).0).collect()));
    let ring = |lane| {
        (0..geometry.ring_lines()).map(move |line| geometry.ring_at(lane).0 + line * LINE_BYTES)
    };
    areas.push((Area::Ring, lanes.flat_map(ring).collect()));
    let (mut directory, mut bitmaps, mut data, mut empty) = (vec![], vec![], vec![], vec![]);
    for chunk in 0..geometry.chunks_in(image.len() as u64) {
        let at = geometry.chunk_at(chunk).0;
        if geometry.is_directory(chunk) {
            directory.extend((at..at + 8 * 64).step_by(64));
            continue;
        }
        let word = image[geometry.directory_at(chunk).0 as usize..].first_chunk();
        let word = u64::from_le_bytes(*word.expect("a directory in the image"));
        for line in (at..at + geometry.chunk_bytes).step_by(64) {
            let is_empty = image[line as usize..line as usize + 64].iter().all(|b| *b == 0);
            match word >> 48 & 0xff {
                1 if line == at => bitmaps.push(line),
                _ if sums.contains(&line) => {}
                _ if is_empty => empty.push(line),
                _ => data.push(line),
            }
        }
    }
    areas.extend([
        (Area::Directory, directory),
        (Area::Bitmap, bitmaps),
        (Area::Sums, sums),
        (Area::Data, data),
        (Area::Empty, empty),
    ]);
    areas.retain(|(_, lines)| !lines.is_empty());
    areas
}

/// The lines of all blocks, as recovery leaves them.
fn allocated(image: &[u8], scheme: Scheme) -> HashSet<u64> {
    let pool = started(live(image), scheme);
    let heap_at = pool.header().geometry.heap_at;
    let mut lane = pool.lane().expect("a lane that is free");
    let blocks = lane.run(|tx| {
        let places = (heap_at..image.len() as u64).step_by(16);
        let block = |at| tx.block_at(PoolOffset(at)).ok().map(|(bytes, _)| at..at + bytes);
        Ok(places.filter_map(block).collect::<Vec<_>>())
    });
    let lines = |block: Range<u64>| (block.start / 64 * 64..block.end).step_by(64);
    blocks.expect("a sound pool").into_iter().flat_map(lines).collect()
}

impl Base {
    /// Whether a line may belong to the log.
    pub fn is_log(&self, line: u64) -> bool {
        match self.area_of(line) {
            Some(Area::Ring) => true,
            Some(Area::Empty | Area::Data) => !self.allocated.contains(&(line / 64 * 64)),
            _ => false,
        }
    }

    /// What a line is for.
    pub fn area_of(&self, line: u64) -> Option<Area> {
        let at = PoolOffset(line).line().start().0;
        self.areas.iter().find(|(_, lines)| lines.contains(&at)).map(|(area, _)| *area)
    }
}
