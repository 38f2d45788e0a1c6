//! Where the published Archapt loses data: one small program for each point (ARC-n), that shows it
//! under a literal variant. `docs/archapt.md` says what became of each in the sound ones, which run
//! the same programs and lose nothing.
//!
//! A word cell with a line of its own stands for an object of one line. Cell n is line n of its
//! page, whose columns have seven lines: cells 0 to 6 fill column 0, cells 7 to 13 column 1. The LRU queue has room for one line, unless a point says otherwise, so two lines read
//! push out everything else.

use outlast::scheme::Reading;
use outlast::{Ack, Scheme};

use super::Scope;
use super::script::{LaneScript, Shape, Step};
use crate::Broken;

/// A point, and what shows it.
#[derive(Clone, Debug)]
pub struct Point {
    /// What the literal variant runs. Its name is the point's.
    pub scope: Scope,
    /// The literal variants in which it shows.
    pub schemes: &'static [Scheme],
    /// How the paper is read.
    pub reading: Reading,
    /// When commits are acknowledged.
    pub ack: Ack,
    /// What is wrong then.
    pub shows: Broken,
}

/// Both hosts.
pub const LITERAL: &[Scheme] = &[Scheme::UndoArchaptLiteral, Scheme::RedoArchaptLiteral];

const UNDO: &[Scheme] = &[Scheme::UndoArchaptLiteral];
const REDO: &[Scheme] = &[Scheme::RedoArchaptLiteral];

/// Cells that no transaction writes, at the end of the root block.
const OTHERS: [u64; 2] = [14, 15];

const SHAPE: Shape =
    Shape { words: 16, stride: 64, blocks: 0, block_bytes: 64, large_bytes: 0, filled: false };

fn write(cells: &[u64]) -> Vec<Step> {
    vec![Step::Write(cells.to_vec())]
}

/// Pushes everything else out of the queue.
fn push_out() -> Vec<Step> {
    OTHERS.map(Step::Read).into()
}

/// Acknowledgements before the first crash.
fn point(
    name: &'static str,
    about: &'static str,
    lanes: Vec<LaneScript>,
    from_ack: usize,
    shows: Broken,
) -> Point {
    let scope = Scope {
        name,
        about,
        shape: SHAPE,
        lanes,
        pool_bytes: 96 << 10,
        lane_bytes: 2048,
        preemptions: 0,
        schedules_max: u64::MAX,
        crashes: 1,
        shared_lane: false,
        lock_always: true,
        of_pages: false,
        queue_lines: 1,
        step_every: 1,
        beside_rings: 1,
        pages_beside: 0,
        littered: false,
        from_ack,
        checksums: true,
        used: false,
        of_other_form: false,
    };
    let (reading, ack) = (Reading::default(), Ack::Logical);
    Point { scope, schemes: LITERAL, reading, ack, shows }
}

/// The scope of that point.
pub fn named(name: &str) -> Option<Point> {
    all().into_iter().find(|point| point.scope.name.eq_ignore_ascii_case(name))
}

/// The names of all points.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|point| point.scope.name).collect()
}

/// Every point that loses data.
pub fn all() -> Vec<Point> {
    vec![
        Point {
            schemes: UNDO,
            ..point(
                "ARC-1",
                "answered at the logical commit, and taken back after the crash",
                vec![vec![write(&[0])]],
                1,
                Broken::Lost,
            )
        },
        Point {
            ack: Ack::Physical,
            ..point(
                "ARC-1 physical",
                "a client that waits for its answer, and no other client that would push its data out",
                vec![vec![write(&[0])]],
                0,
                Broken::Stuck,
            )
        },
        point(
            "ARC-2",
            "two objects of two lines whose log is gone, stale all four: two rows, two columns",
            vec![vec![write(&[0, 1, 7, 8]), push_out()]],
            2,
            Broken::Refused,
        ),
        point(
            "ARC-3",
            "a large object, all of it stale",
            vec![vec![write(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), push_out()]],
            2,
            Broken::Refused,
        ),
        Point {
            reading: Reading::RowsOnceBuilt,
            ..point(
                "ARC-4",
                "one stale line, whose column says so and whose row was not built yet",
                vec![vec![write(&[0]), push_out()]],
                2,
                Broken::Refused,
            )
        },
        Point {
            schemes: REDO,
            ..point(
                "ARC-6",
                "a crash while an object of the same row gets its checksums",
                vec![vec![write(&[0]), push_out(), write(&[7]), push_out()]],
                3,
                Broken::Refused,
            )
        },
        Point {
            reading: Reading::NothingOnRewrite,
            ..point(
                "ARC-7",
                "an object written again and flushed, corrected to what its checksums still say",
                vec![vec![write(&[0]), push_out(), write(&[0]), vec![Step::Read(0)]]],
                4,
                Broken::Lost,
            )
        },
        point(
            "ARC-8",
            "an object written again gets new checksums, and the crash comes before the commit",
            vec![vec![write(&[0]), push_out(), write(&[0, 7])]],
            2,
            Broken::Torn,
        ),
        {
            let mut crossed = point(
                "ARC-9",
                "a transaction over an older one's data is physically committed before that one",
                vec![
                    vec![write(&[0, 7])],
                    vec![write(&[0])],
                    vec![vec![Step::Read(0)], vec![Step::Read(7)]],
                ],
                0,
                Broken::Lost,
            );
            // One of those that wait is answered before the other one's data is flushed.
            crossed.scope.preemptions = 1;
            crossed.scope.queue_lines = 64;
            Point { ack: Ack::Physical, ..crossed }
        },
        {
            let mut transfer = point(
                "ARC-10",
                "256 more in one line and as much less in another of the same column, both stale",
                // 0x101 and 0x301 become 0x201 each: lane 1 comes last.
                vec![vec![write(&[0])], vec![write(&[0, 1]), push_out()], vec![write(&[1])]],
                4,
                Broken::Lost,
            );
            transfer.scope.preemptions = 1;
            transfer
        },
        point(
            "ARC-11",
            "two stale lines in different rows and columns, which differ in what they lack",
            vec![vec![
                // What stands where their rows and columns cross has checksums and is durable.
                write(&[1, 7]),
                push_out(),
                write(&[1, 7]),
                vec![Step::Read(1), Step::Read(7)],
                write(&[0]),
                write(&[8]),
                push_out(),
            ]],
            7,
            Broken::Refused,
        ),
        Point {
            schemes: UNDO,
            ack: Ack::Physical,
            ..point(
                "ARC-12",
                "an object has checksums, and its transaction is rolled back",
                vec![vec![write(&[0, 7])], vec![push_out()]],
                0,
                Broken::Torn,
            )
        },
    ]
}
