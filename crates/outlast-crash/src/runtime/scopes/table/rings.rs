//! Short rings, used over and over: sweeping, ageing, lanes that change hands.

use super::{APART, PACKED, ring, rings, turns, write};
use crate::runtime::scopes::Scope;
use crate::runtime::scopes::script::{Shape, Step};

/// Transactions whose records take this number of lines, one or two, and the words that these change.
fn sized(lines: &[u64], [one, two]: [&[u64]; 2]) -> Vec<Vec<Step>> {
    lines.iter().map(|lines| write(if *lines == 2 { two } else { one })).collect()
}

/// Two lanes of such transactions, in orders that do not match.
fn uneven(first: [&[u64]; 2], second: [&[u64]; 2]) -> Vec<Vec<Vec<Step>>> {
    vec![sized(&[2, 1, 2, 1], first), sized(&[2, 2, 1, 2, 2, 1, 2], second)]
}

pub(super) fn all() -> Vec<Scope> {
    vec![
        Scope {
            name: "ring",
            about: "a ring of three lines, used over and over",
            lanes: vec![turns(0, 9)],
            ..ring()
        },
        Scope {
            name: "ring uneven",
            about: "a ring of five lines with records of one and two lines",
            shape: APART,
            lanes: vec![sized(&[2, 2, 2, 1, 2, 1, 1, 2, 2, 1, 2, 2, 2], [&[1], &[0, 1, 2, 3]])],
            lane_bytes: 384,
            crashes: 1,
            ..ring()
        },
        Scope {
            name: "littered",
            about: "free chunks full of what looks like records become the log's and a class's",
            shape: Shape { words: 7, blocks: 1, block_bytes: 128, large_bytes: 12_000, ..APART },
            lanes: vec![vec![
                write(&[0, 1, 2, 3, 4, 5, 6]),
                write(&[0]),
                vec![Step::Publish(7)],
                write(&[0, 1]),
            ]],
            crashes: 1,
            littered: true,
            used: false,
            ..ring()
        },
        Scope {
            name: "other form",
            about: "rings that hold records of the other form",
            lanes: vec![turns(0, 2), turns(2, 1)],
            preemptions: 0,
            // The next opening looks at the whole ring.
            crashes: 1,
            of_other_form: true,
            ..rings()
        },
        Scope {
            name: "rings",
            about: "two rings, of which one is used again while the other holds old records",
            shape: APART,
            lanes: vec![
                vec![write(&[0, 3])],
                vec![write(&[0]), write(&[0, 1]), write(&[0]), write(&[1]), write(&[0])],
            ],
            ..rings()
        },
        Scope {
            name: "abort rings",
            about: "a lane that gives up, and a floor that the other one moves",
            shape: APART,
            lanes: vec![
                vec![vec![Step::Write(vec![0]), Step::Abort]],
                vec![write(&[3]), write(&[3]), write(&[3])],
            ],
            ..rings()
        },
        Scope {
            name: "rings crossed",
            about: "an old record of one ring, and newer ones of the other that leave its word alone",
            shape: APART,
            lanes: vec![
                vec![write(&[0])],
                vec![write(&[0]), write(&[1]), write(&[2]), write(&[1])],
            ],
            ..rings()
        },
        Scope {
            name: "rings seen",
            about: "a lane that has seen half of what is in another's ring, and sweeps while that commits",
            shape: Shape { words: 16, ..PACKED },
            lanes: vec![
                vec![
                    vec![Step::After(2)],
                    vec![Step::Read(1), Step::Write((8..15).collect())],
                    vec![Step::After(3)],
                    write(&[8, 9, 10, 11, 12, 13, 14]),
                    write(&[8, 9, 10, 11, 12, 13, 14]),
                ],
                vec![
                    write(&[0, 1, 2, 3, 4, 5, 6]),
                    write(&[1]),
                    vec![Step::After(2)],
                    write(&[0, 1, 2, 3, 4, 5, 6]),
                    write(&[0, 1, 2, 3, 4, 5, 6]),
                ],
            ],
            // Five lines.
            lane_bytes: 384,
            step_every: 64,
            crashes: 1,
            from_ack: 2,
            ..rings()
        },
        Scope {
            name: "rings crossed wide",
            about: "as rings crossed, with rings that are swept several records at a time",
            shape: APART,
            lanes: vec![
                vec![write(&[0])],
                vec![write(&[0]), write(&[1]), write(&[2]), write(&[1]), write(&[2]), write(&[1])],
            ],
            lane_bytes: 640,
            preemptions: 0,
            crashes: 1,
            ..rings()
        },
        Scope {
            name: "rings apart",
            about: "two rings over different words, so that neither lane waits for the other",
            shape: APART,
            lanes: vec![
                vec![write(&[0, 3])],
                vec![write(&[1]), write(&[2]), write(&[1, 2]), write(&[1]), write(&[2])],
            ],
            // Nothing ages: only the floor has lines flushed.
            queue_lines: 64,
            ..rings()
        },
        Scope {
            name: "rings of pages",
            about: "two lanes whose words lie on pages of their own, in turns",
            shape: Shape { words: 8, ..APART },
            lanes: uneven([&[1], &[0, 1, 2, 3]], [&[5], &[4, 5, 6, 7]]),
            lane_bytes: 384,
            of_pages: true,
            crashes: 1,
            ..rings()
        },
        Scope {
            name: "rings uneven",
            about: "two rings of five lines with records of one and two lines, swept by each other",
            shape: Shape { words: 16, ..PACKED },
            lanes: uneven([&[1], &[0, 1, 2, 3, 4, 5, 6]], [&[9], &[8, 9, 10, 11, 12, 13, 14]]),
            lane_bytes: 384,
            crashes: 1,
            ..rings()
        },
        Scope {
            name: "aged",
            about: "lines that age out while one lane works, and floors that the other one moves",
            shape: APART,
            lanes: vec![
                vec![write(&[0]), write(&[1])],
                vec![write(&[3]), write(&[3]), write(&[3]), write(&[3])],
            ],
            queue_lines: 1,
            step_every: 1,
            ..rings()
        },
        Scope {
            name: "aged wide",
            about: "lines that age out at the end of a lane's work, before a ring is full",
            shape: APART,
            lanes: vec![vec![write(&[0]), write(&[1])], vec![write(&[3]); 7]],
            queue_lines: 1,
            step_every: 1,
            lane_bytes: 448,
            crashes: 1,
            ..rings()
        },
        Scope {
            name: "stepped",
            about: "lanes that look after what their logs cover at every commit, each to its own end",
            shape: APART,
            lanes: vec![
                vec![write(&[0]), write(&[1]), write(&[2])],
                vec![write(&[3]), write(&[3]), write(&[3]), write(&[3])],
            ],
            queue_lines: 64,
            step_every: 1,
            crashes: 1,
            ..rings()
        },
        Scope {
            name: "stepped wide",
            about: "a lane that leaves flushes behind, and another whose ring runs full",
            shape: APART,
            lanes: vec![
                vec![write(&[0]), write(&[1]), write(&[1]), write(&[1]), write(&[1]), write(&[1])],
                vec![write(&[3]); 10],
            ],
            // Eight lines.
            lane_bytes: 576,
            queue_lines: 64,
            step_every: 1,
            crashes: 1,
            // The log is full by then.
            from_ack: 14,
            used: false,
            ..rings()
        },
        Scope {
            name: "unstepped",
            about: "as rings uneven, where rings run full before a lane looks after what they cover",
            shape: Shape { words: 16, ..PACKED },
            lanes: uneven([&[1], &[0, 1, 2, 3, 4, 5, 6]], [&[9], &[8, 9, 10, 11, 12, 13, 14]]),
            lane_bytes: 384,
            step_every: 64,
            crashes: 1,
            from_ack: 3,
            ..rings()
        },
        Scope {
            name: "handover wide",
            about: "a thread that leaves flushes behind, and another on its lane that moves the floor",
            shape: APART,
            lanes: vec![
                vec![write(&[0]), write(&[1]), write(&[2]), write(&[3]), write(&[2]), write(&[3])],
                vec![write(&[2]), write(&[3]), write(&[2])],
            ],
            shared_lane: true,
            // Eight lines.
            lane_bytes: 576,
            queue_lines: 64,
            step_every: 1,
            preemptions: 0,
            crashes: 1,
            used: false,
            ..rings()
        },
        Scope {
            name: "handover",
            about: "two threads that take turns on one lane",
            shape: APART,
            lanes: vec![vec![write(&[0]), write(&[1])], turns(0, 4)],
            shared_lane: true,
            ..rings()
        },
        Scope {
            name: "handover alone",
            about: "two threads that take turns on one lane, alone each time",
            shape: APART,
            lanes: vec![vec![write(&[0]), write(&[1])], turns(0, 3)],
            shared_lane: true,
            lane_bytes: 1024,
            ..ring()
        },
    ]
}
