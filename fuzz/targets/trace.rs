//! Traces of every format through their readers. The first byte chooses what is made of the rest: a file as it
//! is, records behind a right header and compression, or sections with right checksums.

#![no_main]

use std::io::Write;

use flate2::{Compression, write::ZlibEncoder};
use libfuzzer_sys::fuzz_target;
use outlast_fuzz::{file, seeds};
use outlast_trace::{
    About, Access, ChampSimInstr, ChampSimReader, Ending, Execution, FlushKind, LaneId, LineAddr,
    Op, OpLog, PAGE_BYTES, PROGRAM_VERSION, Part, PoolOffset, Program, ProgramWriter, RequestList,
    Sink, Site,
    SiteKind, ThreadEncoder, TxId, check_program, cut_program, from_champsim, in_order,
    order_of_threads, read_drmemtrace, read_trace, to_champsim, write_trace,
};

/// A header of that version.
fn header(version: u16) -> Vec<u8> {
    [&b"OTRACE\r\n"[..], &version.to_le_bytes(), &[0; 6]].concat()
}

fn number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// A trace of operations with these records.
fn operations(records: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(header(2), Compression::fast());
    encoder.write_all(records).and_then(|()| encoder.finish()).expect("memory takes all")
}

/// A trace of a program with the sections that the input holds, each behind its kind, thread and length.
/// Streams of code, pages and events are wrapped, uncompressed, one for each 16 bits of length.
fn sections(mut input: &[u8]) -> Vec<u8> {
    let mut bytes = header(PROGRAM_VERSION);
    let (mut index, mut count) = (Vec::new(), 0);
    while let [kind, thread, low, high, rest @ ..] = input {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (mut content, rest) = rest.split_at(len);
        let mut section = Vec::new();
        if kind & 0x80 != 0 || kind & 7 == 1 {
            section.extend_from_slice(content);
        } else {
            // Events are five streams behind their number; this splits the content into as many.
            let streams = if kind & 7 == 4 { 5 } else { 1 };
            for stream in (1..=streams).rev() {
                let (one, more) = content.split_at(match content.first() {
                    Some(len) if stream > 1 => usize::from(*len).min(content.len()),
                    _ => content.len(),
                });
                section.push(0);
                number(&mut section, one.len() as u64);
                number(&mut section, one.len() as u64);
                section.extend_from_slice(one);
                content = more;
            }
        }
        index.push(kind & 7);
        let checksum = crc32c::crc32c(&section);
        for part in
            [u64::from(*thread & 3), bytes.len() as u64, section.len() as u64, checksum.into()]
        {
            number(&mut index, part);
        }
        bytes.extend(section);
        count += 1;
        input = rest;
    }
    let mut end = vec![0, 2, 50, 50];
    number(&mut end, count);
    end.extend(index);
    let (at, checksum) = (bytes.len() as u64, crc32c::crc32c(&end));
    bytes.extend(end);
    bytes.extend(checksum.to_le_bytes());
    bytes.extend(at.to_le_bytes());
    bytes.extend(outlast_trace_end());
    bytes
}

/// What a trace of a program ends with: learnt from one.
fn outlast_trace_end() -> [u8; 8] {
    static END: std::sync::OnceLock<[u8; 8]> = std::sync::OnceLock::new();
    *END.get_or_init(|| {
        let whole = program();
        whole[whole.len() - 8..].try_into().expect("eight bytes")
    })
}

/// A sound trace of a program.
fn program() -> Vec<u8> {
    let path = file("seed.otrace", &[]);
    let mut writer =
        ProgramWriter::create(&path, &About { command: vec!["p".into()], ..About::default() })
            .expect("a trace can be written");
    let site = |n: u64, kind| Site {
        at: 0x40_0000 + 3 * n,
        len: 3,
        kind,
        sources: [1, 2, 0, 0],
        destinations: [9, 0],
    };
    writer.block(&[
        site(0, SiteKind::Plain),
        site(1, SiteKind::Locked),
        site(2, SiteKind::Conditional),
    ]);
    writer.page(1, &[1; PAGE_BYTES]);
    for thread in 0..2 {
        let mut encoder = ThreadEncoder::new(thread);
        for round in 0..6 {
            let access = Access {
                at: 4096 + 8 * round,
                value: round,
                insn: 1,
                len: 8,
                stores: round % 2 == 0,
            };
            let execution =
                Execution { block: 0, insns: 0..3, accesses: &[access], places: &[], seen: &[] };
            encoder.execution(&mut writer, &execution);
        }
        encoder.finish(&mut writer);
    }
    writer.finish(Ending::Whole).expect("a trace can be written");
    std::fs::read(&path).expect("it was written")
}

