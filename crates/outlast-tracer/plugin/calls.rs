//! What system calls of x86-64 Linux write to their program's memory.

/// Bytes that a call may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Out {
    pub at: u64,
    pub len: u64,
    /// The result of the call says how many, in units of this many bytes.
    pub by_result: Option<u64>,
}

/// What a call does to memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It writes to these places, none being the rule.
    Writes(Vec<Out>),
    /// It changes what is mapped: the range follows from arguments and result.
    Maps,
    /// It may write anywhere: what it changed has to be found.
    Unknown,
}

fn fixed(at: u64, len: u64) -> Out {
    Out { at, len, by_result: None }
}

fn counted(at: u64, len: u64, unit: u64) -> Out {
    Out { at, len, by_result: Some(unit) }
}

/// `outlast_trace::MARK_CALL`.
const MARK: i64 = 20_300;

/// Numbers of calls that are named elsewhere.
pub mod number {
    pub const MMAP: i64 = 9;
    pub const MPROTECT: i64 = 10;
    pub const BRK: i64 = 12;
    pub const SIGACTION: i64 = 13;
    pub const MREMAP: i64 = 25;
    pub const MADVISE: i64 = 28;
    pub const CLONE: i64 = 56;
    pub const FORK: i64 = 57;
    pub const VFORK: i64 = 58;
    pub const EXECVE: i64 = 59;
    pub const EXIT: i64 = 60;
    pub const SET_TID_ADDRESS: i64 = 218;
    pub const EXIT_GROUP: i64 = 231;
    pub const EXECVEAT: i64 = 322;
}

