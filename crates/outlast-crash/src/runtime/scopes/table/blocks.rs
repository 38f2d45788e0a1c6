//! Blocks, chunks, and space that the log borrows.

use super::{APART, BLOCKS, ring, scope, write};
use crate::runtime::scopes::script::{Shape, Step};
use crate::runtime::scopes::{LONG_LANE_BYTES, Scope};

pub(super) fn all() -> Vec<Scope> {
    vec![
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
            ..ring()
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
            ..ring()
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
            name: "chunks ahead",
            about: "chunks that become a class's, where a fence is a sync two at once",
            // Four blocks have a chunk to themselves.
            shape: Shape { words: 1, blocks: 6, block_bytes: 896, ..BLOCKS },
            // A directory, the root's chunk, four for blocks, and one for the log.
            pool_bytes: 4096 + 4096 + 6 * 4096,
            lane_bytes: LONG_LANE_BYTES,
            beside_rings: 0,
            lanes: vec![vec![
                (1..5).map(Step::Publish).collect(),
                vec![Step::Publish(5)],
                vec![Step::Publish(6), Step::Clear(5)],
            ]],
            crashes: 1,
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
            ..ring()
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
            ..ring()
        },
        forged("forged undo", true, 1000),
        forged("forged redo", false, 3),
    ]
}

/// Space that a user filled with what looks like the log's records becomes the log's.
fn forged(name: &'static str, undo: bool, counter: u64) -> Scope {
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
        ..ring()
    }
}
