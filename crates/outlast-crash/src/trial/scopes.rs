//! The scopes: small programs that between them reach every part of the runtime.

use outlast::Scheme;

use super::script::{LaneScript, Shape, Step};
use super::{LONG_LANE_BYTES, Scope};

/// Word cells that share lines, and room behind them for the transaction after recovery.
const PACKED: Shape =
    Shape { words: 4, stride: 8, blocks: 0, block_bytes: 64, large_bytes: 0, filled: false };

/// Word cells with a line each.
const APART: Shape = Shape { stride: 64, ..PACKED };

/// Two word cells and two block cells.
const BLOCKS: Shape = Shape { words: 2, blocks: 2, block_bytes: 128, large_bytes: 5000, ..PACKED };

fn write(cells: &[u64]) -> Vec<Step> {
    vec![Step::Write(cells.to_vec())]
}

/// A transaction that is acknowledged by a later `SYNC`.
fn later(steps: Vec<Step>) -> Vec<Step> {
    [vec![Step::Later], steps].concat()
}

/// Instead of a transaction.
fn sync() -> Vec<Step> {
    vec![Step::Sync]
}

/// Instead of a transaction.
fn look() -> Vec<Step> {
    vec![Step::Look]
}

fn scope(name: &'static str, about: &'static str, shape: Shape, lanes: Vec<LaneScript>) -> Scope {
    Scope {
        name,
        about,
        shape,
        lock_always: lanes.len() > 1,
        lanes,
        pool_bytes: 96 << 10,
        lane_bytes: 1024,
        preemptions: 1,
        schedules_max: u64::MAX,
        crashes: 2,
        shared_lane: false,
        of_pages: false,
        queue_lines: 2,
        step_every: 2,
        beside_rings: 1,
        pages_beside: 0,
        littered: false,
        from_ack: 0,
        checksums: false,
        used: false,
        of_other_form: false,
    }
}

/// *words*: `transactions` in all, dealt to `lanes` in turn, each reading and writing all of
/// `words` words but one, on lines of their own or shared.
pub fn words(transactions: usize, words: u64, lanes: usize, packed: bool) -> Scope {
    let mut scripts = vec![Vec::new(); lanes];
    for tx in 0..transactions {
        let cells: Vec<u64> =
            (0..words).filter(|c| words == 1 || *c != tx as u64 % words).collect();
        let spared = Step::Read(tx as u64 % words);
        scripts[tx % lanes].push(vec![Step::Write(cells), spared]);
    }
    let shape = Shape { words, stride: if packed { 8 } else { 64 }, ..PACKED };
    scope("words", "transactions over a few words, for the verification rate", shape, scripts)
}

/// All fixed scopes that a scheme can be tried in.
pub fn of(scheme: Scheme) -> impl Iterator<Item = Scope> {
    all().into_iter().filter(move |scope| scope.tries(scheme))
}