/// The effect of a call. `word` reads eight bytes of the program's memory.
pub fn effect(call: i64, a: &[u64; 6], word: impl Fn(u64) -> Option<u64>) -> Effect {
    let [a1, a2, a3, a4, a5, a6] = *a;
    let half = |at: u64| word(at).map_or(0, |word| word & 0xffff_ffff);
    let vectors = |at: u64, count: u64| {
        let pairs =
            (0..count.min(1024)).filter_map(|n| Some((word(at + 16 * n)?, word(at + 16 * n + 8)?)));
        pairs.map(|(at, len)| fixed(at, len)).collect::<Vec<_>>()
    };
    let writes = |outs: &[Out]| Effect::Writes(outs.to_vec());
    match call {
        // The program marks a transaction: no kernel has this call.
        MARK => writes(&[]),
        // read, pread64, getdents, getcwd, readlink, recv…: a buffer, filled as the result says.
        0 | 17 | 78 | 217 | 89 => writes(&[counted(a2, a3, 1)]),
        79 => writes(&[counted(a1, a2, 1)]),
        267 => writes(&[counted(a3, a4, 1)]),
        318 => writes(&[counted(a1, a2, 1)]),
        45 => writes(&[
            counted(a2, a3, 1),
            fixed(a5, if a6 == 0 { 0 } else { half(a6) }),
            fixed(a6, 4),
        ]),
        19 | 295 | 327 => Effect::Writes(vectors(a2, a3)),
        // stat, fstat, lstat, newfstatat, statx, statfs, fstatfs.
        4..=6 => writes(&[fixed(a2, 144)]),
        262 => writes(&[fixed(a3, 144)]),
        332 => writes(&[fixed(a5, 256)]),
        137 | 138 => writes(&[fixed(a2, 120)]),
        // poll, ppoll, select, pselect6, epoll_wait, epoll_pwait.
        7 => writes(&[fixed(a1, a2.saturating_mul(8))]),
        271 => writes(&[fixed(a1, a2.saturating_mul(8)), fixed(a3, 16)]),
        23 | 270 => writes(&[fixed(a2, 128), fixed(a3, 128), fixed(a4, 128), fixed(a5, 16)]),
        232 | 281 => writes(&[counted(a2, a3.saturating_mul(12), 12)]),
        // rt_sigaction, rt_sigprocmask, rt_sigpending, rt_sigtimedwait, sigaltstack.
        13 => writes(&[fixed(a3, 32)]),
        14 => writes(&[fixed(a3, 8)]),
        127 => writes(&[fixed(a1, 8)]),
        128 => writes(&[fixed(a2, 128)]),
        131 => writes(&[fixed(a2, 24)]),
        // ioctl: requests that say what they write, and those of terminals.
        16 => match a2 {
            0x5401 => writes(&[fixed(a3, 60)]),
            0x5413 | 0x540f | 0x541b => writes(&[fixed(a3, 8)]),
            0x5402..=0x5404 | 0x5414 | 0x5450 | 0x5451 | 0x5410 => writes(&[]),
            0x5421 => writes(&[]),
            request if request >> 31 & 1 == 1 => writes(&[fixed(a3, request >> 16 & 0x3fff)]),
            _ => Effect::Unknown,
        },
        // Mappings.
        9 | 11 | 12 | 25 | 28 | 10 => Effect::Maps,
        22 | 293 => writes(&[fixed(a1, 8)]),
        53 => writes(&[fixed(a4, 8)]),
        43 | 51 | 52 | 288 => {
            writes(&[fixed(a2, if a3 == 0 { 0 } else { half(a3) }), fixed(a3, 4)])
        }
        55 => writes(&[fixed(a4, half(a5)), fixed(a5, 4)]),
        // Times.
        35 => writes(&[fixed(a2, 16)]),
        230 => writes(&[fixed(a4, 16)]),
        36 => writes(&[fixed(a2, 32)]),
        38 => writes(&[fixed(a3, 32)]),
        96 => writes(&[fixed(a1, 16), fixed(a2, 8)]),
        100 => writes(&[fixed(a1, 32)]),
        201 => writes(&[fixed(a1, 8)]),
        222 => writes(&[fixed(a3, 4)]),
        223 => writes(&[fixed(a4, 32)]),
        224 => writes(&[fixed(a2, 32)]),
        228 | 229 => writes(&[fixed(a2, 16)]),
        // Processes, limits, names.
        56 => writes(&[fixed(a3, 4), fixed(a4, 4)]),
        61 => writes(&[fixed(a2, 4), fixed(a4, 144)]),
        247 => writes(&[fixed(a3, 128), fixed(a5, 144)]),
        63 => writes(&[fixed(a1, 390)]),
        97 => writes(&[fixed(a2, 16)]),
        98 => writes(&[fixed(a2, 144)]),
        99 => writes(&[fixed(a1, 112)]),
        115 => writes(&[counted(a2, a1.saturating_mul(4), 4)]),
        118 | 120 => writes(&[fixed(a1, 4), fixed(a2, 4), fixed(a3, 4)]),
        157 => match a1 {
            16 => writes(&[fixed(a2, 16)]),
            2 | 19 | 25 | 37 | 40 => writes(&[fixed(a2, 8)]),
            _ => writes(&[]),
        },
        158 if a1 == 0x1003 || a1 == 0x1004 => writes(&[fixed(a2, 8)]),
        158 => writes(&[]),
        204 => writes(&[counted(a3, a2, 1)]),
        302 => writes(&[fixed(a4, 16)]),
        309 => writes(&[fixed(a1, 4), fixed(a2, 4)]),
        // futex: one of its operations writes to a second word.
        202 if a2 & 0x7f == 5 => writes(&[fixed(a5, 4)]),
        72 if a2 == 5 || a2 == 36 => writes(&[fixed(a3, 32)]),
        40 => writes(&[fixed(a3, 8)]),
        326 => writes(&[fixed(a2, 8), fixed(a4, 8)]),
        // Those that write nothing.
        1
        | 2
        | 3
        | 8
        | 15
        | 18
        | 20
        | 21
        | 24
        | 26
        | 27
        | 32..=34
        | 37
        | 39
        | 41
        | 42
        | 44
        | 46
        | 48..=50
        | 54
        | 57..=60
        | 62
        | 72..=77
        | 80..=88
        | 90..=95
        | 101..=114
        | 116
        | 117
        | 119
        | 121
        | 122
        | 124
        | 130
        | 132
        | 133
        | 135
        | 140..=142
        | 149..=152
        | 160
        | 161
        | 162
        | 170
        | 171
        | 186
        | 187
        | 200
        | 202
        | 203
        | 213
        | 218
        | 221
        | 225
        | 226
        | 231
        | 233
        | 234
        | 235
        | 257..=261
        | 263..=266
        | 268
        | 269
        | 272
        | 273
        | 277
        | 280
        | 282
        | 284..=287
        | 290..=292
        | 294
        | 296
        | 306
        | 316
        | 319
        | 322
        | 324
        | 334
        | 424
        | 434
        | 435
        | 436
        | 439 => Effect::Writes(Vec::new()),
        _ => Effect::Unknown,
    }
}
