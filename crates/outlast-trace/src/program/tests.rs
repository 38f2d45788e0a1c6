//! Traces that are written and read again, and those that are damaged.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::{CHAMPSIM_INSTR_BYTES, ChampSimInstr};

/// An execution that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ran {
    block: u32,
    accesses: Vec<Access>,
}

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.otrace");
    (directory, path)
}

fn sites(block: u64) -> Vec<Site> {
    let kinds = [SiteKind::Plain, SiteKind::Locked, SiteKind::Plain, SiteKind::Conditional];
    let site = |(number, kind): (u64, SiteKind)| Site {
        at: 0x40_0000 + 256 * block + 3 * number,
        len: 3,
        kind,
        sources: [1, 2, 0, number as u8],
        destinations: [9, 0],
    };
    (0..).zip(kinds).map(site).collect()
}

const BLOCKS: u32 = 4;

/// Writes a trace of these executions, with memory from 0 to 1 MiB.
fn write(path: &std::path::Path, threads: &[Vec<Ran>], ending: Ending) {
    let about = About { command: vec!["prog".into(), "x".into()], ..About::default() };
    let mut writer = ProgramWriter::create(path, &about).unwrap();
    (0..BLOCKS).for_each(|block| writer.block(&sites(block.into())));
    (0..256).for_each(|page| writer.page(page, &[page as u8; PAGE_BYTES]));
    for (number, ran) in threads.iter().enumerate() {
        let mut thread = ThreadEncoder::new(number as u16);
        for ran in ran {
            let (block, accesses) = (ran.block, &ran.accesses[..]);
            let execution = Execution { block, insns: 0..4, accesses, places: &[], seen: &[] };
            thread.execution(&mut writer, &execution);
        }
        thread.finish(&mut writer);
    }
    writer.finish(ending).unwrap();
}

fn read(path: &std::path::Path) -> Result<Vec<Vec<Ran>>, ProgramError> {
    let program = Program::open(path)?;
    let thread = |number| {
        let mut ran = Vec::new();
        let mut thread = program.thread(number);
        while let Some(happening) = thread.next()? {
            if let Happening::Execution(execution) = happening {
                ran.push(Ran { block: execution.block, accesses: execution.accesses.to_vec() });
            }
        }
        Ok(ran)
    };
    (0..program.threads()).map(thread).collect()
}

fn access() -> impl Strategy<Value = Access> {
    let at = prop_oneof![0u64..64, 0u64..(1 << 20) - 8, Just(4093)];
    (at, any::<u64>(), 0u16..4, 0u32..4, any::<bool>()).prop_map(
        |(at, value, insn, size, stores)| {
            let len = 1u8 << size;
            let value = if stores { value & u64::MAX >> (64 - 8 * u32::from(len)) } else { 0 };
            Access { at, value, insn, len, stores }
        },
    )
}