fn all_seeds() -> Vec<Vec<u8>> {
    let mut log = OpLog::default();
    let (lane, at) = (LaneId(1), PoolOffset(72));
    for op in [
        Op::TxBegin,
        Op::Load { at, len: 8, depends: Some(1) },
        Op::Store { at, bytes: &[7; 8] },
        Op::Flush { kind: FlushKind::Clwb, line: LineAddr(1) },
        Op::Sfence,
        Op::Compute(5),
        Op::TxEnd,
        Op::Ack(TxId(1)),
    ] {
        log.op(lane, op);
    }
    let path = file("seed.ops", &[]);
    write_trace(&path, &log).expect("a trace can be written");
    let of_operations = std::fs::read(&path).expect("it was written");
    let instruction = ChampSimInstr { ip: 0x40_0000, ..ChampSimInstr::default() }.encode();
    let records =
        [1, 1, 14, 1, 3, 72, 8, 5, 72, 8, 7, 7, 7, 7, 7, 7, 7, 7, 9, 1, 12, 2, 5, 15, 1, 0, 8];
    let of_sections = [
        &[1, 0, 8, 0, 1, 1, b'p', 0, 0, 0, 0, 0][..],
        &[2, 0, 12, 0, 1, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        &[4, 0, 10, 0, 3, 1, 0, 2, 1, 0, 2, 0, 2, 0],
    ];
    vec![
        [&[0][..], &of_operations].concat(),
        [&[0][..], &program()].concat(),
        [&[0][..], &[instruction; 3].concat()].concat(),
        [&[1][..], &records].concat(),
        [&[2][..], &of_sections.concat()].concat(),
        b"\x000x40 READ 1\n0x80 WRITE 9\n".to_vec(),
        b"\x00LD 0x40\nST 128\n".to_vec(),
        b"\x00gem5\x02\x18\x7f\x08\x08\x01\x10\x04\x18\x40\x20\x08".to_vec(),
        [&[0][..], &[25, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 10, 0, 4, 0], &[64; 8]].concat(),
    ]
}

fn read_program(path: &std::path::Path) {
    let Ok(program) = Program::open(path) else { return };
    let _ =
        (program.pages().is_ok(), program.final_pages().is_ok(), program.instructions().is_ok());
    for thread in 0..program.threads() {
        let mut thread = program.thread(thread);
        while let Ok(Some(_)) = thread.next() {}
    }
    let _ = check_program(&program);
    let _ = order_of_threads(&program);
    let _ = in_order(&program, |_, _| ());
    let out = path.with_extension("out");
    let _ = to_champsim(&program, 0, &out);
    let part = Part { skip: 2, count: 5, out: out.clone() };
    let _ = cut_program(&program, part);
    let _ = std::fs::remove_file(&out);
}

fuzz_target!(init: seeds(all_seeds()), |input: &[u8]| {
    let Some((form, bytes)) = input.split_first() else { return };
    let bytes = match form & 3 {
        0 => bytes.to_vec(),
        1 => operations(bytes),
        _ => sections(bytes),
    };
    let path = file("trace", &bytes);
    let _ = read_trace(&path);
    read_program(&path);
    if let Ok(mut reader) = ChampSimReader::open(&path) {
        while let Ok(true) = reader.read(|_| ()) {}
        let out = path.with_extension("converted");
        let _ = from_champsim(&path, &out);
        let _ = std::fs::remove_file(&out);
    }
    let _ = read_drmemtrace(&path, |_| ());
    if let Ok(Some(mut list)) = RequestList::open(&path) {
        while let Ok(Some(_)) = list.read() {}
    }
});
