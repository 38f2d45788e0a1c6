//! Subcommands: their names and numbers of words, as Redis 7.0 has them, so that one that does not exist is
//! refused before it is queued. Some exist that this server does not have: the command says so itself.

use crate::resp::Args;

/// The subcommands of a command: name, and number of words as in [`Command::arity`](super::Command::arity).
type Row = (&'static str, &'static [(&'static str, i32)]);

const ROWS: &[Row] = &[
    (
        "acl",
        &[
            ("genpass", -2),
            ("dryrun", -4),
            ("getuser", 3),
            ("help", 2),
            ("cat", -2),
            ("load", 2),
            ("deluser", -3),
            ("whoami", 2),
            ("setuser", -3),
            ("list", 2),
            ("save", 2),
            ("log", -2),
            ("users", 2),
        ],
    ),
    (
        "client",
        &[
            ("unpause", 2),
            ("help", 2),
            ("kill", -3),
            ("unblock", -3),
            ("id", 2),
            ("getname", 2),
            ("getredir", 2),
            ("info", 2),
            ("pause", -3),
            ("caching", 3),
            ("list", -2),
            ("reply", 3),
            ("trackinginfo", 2),
            ("tracking", -3),
            ("no-evict", 3),
            ("setname", 3),
            ("setinfo", 4),
            ("no-touch", 3),
        ],
    ),
    (
        "command",
        &[
            ("help", 2),
            ("list", -2),
            ("count", 2),
            ("getkeys", -4),
            ("docs", -2),
            ("getkeysandflags", -4),
            ("info", -2),
        ],
    ),
    ("config", &[("rewrite", 2), ("help", 2), ("get", -3), ("resetstat", 2), ("set", -4)]),
    (
        "function",
        &[
            ("restore", -3),
            ("help", 2),
            ("delete", 3),
            ("list", -2),
            ("load", -3),
            ("kill", 2),
            ("dump", 2),
            ("flush", -2),
            ("stats", 2),
        ],
    ),
    (
        "latency",
        &[
            ("histogram", -2),
            ("graph", 3),
            ("help", 2),
            ("latest", 2),
            ("history", 3),
            ("doctor", 2),
            ("reset", -2),
        ],
    ),
    (
        "memory",
        &[
            ("doctor", 2),
            ("malloc-stats", 2),
            ("purge", 2),
            ("help", 2),
            ("stats", 2),
            ("usage", -3),
        ],
    ),
    ("object", &[("help", 2), ("idletime", 3), ("encoding", 3), ("freq", 3), ("refcount", 3)]),
    (
        "pubsub",
        &[
            ("numsub", -2),
            ("channels", -2),
            ("numpat", 2),
            ("help", 2),
            ("shardchannels", -2),
            ("shardnumsub", -2),
        ],
    ),
    (
        "script",
        &[("flush", -2), ("exists", -3), ("help", 2), ("load", 3), ("kill", 2), ("debug", 3)],
    ),
    ("slowlog", &[("len", 2), ("help", 2), ("get", -2), ("reset", 2)]),
    (
        "xgroup",
        &[
            ("destroy", 4),
            ("createconsumer", 5),
            ("delconsumer", 5),
            ("help", 2),
            ("create", -5),
            ("setid", -5),
        ],
    ),
    ("xinfo", &[("help", 2), ("consumers", 4), ("stream", -3), ("groups", 3)]),
];

/// The error of a command whose second word names no subcommand, or one that takes other words.
pub(crate) fn refusal(name: &str, args: Args<'_>) -> Option<String> {
    let sub = args.get(1)?;
    let (_, known) = ROWS.iter().find(|(container, _)| *container == name)?;
    let found = known.iter().find(|(known, _)| super::is(sub, known));
    let Some((sub, arity)) = found else {
        let shown = String::from_utf8_lossy(&sub[..sub.len().min(128)]);
        let upper = name.to_uppercase();
        return Some(format!("ERR unknown subcommand '{shown}'. Try {upper} HELP."));
    };
    let least = arity.unsigned_abs() as usize;
    let takes = if *arity < 0 { args.len() >= least } else { args.len() == least };
    (!takes).then(|| format!("ERR wrong number of arguments for '{name}|{sub}' command"))
}
