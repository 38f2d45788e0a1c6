use super::*;
use crate::{FlushKind, LineAddr, Op, OpLog, PoolOffset, Sink, TxId};
use proptest::prelude::*;
use std::io::Write;

fn any_op() -> impl Strategy<Value = (u16, u8, u64, u64, Vec<u8>)> {
    let numbers = (any::<u64>(), any::<u64>(), 0..6u32);
    let bytes = proptest::collection::vec(any::<u8>(), 1..40);
    (0..4u16, 0..22u8, numbers, bytes).prop_map(|(lane, code, (a, b, shift), bytes)| {
        (lane, code, a >> (shift * 12), b >> (shift * 12), bytes)
    })
}

fn log_of(ops: &[(u16, u8, u64, u64, Vec<u8>)]) -> OpLog {
    let mut log = OpLog::default();
    for (lane, code, a, b, bytes) in ops {
        let (a, b, at) = (*a, *b, PoolOffset(*a));
        let (aligned, line) = (PoolOffset(a & !7), LineAddr(a >> 6));
        let words: Vec<u8> = bytes.iter().cycle().take(bytes.len() * 8).copied().collect();
        let whole = [bytes[0]; 64];
        let kinds = [FlushKind::Clwb, FlushKind::ClflushOpt, FlushKind::Clflush];
        let op = match code {
            0 => Op::Compute(a as u32),
            1 => Op::Load { at, len: b as u32, depends: None },
            2 => Op::Load { at, len: 8, depends: Some((b as u32) >> 1) },
            3 => Op::Store { at, bytes },
            4 => Op::StoreNt { at: aligned, bytes: &words },
            5 => Op::Store64 { line, bytes: &whole },
            6 => Op::Rmw { at: aligned, bytes: &words[..8] },
            7..10 => Op::Flush { kind: kinds[usize::from(code - 7)], line },
            10 => Op::Sfence,
            11 => Op::Mfence,
            12 => Op::TxBegin,
            13 => Op::TxEnd,
            14 => Op::Ack(TxId(a)),
            15 => Op::Lock { id: a, ticket: b },
            16 => Op::Unlock { id: a, ticket: b },
            17 => Op::Signal { id: a, count: b },
            18 => Op::Wait { id: a, count: b },
            19 => Op::Epoch,
            20 => Op::TxAbort,
            _ => Op::Grow { len: a },
        };
        log.op(LaneId(*lane), op);
    }
    log
}

fn read_bytes(bytes: &[u8]) -> Result<OpLog, TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    read_trace(file.path())
}

fn bytes_of(log: &OpLog) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    write_trace(file.path(), log).unwrap();
    assert!(is_trace(file.path()));
    std::fs::read(file.path()).unwrap()
}

proptest! {
    #[test]
    fn operations_come_back_as_they_were_written(
        ops in proptest::collection::vec(any_op(), 0..200),
    ) {
        let log = log_of(&ops);
        let back = read_bytes(&bytes_of(&log)).unwrap();
        prop_assert_eq!(back.iter().collect::<Vec<_>>(), log.iter().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_refused_in_one_line(
        ops in proptest::collection::vec(any_op(), 1..60), place in any::<u64>(), bit in 0..8u32,
    ) {
        let log = log_of(&ops);
        let whole = bytes_of(&log);
        let mut cut = whole.clone();
        cut.truncate((place % whole.len() as u64) as usize);
        let message = read_bytes(&cut).unwrap_err().to_string();
        prop_assert!(!message.contains('\n'), "{}", message);
        // Bytes 10 to 15 of the header are not used.
        let mut damaged = whole.clone();
        let at = 16 + (place % (whole.len() as u64 - 16)) as usize;
        damaged[at] ^= 1 << bit;
        match read_bytes(&damaged) {
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
            // A bit of the compression's own header that changes nothing.
            Ok(back) => prop_assert_eq!(
                back.iter().collect::<Vec<_>>(),
                log.iter().collect::<Vec<_>>()
            ),
        }
    }
}

#[test]
fn an_end_that_is_not_that_of_the_operations_is_damage() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let written = |change: fn(&mut TraceWriter)| {
        let mut writer = TraceWriter::create(file.path()).unwrap();
        writer.op(LaneId(0), Op::Sfence);
        change(&mut writer);
        writer.finish().unwrap();
        read_trace(file.path()).map(|log| log.len()).map_err(|error| error.to_string())
    };
    assert_eq!(written(|_| ()), Ok(1));
    let message = written(|writer| writer.ops += 1).unwrap_err();
    assert!(message.contains("damaged after 1 operations"), "{message}");
    let message = written(|writer| writer.numbers(code::END, &[1])).unwrap_err();
    assert!(message.contains("damaged after 1 operations"), "{message}");
    let message = written(|writer| writer.buffer.push(200)).unwrap_err();
    assert!(message.contains("damaged after 1 operations"), "{message}");
}

#[test]
fn other_files_and_newer_versions_are_named() {
    let mut newer = bytes_of(&log_of(&[(0, 10, 0, 0, vec![1])]));
    newer[8] = 4;
    let message = read_bytes(&newer).unwrap_err().to_string();
    assert!(message.contains("version 4") && message.contains("versions 1 to 2"), "{message}");
    newer[8] = 3;
    let message = read_bytes(&newer).unwrap_err().to_string();
    assert!(message.contains("a trace of a program"), "{message}");
    let message = read_bytes(&[7; 100]).unwrap_err().to_string();
    assert!(message.contains("no trace of Outlast"), "{message}");
    assert!(read_bytes(&[]).unwrap_err().to_string().contains("no trace of Outlast"));
    assert!(read_bytes(b"OTRACE\r\n").unwrap_err().to_string().contains("cut off"));
    assert!(read_trace(Path::new("/nowhere")).unwrap_err().to_string().contains("/nowhere"));
}

#[test]
fn traces_of_version_1_are_read_and_abort_nothing() {
    let mut older = bytes_of(&log_of(&[(0, 10, 0, 0, vec![1])]));
    older[8] = 1;
    assert_eq!(read_bytes(&older).unwrap().get(0).1, Op::Sfence);
    let mut aborts = bytes_of(&log_of(&[(0, 20, 0, 0, vec![1])]));
    assert_eq!(read_bytes(&aborts).unwrap().get(0).1, Op::TxAbort);
    aborts[8] = 1;
    let message = read_bytes(&aborts).unwrap_err().to_string();
    assert!(message.contains("damaged after 0 operations"), "{message}");
}

#[test]
fn a_run_takes_few_bytes() {
    let mut log = OpLog::default();
    for k in 0..10_000u64 {
        log.op(LaneId(0), Op::Store { at: PoolOffset(8 * k), bytes: &k.to_le_bytes() });
        log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: PoolOffset(8 * k).line() });
        log.op(LaneId(0), Op::Sfence);
    }
    let bytes = bytes_of(&log).len();
    assert!(bytes < 3 * 30_000, "{bytes} bytes of 30000 operations");
}
