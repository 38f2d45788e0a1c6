//! Asynchronous commits, and what makes them durable.

use super::{APART, BLOCKS, later, look, rings, scope, sync, write};
use crate::runtime::scopes::Scope;
use crate::runtime::scopes::script::Step;

pub(super) fn all() -> Vec<Scope> {
    vec![
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
            ..rings()
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
            ..rings()
        },
    ]
}