/// All fixed scopes, smallest first.
pub fn all() -> Vec<Scope> {
    let alone = vec![vec![write(&[0, 1]), write(&[1, 2, 3]), write(&[0, 3])]];
    let reread =
        vec![Step::Write(vec![0, 1]), Step::Read(0), Step::Write(vec![1, 2]), Step::Write(vec![0])];
    // Three lines of ring: records take at most one.
    let ring = Scope { lane_bytes: 256, used: true, ..scope("", "", PACKED, Vec::new()) };
    let rings = Scope { lock_always: true, ..ring.clone() };
    let sums = Scope { checksums: true, queue_lines: 1, step_every: 1, ..ring.clone() };
    let turns = |first: u64, count: u64| -> LaneScript {
        (first..first + count).map(|i| write(&[i % 4, (i + 1) % 4])).collect()
    };
    vec![
        scope("alone", "one lane, words that share a line", PACKED, alone.clone()),
        scope("apart", "one lane, words on lines of their own", APART, alone),
        scope(
            "rewrite",
            "words written twice in one transaction, and across word boundaries",
            PACKED,
            vec![vec![reread, vec![Step::WriteAcross(1)], vec![Step::WriteAcross(0)]]],
        ),
        scope(
            "later",
            "asynchronous commits, and what makes them durable",
            APART,
            vec![vec![
                later(write(&[0, 1])),
                later(write(&[1, 2])),
                sync(),
                later(write(&[0])),
                write(&[0, 3]),
                look(),
                later(write(&[2])),
                vec![Step::Read(2)],
                later(write(&[1])),
            ]],
        ),
        scope(
            "later two",
            "asynchronous commits of a lane, whose words another one wants",
            APART,
            vec![vec![later(write(&[0, 1])), later(write(&[1]))], vec![write(&[0, 2])]],
        ),
        scope(
            "later group",
            "asynchronous commits of two lanes, of which one sees to both",
            APART,
            vec![
                vec![later(write(&[0, 1])), later(write(&[1]))],
                vec![later(write(&[2, 3])), look(), sync()],
            ],
        ),
        Scope {
            lock_always: false,
            ..scope(
                "later joined",
                "asynchronous commits of a lane that runs alone until another begins",
                APART,
                vec![vec![later(write(&[0, 1])), later(write(&[1]))], vec![write(&[1, 0])]],
            )
        },
        Scope {
            lock_always: false,
            // One lane has to begin before the other is no longer alone.
            preemptions: 2,
            crashes: 1,
            ..scope(
                "later own",
                "asynchronous commits to a page that a lane has to itself until another comes",
                APART,
                vec![vec![write(&[2]), write(&[1])], vec![later(write(&[1]))]],
            )
        },
        scope(
            "later blocks",
            "blocks that asynchronous commits take, change and give back",
            BLOCKS,
            vec![vec![
                later(vec![Step::Publish(2)]),
                later(vec![Step::Rewrite(2)]),
                later(vec![Step::PublishLarge(3)]),
                later(vec![Step::Rewrite(3)]),
                sync(),
                later(vec![Step::Publish(2)]),
                later(vec![Step::Clear(2)]),
                write(&[0]),
            ]],
        ),
        Scope {
            name: "later wide",
            about: "a lane that leaves flushes and a batch behind, and another that sees to the batch",
            shape: APART,
            lanes: vec![
                [
                    vec![write(&[0])],
                    vec![write(&[1]); 5],
                    vec![later(write(&[2])), vec![Step::Stay]],
                ]
                .concat(),
                [vec![sync()], vec![write(&[3]); 10]].concat(),
            ],
            // Eight lines.
            lane_bytes: 576,
            queue_lines: 64,
            step_every: 1,
            preemptions: 0,
            crashes: 1,
            // The log is full by then.
            from_ack: 14,
            used: false,
            ..rings.clone()
        },
        Scope {
            name: "later ring",
            about: "asynchronous commits of two lanes over short rings, made durable by each other",
            shape: APART,
            lanes: vec![
                vec![later(write(&[0])), sync(), later(write(&[1])), sync(), later(write(&[0]))],
                vec![
                    later(write(&[2])),
                    sync(),
                    later(write(&[3])),
                    sync(),
                    write(&[2]),
                    write(&[3]),
                ],
            ],
            crashes: 1,
            ..rings.clone()
        },
        scope(
            "abort",
            "transactions that give up, between others",
            APART,
            vec![vec![write(&[0, 1]), vec![Step::Write(vec![0, 2]), Step::Abort], write(&[0, 1])]],
        ),
        scope(
            "pair",
            "two lanes with one transaction each over a common word",
            APART,
            vec![vec![write(&[0, 1])], vec![write(&[0])]],
        ),
        Scope {
            crashes: 1,
            ..scope(
                "pair once",
                "as pair, for mistakes that need no second crash to show",
                APART,
                vec![vec![write(&[0, 1])], vec![write(&[0])]],
            )
        },
        scope(
            "abort two",
            "a lane that gives up, and another that goes on with its words",
            APART,
            vec![vec![vec![Step::Write(vec![0]), Step::Abort]], vec![write(&[0, 1]), write(&[0])]],
        ),
        scope(
            "root",
            "the root is set again",
            PACKED,
            vec![vec![vec![Step::Write(vec![0]), Step::SetRoot], write(&[0, 1])]],
        ),
        scope(
            "two",
            "two lanes over common words",
            APART,
            vec![vec![write(&[0, 1]), write(&[1, 2])], vec![write(&[1, 0])]],
        ),
        Scope {
            lock_always: false,
            ..scope(
                "joined",
                "a lane that runs alone until another begins",
                APART,
                vec![vec![write(&[0, 1]), write(&[1, 2]), write(&[1])], vec![write(&[1, 0])]],
            )
        },
        Scope {
            lock_always: false,
            preemptions: 2,
            crashes: 1,
            ..scope(
                "own",
                "a page that a lane has to itself until another comes",
                APART,
                vec![vec![write(&[2]), write(&[1, 0])], vec![write(&[0, 1]), write(&[1])]],
            )
        },
        Scope {
            name: "ring",
            about: "a ring of three lines, used over and over",
            lanes: vec![turns(0, 9)],
            ..ring.clone()
        },
        Scope {
            name: "ring uneven",
            about: "a ring of five lines with records of one and two lines",
            shape: APART,
            lanes: vec![
                [2, 2, 2, 1, 2, 1, 1, 2, 2, 1, 2, 2, 2]
                    .map(|lines| write(if lines == 2 { &[0, 1, 2, 3] } else { &[1] }))
                    .to_vec(),
            ],
            lane_bytes: 384,
            crashes: 1,
            ..ring.clone()
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
            ..ring.clone()
        },
        Scope {
            name: "other form",
            about: "rings that hold records of the other form",
            lanes: vec![turns(0, 2), turns(2, 1)],
            preemptions: 0,
            // Whoever opens it again looks at the whole ring.
            crashes: 1,
            of_other_form: true,
            ..rings.clone()
        },
        Scope {
            name: "rings",
            about: "two rings, of which one is used again while the other holds old records",
            shape: APART,
            lanes: vec![
                vec![write(&[0, 3])],
                vec![write(&[0]), write(&[0, 1]), write(&[0]), write(&[1]), write(&[0])],
            ],
            ..rings.clone()
        },
        Scope {
            name: "abort rings",
            about: "a lane that gives up, and a floor that the other one moves",
            shape: APART,
            lanes: vec![
                vec![vec![Step::Write(vec![0]), Step::Abort]],
                vec![write(&[3]), write(&[3]), write(&[3])],
            ],
            ..rings.clone()
        },
        Scope {
            name: "rings crossed",
            about: "an old record of one ring, and newer ones of the other that leave its word alone",
            shape: APART,
            lanes: vec![
                vec![write(&[0])],
                vec![write(&[0]), write(&[1]), write(&[2]), write(&[1])],
            ],
            ..rings.clone()
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
            ..rings.clone()
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
            ..rings.clone()
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
            ..rings.clone()
        },
        Scope {
            name: "rings of pages",
            about: "two lanes whose words lie on pages of their own, in turns",
            shape: Shape { words: 8, ..APART },
            lanes: vec![
                [2, 1, 2, 1]
                    .map(|lines| write(if lines == 2 { &[0, 1, 2, 3] } else { &[1] }))
                    .to_vec(),
                [2, 2, 1, 2, 2, 1, 2]
                    .map(|lines| write(if lines == 2 { &[4, 5, 6, 7] } else { &[5] }))
                    .to_vec(),
            ],
            lane_bytes: 384,
            of_pages: true,
            crashes: 1,
            ..rings.clone()
        },
        Scope {
            name: "rings uneven",
            about: "two rings of five lines with records of one and two lines, swept by each other",
            shape: Shape { words: 16, ..PACKED },
            lanes: vec![
                [2, 1, 2, 1]
                    .map(|lines| write(if lines == 2 { &[0, 1, 2, 3, 4, 5, 6] } else { &[1] }))
                    .to_vec(),
                [2, 2, 1, 2, 2, 1, 2]
                    .map(|lines| write(if lines == 2 { &[8, 9, 10, 11, 12, 13, 14] } else { &[9] }))
                    .to_vec(),
            ],
            lane_bytes: 384,
            crashes: 1,
            ..rings.clone()
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
            ..rings.clone()
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
            ..rings.clone()
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
            ..rings.clone()
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
            ..rings.clone()
        },
        Scope {
            name: "unstepped",
            about: "as rings uneven, where rings run full before anybody looks after what they cover",
            shape: Shape { words: 16, ..PACKED },
            lanes: vec![
                [2, 1, 2, 1]
                    .map(|lines| write(if lines == 2 { &[0, 1, 2, 3, 4, 5, 6] } else { &[1] }))
                    .to_vec(),
                [2, 2, 1, 2, 2, 1, 2]
                    .map(|lines| write(if lines == 2 { &[8, 9, 10, 11, 12, 13, 14] } else { &[9] }))
                    .to_vec(),
            ],
            lane_bytes: 384,
            step_every: 64,
            crashes: 1,
            from_ack: 3,
            ..rings.clone()
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
            ..rings.clone()
        },
        Scope {
            name: "handover",
            about: "two threads that take turns on one lane",
            shape: APART,
            lanes: vec![vec![write(&[0]), write(&[1])], turns(0, 4)],
            shared_lane: true,
            ..rings.clone()
        },
        Scope {
            name: "handover alone",
            about: "two threads that take turns on one lane, alone each time",
            shape: APART,
            lanes: vec![vec![write(&[0]), write(&[1])], turns(0, 3)],
            shared_lane: true,
            lane_bytes: 1024,
            ..ring.clone()
        },
        scope(
            "blocks changed",
            "blocks changed in place and given back at once, and used again",
            BLOCKS,
            vec![vec![
                vec![Step::Publish(2)],
                vec![Step::ChangeAndClear(2)],
                vec![Step::Publish(3)],
            ]],
        ),
        scope(
            "blocks small",
            "a new block in a line that the transaction has stored to in place",
            Shape { block_bytes: 32, ..BLOCKS },
            vec![vec![
                vec![Step::Publish(2)],
                vec![Step::Rewrite(2), Step::Publish(3)],
                vec![Step::Write(vec![0])],
            ]],
        ),
        Scope {
            name: "blocks small ring",
            about: "blocks that share lines, of which some are given back, over a short ring",
            shape: Shape { block_bytes: 32, ..BLOCKS },
            lanes: vec![vec![
                vec![Step::Publish(2)],
                vec![Step::Publish(3)],
                vec![Step::Rewrite(3)],
                vec![Step::Clear(2)],
                write(&[0]),
                write(&[1]),
                write(&[0]),
                write(&[1]),
                write(&[0]),
                write(&[1]),
            ]],
            lane_bytes: 512,
            crashes: 1,
            queue_lines: 64,
            ..ring.clone()
        },
        Scope {
            name: "blocks small wide",
            about: "as blocks small ring, where the lane covers its log before the ring is full",
            shape: Shape { block_bytes: 32, filled: true, ..BLOCKS },
            lanes: vec![
                [vec![vec![Step::Rewrite(3)], vec![Step::Clear(2)]], vec![write(&[0]); 14]]
                    .concat(),
            ],
            lane_bytes: 1088,
            crashes: 1,
            queue_lines: 64,
            step_every: 1,
            from_ack: 5,
            used: false,
            ..ring.clone()
        },
        Scope {
            queue_lines: 64,
            ..scope(
                "blocks linked first",
                "blocks that are filled when a cell points to them already",
                Shape { block_bytes: 320, ..BLOCKS },
                vec![vec![vec![Step::LinkThenFill(2)], vec![Step::LinkThenFill(2)]]],
            )
        },
        scope(
            "blocks",
            "blocks published, replaced, changed in place and given back",
            BLOCKS,
            vec![vec![
                vec![Step::Publish(2)],
                vec![Step::Rewrite(2)],
                vec![Step::Clear(2), Step::Publish(3)],
                vec![Step::Publish(3), Step::Write(vec![0])],
            ]],
        ),
        Scope {
            schedules_max: 40,
            ..scope(
                "blocks two",
                "blocks of two lanes",
                BLOCKS,
                vec![
                    vec![vec![Step::Publish(2)], vec![Step::Publish(2)]],
                    vec![vec![Step::Publish(3)], vec![Step::Rewrite(2)]],
                ],
            )
        },
        Scope {
            name: "blocks together",
            about: "blocks of two lanes where there is one chunk for both",
            shape: BLOCKS,
            // A directory, the root's chunk and the class's.
            pool_bytes: 4096 + 4096 + 3 * 4096,
            beside_rings: 0,
            // Nothing but the class takes chunks.
            lane_bytes: LONG_LANE_BYTES,
            lanes: vec![vec![vec![Step::Publish(2)]], vec![vec![Step::Publish(3)]]],
            lock_always: true,
            crashes: 1,
            ..scope("", "", BLOCKS, Vec::new())
        },
        Scope {
            name: "blocks unlogged",
            about: "blocks that redo does not log, freed and used again",
            shape: Shape { block_bytes: 320, ..BLOCKS },
            lanes: vec![vec![
                vec![Step::Publish(2)],
                vec![Step::Rewrite(2)],
                vec![Step::Publish(2)],
                vec![Step::Publish(3)],
                vec![Step::Publish(2)],
            ]],
            // More than the ring has: what cannot age in the log is flushed for the commit.
            queue_lines: 64,
            ..scope("", "", BLOCKS, Vec::new())
        },
        Scope {
            name: "blocks logged",
            about: "as blocks unlogged, where by age their contents stay in the log",
            shape: Shape { block_bytes: 320, ..BLOCKS },
            lanes: vec![vec![
                vec![Step::LinkThenFill(2)],
                vec![Step::Rewrite(2)],
                vec![Step::Publish(2)],
            ]],
            ..scope("", "", BLOCKS, Vec::new())
        },
        Scope {
            name: "chunks",
            about: "chunks of a large block that become a class's, and the other way round",
            // A directory, the root's chunk and the two of the large block.
            pool_bytes: 4096 + 4096 + 4 * 4096,
            lanes: vec![vec![
                vec![Step::PublishLarge(2)],
                vec![Step::Clear(2)],
                vec![Step::Publish(2)],
                vec![Step::Clear(2)],
                vec![Step::PublishLarge(3)],
            ]],
            ..scope("", "", BLOCKS, Vec::new())
        },
        Scope {
            name: "chunks logged",
            about: "a class's last chunk that becomes the log's",
            shape: Shape { words: 7, blocks: 1, block_bytes: 128, ..APART },
            // A directory, the root's chunk and the class's.
            pool_bytes: 4096 + 4096 + 3 * 4096,
            // Room for the first two transactions of a journal, not for the third.
            lane_bytes: 704,
            beside_rings: 2,
            lanes: vec![vec![
                vec![Step::Publish(7)],
                vec![Step::Clear(7)],
                write(&[0, 1, 2, 3, 4, 5, 6]),
            ]],
            crashes: 1,
            ..scope("", "", APART, Vec::new())
        },
        Scope {
            name: "beyond",
            about: "records that the ring cannot hold, in regions of the heap, again and again",
            shape: Shape { words: 7, ..APART },
            lanes: vec![vec![
                write(&[0, 1, 2, 3, 4, 5, 6]),
                write(&[1, 0, 3, 2, 5, 4, 6]),
                write(&[0, 6]),
            ]],
            ..ring.clone()
        },
        Scope {
            name: "abort beyond",
            about: "transactions that give up when their records have left the ring",
            shape: Shape { words: 7, blocks: 1, ..APART },
            lanes: vec![vec![
                vec![Step::Write(vec![0, 1, 2, 3, 4, 5, 6]), Step::Abort],
                vec![Step::Publish(7)],
                write(&[0]),
            ]],
            ..ring.clone()
        },
        Scope {
            name: "sums",
            about: "checksums, over a short ring",
            lanes: vec![turns(0, 4)],
            ..sums.clone()
        },
        Scope {
            name: "sums apart",
            about: "checksums of words on lines of their own",
            shape: Shape { words: 2, ..APART },
            lanes: vec![vec![write(&[0]), write(&[1]), write(&[0, 1]), write(&[0])]],
            ..sums.clone()
        },
        Scope {
            name: "sums two",
            about: "checksums of lines that two lanes store to",
            shape: Shape { words: 2, ..APART },
            lanes: vec![vec![write(&[0])], vec![write(&[1]), write(&[1]), write(&[1])]],
            lock_always: true,
            crashes: 1,
            ..sums.clone()
        },
        Scope {
            name: "sums settled",
            about: "checksums of a page that the log has left, while another one changes",
            shape: Shape { words: 1, blocks: 1, block_bytes: 64, filled: true, ..BLOCKS },
            lanes: vec![vec![vec![Step::Rewrite(1)], write(&[0]), write(&[0]), write(&[0])]],
            from_ack: 3,
            ..sums.clone()
        },
        Scope {
            name: "sums blocks",
            about: "checksums of blocks that share a line, given back and taken",
            shape: Shape { words: 1, blocks: 2, block_bytes: 32, filled: true, ..BLOCKS },
            lanes: vec![vec![
                vec![Step::Clear(1)],
                vec![Step::Publish(1)],
                write(&[0]),
                write(&[0]),
            ]],
            crashes: 1,
            ..sums.clone()
        },
        Scope {
            name: "sums left",
            about: "a block with what a transaction left there that gave up",
            shape: Shape { words: 1, blocks: 1, block_bytes: 320, ..BLOCKS },
            // A directory, the root's chunk and the one of both lanes' blocks.
            pool_bytes: 4096 + 4096 + 3 * 4096,
            lanes: vec![
                vec![vec![Step::Scribble, Step::Abort]],
                vec![
                    vec![Step::Publish(1)],
                    write(&[0]),
                    write(&[0]),
                    write(&[0]),
                    write(&[0]),
                    write(&[0]),
                ],
            ],
            lock_always: true,
            queue_lines: 64,
            schedules_max: 8,
            // By then the log has left the block's page.
            from_ack: 3,
            crashes: 1,
            ..sums.clone()
        },
        Scope {
            name: "sums large",
            about: "checksums of blocks that take whole chunks",
            shape: Shape { words: 1, blocks: 1, large_bytes: 5000, ..BLOCKS },
            lanes: vec![vec![
                vec![Step::PublishLarge(1)],
                vec![Step::Rewrite(1)],
                vec![Step::Clear(1)],
                write(&[0]),
            ]],
            crashes: 1,
            ..sums.clone()
        },
        forged(&ring, "forged undo", true, 1000),
        forged(&ring, "forged redo", false, 3),
    ]
}

/// Space that a user filled with what looks like the log's records becomes the log's.
fn forged(ring: &Scope, name: &'static str, undo: bool, counter: u64) -> Scope {
    let cell = 7;
    Scope {
        name,
        about: "a large record where a user's bytes look like records",
        shape: Shape { words: 7, blocks: 1, large_bytes: 8000, ..APART },
        // A directory, the root's chunk, the two of the large block and one for its log. The last
        // record finds no other space than the forged one.
        pool_bytes: 4096 + 4096 + 5 * 4096,
        lanes: vec![vec![
            vec![Step::Forge { cell, undo, counter }],
            vec![Step::ClearForged { cell, undo, counter }],
            write(&[0, 1, 2, 3, 4, 5, 6]),
        ]],
        crashes: 1,
        used: false,
        // Undo that is sealed logs such a transaction twice.
        beside_rings: 2,
        pages_beside: 3,
        ..ring.clone()
    }
}