fn runs() -> impl Strategy<Value = Vec<Ran>> {
    let few = proptest::collection::vec(access(), 0..5);
    let kinds = proptest::collection::vec((0..BLOCKS, few), 1..6);
    // A few executions again and again, with other addresses and values.
    (kinds, proptest::collection::vec((any::<prop::sample::Index>(), 0u64..3, 0u64..9), 0..80))
        .prop_map(|(kinds, order)| {
            let run = |(index, stride, step): (prop::sample::Index, u64, u64)| {
                let (block, mut accesses) = index.get(&kinds).clone();
                for access in &mut accesses {
                    access.at = (access.at + 8 * stride).min((1 << 20) - 8);
                    let mask = u64::MAX >> (64 - 8 * u32::from(access.len));
                    access.value =
                        if access.stores { access.value.wrapping_add(step) & mask } else { 0 };
                }
                Ran { block, accesses }
            };
            order.into_iter().map(run).collect()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_ran_comes_back(threads in proptest::collection::vec(runs(), 1..3)) {
        let (_directory, path) = file();
        write(&path, &threads, Ending::Whole);
        prop_assert_eq!(read(&path).unwrap(), threads);
    }

    #[test]
    fn damage_is_an_error_and_no_panic(runs in runs(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let (_directory, path) = file();
        write(&path, &[runs], Ending::Whole);
        let mut bytes = fs::read(&path).unwrap();
        // The rest of the header is not used.
        let at = match at.index(bytes.len()) { 10..16 => 9, at => at };
        bytes[at] ^= 1 << bit;
        fs::write(&path, bytes).unwrap();
        let all = || -> Result<(), ProgramError> {
            read(&path)?;
            let program = Program::open(&path)?;
            program.pages()?;
            program.final_pages().map(drop)
        };
        let message = all().unwrap_err().to_string();
        prop_assert_eq!(message.lines().count(), 1);
    }
}

fn strided(count: u64) -> Vec<Ran> {
    let run = |n: u64| {
        let load = Access { at: 8 * n, value: 0, insn: 0, len: 8, stores: false };
        let store = Access { at: 0x8000 + 8 * n, value: 3 * n, insn: 2, len: 8, stores: true };
        Ran { block: 1, accesses: vec![load, store] }
    };
    (0..count).map(run).collect()
}

#[test]
fn what_is_expected_takes_no_room() {
    let (_directory, path) = file();
    write(&path, &[strided(10)], Ending::Whole);
    let few = fs::metadata(&path).unwrap().len();
    write(&path, &[strided(4000)], Ending::Whole);
    let many = fs::metadata(&path).unwrap().len();
    assert!(many < few + 16, "{few} bytes for 10 executions, {many} for 4000");
    assert_eq!(read(&path).unwrap(), [strided(4000)]);
}

#[test]
fn a_trace_that_is_cut_off_is_refused_at_every_length() {
    let (_directory, path) = file();
    write(&path, &[strided(5)], Ending::Whole);
    let bytes = fs::read(&path).unwrap();
    let mut messages = std::collections::BTreeSet::new();
    for len in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        fs::write(&path, &bytes[..len]).unwrap();
        let message = Program::open(&path).unwrap_err().to_string();
        messages.insert(message.split(": ").nth(1).unwrap().to_owned());
    }
    assert_eq!(messages.into_iter().collect::<Vec<_>>(), ["cut off", "no trace of Outlast"]);
}

#[test]
fn other_versions_are_refused_in_one_line() {
    let (_directory, path) = file();
    write(&path, &[strided(5)], Ending::Whole);
    let mut bytes = fs::read(&path).unwrap();
    for (version, says) in [(2, "a trace of operations (version 2)"), (4, "a trace of version 4")] {
        bytes[8] = version;
        fs::write(&path, &bytes).unwrap();
        let message = Program::open(&path).unwrap_err().to_string();
        assert!(message.contains(says) && message.lines().count() == 1, "{message}");
        assert!(!is_program_trace(&path));
    }
    bytes[8] = 3;
    fs::write(&path, &bytes).unwrap();
    let message = crate::read_trace(&path).unwrap_err().to_string();
    assert!(message.contains("a trace of a program"), "{message}");
}

/// A trace with what its memory holds at the end, but for one byte.
fn with_final_page(path: &std::path::Path, wrong: u8) {
    let mut writer = ProgramWriter::create(path, &About::default()).unwrap();
    writer.block(&sites(0));
    writer.page(0, &[0; PAGE_BYTES]);
    writer.page(1, &[0; PAGE_BYTES]);
    let mut thread = ThreadEncoder::new(0);
    // It crosses from one page to the other.
    let store = Access { at: 4093, value: 0x8877_6655_4433_2211, insn: 1, len: 8, stores: true };
    let accesses = &[store];
    let execution = Execution { block: 0, insns: 0..4, accesses, places: &[], seen: &[] };
    thread.execution(&mut writer, &execution);
    thread.event(&mut writer, Event::Call { number: 0, arguments: [0; 3] });
    thread.event(&mut writer, Event::SystemWrite { at: 16, bytes: b"read" });
    thread.event(&mut writer, Event::Return { number: 0, result: 4 });
    thread.finish(&mut writer);
    let (mut first, mut second) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
    first[4093..].copy_from_slice(&[0x11, 0x22, 0x33]);
    first[16..20].copy_from_slice(b"read");
    second[..5].copy_from_slice(&[0x44, 0x55, 0x66, 0x77, 0x88]);
    second[4] ^= wrong;
    writer.final_page(0, &first);
    writer.final_page(1, &second);
    writer.finish(Ending::Whole).unwrap();
}

#[test]
fn a_check_compares_each_byte_and_counts_an_access_of_two_pages_once() {
    let (_directory, path) = file();
    with_final_page(&path, 0);
    let checked = check(&Program::open(&path).unwrap()).unwrap();
    assert_eq!((checked.count, checked.compared, &checked.findings[..]), (0, 2, &[][..]));
    let facts = &checked.facts;
    assert_eq!((facts.stores, facts.crossing_pages, facts.crossing_lines), (1, 1, 1));
    assert_eq!((facts.calls, facts.system_bytes, facts.lines, facts.locked), (1, 4, 2, 1));
    with_final_page(&path, 0x80);
    let checked = check(&Program::open(&path).unwrap()).unwrap();
    assert_eq!(checked.findings, ["byte 0x1004 differs at the end"]);
}

/// Two threads whose stores to one word have these places.
fn with_places(path: &std::path::Path, places: [u64; 2]) {
    let mut writer = ProgramWriter::create(path, &About::default()).unwrap();
    writer.block(&sites(0));
    writer.page(0, &[0; PAGE_BYTES]);
    for (number, place) in places.into_iter().enumerate() {
        // A block with one store, whose place stands before it: as the plugin writes it.
        let thread = number as u16;
        writer.event(thread, 0, 0, Event::Block { block: 0, once: false });
        writer.event(thread, 0, 0, Event::Append { insn: 1, stores: true, len: 8 });
        writer.event(thread, 0, 0, Event::Place(place));
        let (far, value) = (Some(64), Some(7 + number as i64));
        writer.event(thread, 0, 0, Event::Access { is_beside: false, far, value });
        writer.thread_ends(thread, 1, 0);
    }
    let mut last = [0; PAGE_BYTES];
    last[64] = if places[0] > places[1] { 7 } else { 8 };
    writer.final_page(0, &last);
    writer.finish(Ending::Whole).unwrap();
}

#[test]
fn stores_of_threads_keep_their_places() {
    let (_directory, path) = file();
    for places in [[0, 1], [1, 0]] {
        with_places(&path, places);
        let program = Program::open(&path).unwrap();
        assert_eq!(check(&program).unwrap().findings, [""; 0]);
        let first = usize::from(places[0] > places[1]);
        let orders = order(&program).unwrap();
        assert_eq!(orders[first], ThreadOrder { waits: vec![], tells: vec![0] });
        let waits = vec![(0, first as u16, 1)];
        assert_eq!(orders[1 - first], ThreadOrder { waits, tells: vec![] });
    }
    with_places(&path, [3, 3]);
    let findings = check(&Program::open(&path).unwrap()).unwrap().findings;
    assert_eq!(findings, ["place 3 is taken twice"]);
    with_places(&path, [0, 2]);
    let findings = check(&Program::open(&path).unwrap()).unwrap().findings;
    assert_eq!(findings, ["place 1 of 0 is missing"]);
}

fn to(skip: u64, count: u64, out: &std::path::Path) -> Part {
    Part { skip, count, out: out.to_owned() }
}

#[test]
fn a_part_begins_with_what_memory_held_then() {
    let (_directory, path) = file();
    write(&path, &[strided(100)], Ending::Whole);
    let part = path.with_extension("part");
    assert_eq!(cut(&Program::open(&path).unwrap(), to(200, 80, &part)).unwrap(), 80);
    let program = Program::open(&part).unwrap();
    assert_eq!(read(&part).unwrap(), [strided(100)[50..70].to_vec()]);
    let page = program.pages().unwrap().into_iter().find(|page| page.number == 8).unwrap();
    assert_eq!(page.bytes[8 * 49], 3 * 49);
    assert_eq!(page.bytes[8 * 50..8 * 51], [8; 8], "as before the part's first store");
    let checked = check(&program).unwrap();
    assert_eq!((checked.count, checked.compared), (0, 2));
    let refused = cut(&program, to(1000, 1, &path)).unwrap_err().to_string();
    assert!(refused.contains("80 instructions, and 1000 are skipped"), "{refused}");
}

/// Writes what threads do, a turn after the other: in each one access, or the begin of a block.
fn with_turns(path: &std::path::Path, threads: &[Vec<Ran>], turns: &[prop::sample::Index]) {
    let mut writer = ProgramWriter::create(path, &About::default()).unwrap();
    (0..BLOCKS).for_each(|block| writer.block(&sites(block.into())));
    let mut memory: Vec<[u8; PAGE_BYTES]> = (0..256).map(|page| [page as u8; PAGE_BYTES]).collect();
    memory.iter().zip(0..).for_each(|(page, number)| writer.page(number, page));
    let mut encoders: Vec<_> = (0..threads.len() as u16).map(ThreadEncoder::new).collect();
    // Of each thread its next execution, and of that the accesses that are done; none before it begins.
    let mut at = vec![(0, None::<usize>); threads.len()];
    let mut places = 0;
    for turn in turns.iter().chain(std::iter::repeat_n(&turns[0], 10_000)) {
        let alive: Vec<_> =
            (0..threads.len()).filter(|it| at[*it].0 < threads[*it].len()).collect();
        if alive.is_empty() {
            break;
        }
        let thread = *turn.get(&alive);
        let (encoder, (execution, done)) = (&mut encoders[thread], &mut at[thread]);
        let ran = &threads[thread][*execution];
        let Some(number) = *done else {
            encoder.event(&mut writer, Event::Seen(places));
            encoder.begin(&mut writer, ran.block);
            *done = Some(0);
            continue;
        };
        let Some(access) = ran.accesses.get(number) else {
            (*execution, *done) = (*execution + 1, None);
            continue;
        };
        let mut between = Vec::new();
        if access.stores {
            between.push(Event::Place(places));
            places += 1;
            for (at, byte) in (access.at..).zip(access.value.to_le_bytes()).take(access.len.into())
            {
                memory[at as usize / PAGE_BYTES][at as usize % PAGE_BYTES] = byte;
            }
        }
        encoder.access(&mut writer, access, &mut between);
        *done = Some(number + 1);
    }
    encoders.into_iter().for_each(|encoder| encoder.finish(&mut writer));
    memory.iter().zip(0..).for_each(|(page, number)| writer.final_page(number, page));
    writer.finish(Ending::Whole).unwrap();
}

/// Address and bytes of all that a thread stores, or the system for it, and its instructions.
fn stores(program: &Program, thread: u16) -> (Vec<(u64, Vec<u8>)>, u64) {
    let (mut stores, mut insns) = (Vec::new(), 0);
    let mut thread = program.thread(thread);
    while let Some(happening) = thread.next().unwrap() {
        match happening {
            Happening::Execution(ran) => {
                insns += u64::from(ran.insns.end - ran.insns.start);
                for access in ran.accesses.iter().filter(|access| access.stores) {
                    let bytes = access.value.to_le_bytes()[..access.len.into()].to_vec();
                    stores.push((access.at, bytes));
                }
            }
            Happening::SystemWrite { at, bytes } => stores.push((at, bytes.to_vec())),
            _ => {}
        }
    }
    (stores, insns)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_of_threads_are_all_that_they_do(
        threads in proptest::collection::vec(runs(), 2..5),
        turns in proptest::collection::vec(any::<prop::sample::Index>(), 1..400),
        begin in any::<prop::sample::Index>(),
    ) {
        let (_directory, path) = file();
        with_turns(&path, &threads, &turns);
        let whole = Program::open(&path).unwrap();
        prop_assert_eq!(check(&whole).unwrap().findings, [""; 0]);
        let all: u64 = (0..whole.threads()).map(|thread| stores(&whole, thread).1).sum();
        prop_assume!(all > 0);
        let begin = begin.index(all as usize) as u64;
        let files = [path.with_extension("first"), path.with_extension("last")];
        let parts = [to(0, begin.max(1), &files[0]), to(begin.max(1), all, &files[1])];
        prop_assume!(cut_parts(&whole, &parts).is_ok());
        let parts = files.map(|file| Program::open(&file).unwrap());
        for part in &parts {
            let checked = check(part).unwrap();
            prop_assert_eq!(checked.findings, [""; 0]);
        }
        for thread in 0..whole.threads() {
            let of = |part: &Program| match part.threads() > thread {
                true => stores(part, thread),
                false => (Vec::new(), 0),
            };
            let [(mut first, insns), (last, more)] = parts.each_ref().map(of);
            first.extend(last);
            let (expected, ran) = stores(&whole, thread);
            prop_assert_eq!(&first, &expected, "thread {}", thread);
            // A block that both parts have is the first one's.
            prop_assert_eq!(insns + more, ran);
        }
        // Where a part has a page, it is as the whole has it.
        let ends = whole.final_pages().unwrap();
        for page in parts[1].final_pages().unwrap() {
            prop_assert!(page.bytes == ends[page.number as usize].bytes, "page {}", page.number);
        }
    }
}

#[test]
fn champsim_traces_go_there_and_back() {
    let (_directory, path) = file();
    let instr = |n: u64| ChampSimInstr {
        ip: 0x40_0000 + 4 * (n % 5),
        is_branch: n % 5 == 4,
        taken: n % 5 == 4,
        source_registers: if n % 5 == 4 { [ChampSimInstr::FLAGS, 0, 0, 0] } else { [1, 0, 0, 0] },
        destination_registers: [2, 0],
        source_memory: [0x7fff_0000 + 8 * n, 0, 0, 0],
        destination_memory: [if n.is_multiple_of(2) { 0x1_0000 + 8 * n } else { 0 }, 0],
    };
    let all: Vec<_> = (0..500).map(instr).collect();
    let bytes: Vec<u8> = all.iter().flat_map(ChampSimInstr::encode).collect();
    let (champsim, back) = (path.with_extension("champsim"), path.with_extension("gz"));
    fs::write(&champsim, bytes).unwrap();
    assert_eq!(from_champsim(&champsim, &path).unwrap().instructions, 500);
    let checked = check(&Program::open(&path).unwrap()).unwrap();
    assert_eq!((checked.count, checked.facts.instructions, checked.facts.loads), (0, 500, 500));
    let converted = to_champsim(&Program::open(&path).unwrap(), 0, &back).unwrap();
    assert_eq!(converted, Converted { instructions: 500, lost_accesses: 0 });
    let mut read = Vec::new();
    let mut reader = crate::ChampSimReader::open(&back).unwrap();
    while reader.read(|instr| read.push(*instr)).unwrap() {}
    let drmem = path.with_extension("drmem");
    let converted = to_drmemtrace(&Program::open(&path).unwrap(), 0, &drmem).unwrap();
    assert_eq!(converted, Converted { instructions: 500, lost_accesses: 0 });
    // Four bytes to each instruction, an access of 8 bytes behind it, and the ends of the file.
    let entries = fs::read(&drmem).unwrap();
    let entry = |number: usize| &entries[12 * number..][..12];
    assert_eq!(entries.len(), 12 * (4 + 500 + 750 + 2));
    assert_eq!(entry(0), [25, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(entry(4), [10, 0, 4, 0, 0, 0, 0x40, 0, 0, 0, 0, 0]);
    assert_eq!(entry(5), [0, 0, 8, 0, 0, 0, 0xff, 0x7f, 0, 0, 0, 0]);
    assert_eq!(entry(6), [1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    let mut number = 0;
    let counts = crate::read_drmemtrace(&drmem, |instr| {
        let (right, is_last) = (&all[number], number == 499);
        let branch = (instr.is_branch, instr.taken || is_last);
        assert_eq!((instr.ip, branch), (right.ip, (right.is_branch, right.taken || is_last)));
        let places = (instr.source_memory, instr.destination_memory);
        assert_eq!(places, (right.source_memory, right.destination_memory), "{number}");
        number += 1;
    });
    assert_eq!((counts.unwrap().instructions, number), (500, 500));
    // Where the last one goes is not known.
    let same = |at: usize| read[at] == all[at];
    assert!(
        read.len() == 500 && (0..499).all(same),
        "{:?}",
        read.iter().zip(&all).find(|(a, b)| a != b)
    );
    assert_eq!(CHAMPSIM_INSTR_BYTES * 500, fs::metadata(&champsim).unwrap().len() as usize);
}
