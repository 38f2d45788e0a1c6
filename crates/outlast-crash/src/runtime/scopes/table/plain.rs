//! Few words, on one lane or two.

use super::{APART, PACKED, scope, write};
use crate::runtime::scopes::Scope;
use crate::runtime::scopes::script::Step;

pub(super) fn all() -> Vec<Scope> {
    let alone = vec![vec![write(&[0, 1]), write(&[1, 2, 3]), write(&[0, 3])]];
    let reread =
        vec![Step::Write(vec![0, 1]), Step::Read(0), Step::Write(vec![1, 2]), Step::Write(vec![0])];
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
    ]
}
