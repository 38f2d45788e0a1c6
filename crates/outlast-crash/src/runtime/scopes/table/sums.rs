//! Pools that keep checksums.

use super::{APART, BLOCKS, ring, turns, write};
use crate::runtime::scopes::Scope;
use crate::runtime::scopes::script::{Shape, Step};

pub(super) fn all() -> Vec<Scope> {
    let sums = Scope { checksums: true, queue_lines: 1, step_every: 1, ..ring() };
    vec![
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
            // A record says what stood in its words' place, too: this one takes two lines, and may have
            // a quarter of the ring.
            lane_bytes: 576,
            lanes: vec![
                vec![vec![Step::Scribble, Step::Abort]],
                [vec![vec![Step::Publish(1)]], vec![write(&[0]); 8]].concat(),
            ],
            lock_always: true,
            queue_lines: 64,
            schedules_max: 8,
            // By then the log has left the block's page.
            from_ack: 6,
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
    ]
}
