//! A toy log of some sixty lines with bugs planted in it. Each must be found, within a bound of
//! images, and called by its name; what is merely unusual must not be.
//!
//! Numbers behind a bug are those of the list that the runtime's planted bugs are taken from.

use std::sync::atomic::{AtomicBool, Ordering};

use outlast_check::memory::{
    Check, Class, Crash, Domain, ImageMedium, Model, Report, Schedules, Tear, Violation,
};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{FlushKind, LaneId, PoolOffset, TxId};

use crate::returns_here;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    // In appending.
    RecordLineNotFlushed,
    LastRecordLineNotFlushed,
    FlushBeforeStore,
    NoFenceAfterRecord,
    OneBatch,
    SealLastInOneBatch,
    NoFenceBeforeAck,
    CountNotFlushed,
    WrongLineFlushed,
    StreamWithoutFence,
    CountAcrossWords,
    CountInHalves,
    CountBeforeRecord,
    // In recovery.
    ResetBeforeHome,
    HomeNotFlushed,
    HomeAddedTo,
    // Harmless.
    FlushTwice,
    CleanLineFlushed,
    ExtraFence,
    OtherOrder,
}

// ---- The log: a count in line 0, a home in line 1, then four slots of two lines. ----

const COUNT: PoolOffset = PoolOffset(0);
const HOME: PoolOffset = PoolOffset(64);
const SLOTS: PoolOffset = PoolOffset(128);
const SLOT_BYTES: u64 = 128;
const LEN: u64 = 128 + 4 * SLOT_BYTES;

fn slot(number: u64) -> PoolOffset {
    SLOTS.plus(number % 4 * SLOT_BYTES)
}

/// The count, and its complement in the upper half.
fn count_word(count: u64) -> u64 {
    count | u64::from(!(count as u32)) << 32
}

fn set_count<M: Medium>(medium: &M, count: u64, bug: Bug) {
    let bytes = count_word(count).to_le_bytes();
    match bug {
        Bug::CountAcrossWords => medium.store(COUNT.plus(4), &bytes),
        Bug::CountInHalves => {
            medium.store(COUNT, &bytes[..4]);
            medium.store(COUNT.plus(4), &bytes[4..]);
        }
        _ => medium.store(COUNT, &bytes),
    }
    if bug != Bug::CountNotFlushed {
        medium.flush(COUNT.line());
    }
}

fn count<M: Medium>(medium: &M, bug: Bug) -> Result<u64, String> {
    let mut bytes = [0; 8];
    medium.load(COUNT.plus(if bug == Bug::CountAcrossWords { 4 } else { 0 }), &mut bytes);
    match u64::from_le_bytes(bytes) {
        0 => Ok(0),
        word if word == count_word(word & 0xffff_ffff) => Ok(word & 0xffff_ffff),
        word => Err(format!("the count is {word:#x}")),
    }
}

fn append<M: Medium>(medium: &M, tx: u64, bug: Bug) {
    let number = count(medium, bug).expect("a running program reads what it wrote");
    let at = slot(number);
    if bug == Bug::CountBeforeRecord {
        set_count(medium, number + 1, bug);
        medium.fence();
    }
    if bug == Bug::FlushBeforeStore {
        medium.flush_range(at, SLOT_BYTES);
    }
    let record = [tx; 16].map(u64::to_le_bytes).concat();
    match bug {
        Bug::StreamWithoutFence => medium.store_nt(at, &record),
        _ => medium.store(at, &record),
    }
    if bug == Bug::SealLastInOneBatch {
        set_count(medium, number + 1, bug);
    }
    match bug {
        Bug::RecordLineNotFlushed => medium.flush(at.line().plus(1)),
        Bug::LastRecordLineNotFlushed => medium.flush(at.line()),
        Bug::WrongLineFlushed => medium.flush_range(slot(number + 1), SLOT_BYTES),
        Bug::OtherOrder => [1, 0].into_iter().for_each(|line| medium.flush(at.line().plus(line))),
        Bug::FlushBeforeStore | Bug::StreamWithoutFence => {}
        _ => medium.flush_range(at, SLOT_BYTES),
    }
    match bug {
        Bug::FlushTwice => medium.flush(at.line()),
        Bug::CleanLineFlushed => medium.flush(slot(number + 2).line()),
        Bug::ExtraFence => medium.fence(),
        _ => {}
    }
    if !matches!(bug, Bug::NoFenceAfterRecord | Bug::StreamWithoutFence | Bug::OneBatch) {
        medium.fence(); // the record is durable before the count says so
    }
    if !matches!(bug, Bug::CountBeforeRecord | Bug::SealLastInOneBatch) {
        set_count(medium, number + 1, bug);
    }
    if bug != Bug::NoFenceBeforeAck {
        medium.fence(); // the count is durable before the client hears of it
    }
    medium.mark(Mark::Ack(TxId(tx)));
}

/// The records under the count.
fn records<M: Medium>(medium: &M, bug: Bug) -> Result<Vec<u64>, String> {
    let record = |number| {
        let mut bytes = [0; SLOT_BYTES as usize];
        medium.load(slot(number), &mut bytes);
        let first = &bytes[..8];
        let whole = bytes.chunks_exact(8).all(|word| word == first);
        let value = u64::from_le_bytes(first.try_into().expect("eight bytes"));
        if whole { Ok(value) } else { Err(format!("record {number} is torn")) }
    };
    (0..count(medium, bug)?).map(record).collect()
}

/// Recovery proper: the sum of all records goes home, then the log is reset.
fn bring_home<M: Medium>(medium: &M, bug: Bug) -> Result<u64, String> {
    let records = records(medium, bug)?;
    let newest = match (bug, records.last()) {
        (_, None) => return Ok(medium.load_u64(HOME)),
        (Bug::HomeAddedTo, Some(_)) => medium.load_u64(HOME) + records.len() as u64,
        (_, Some(newest)) => *newest,
    };
    if bug == Bug::ResetBeforeHome {
        set_count(medium, 0, bug);
        medium.fence();
    }
    medium.store_u64(HOME, newest);
    if bug != Bug::HomeNotFlushed {
        medium.flush(HOME.line());
    }
    medium.fence();
    set_count(medium, 0, bug);
    medium.fence();
    Ok(newest)
}

// ---- Checking it. ----

/// The records must be 1, 2, 3 … up to the last acknowledged one at least.
fn judge(records: &[u64], crash: &Crash<'_>) -> Result<(), Violation> {
    if records.iter().zip(1..).any(|(found, expected)| *found != expected) {
        return Err(format!("the records are {records:?}").into());
    }
    enough(records.len() as u64, crash)
}

fn enough(newest: u64, crash: &Crash<'_>) -> Result<(), Violation> {
    match crash.acked.last() {
        Some(acked) if newest < acked.0 => {
            Err(format!("{newest} is the newest record and {} was acknowledged", acked.0).into())
        }
        _ => Ok(()),
    }
}

fn check_appending(check: &Check, bug: Bug) -> Report {
    check.run(
        |_, medium: &Recorder| {
            for tx in 1..=3 {
                append(medium, tx, bug);
                returns_here();
            }
        },
        |image: &ImageMedium| records(image, bug),
        |records: &Vec<u64>, crash: &Crash<'_>| judge(records, crash),
    )
}

/// Asserts that the first failure has this class and was found within `images` images.
fn assert_found(
    bug: Bug,
    report: &Report,
    class: Class,
    images: u64,
) -> &outlast_check::memory::Finding {
    let finding = report.failures().next().unwrap_or_else(|| panic!("{bug:?} was not found"));
    println!("{bug:?}, {} images: {finding}\n", report.images_verified);
    assert_eq!(finding.class, class, "{bug:?}: {finding}");
    assert!(report.images_verified <= images, "{bug:?}: {} images", report.images_verified);
    finding
}

#[test]
fn the_log_itself_is_in_order() {
    let report = check_appending(&Check::new(LEN), Bug::None);
    assert!(report.findings.is_empty(), "{}", report.findings[0]);
    assert!(report.complete);
}

#[test]
fn bugs_in_appending_are_found_and_named() {
    for (bug, class) in [
        (Bug::RecordLineNotFlushed, Class::MissingFlush), // 1
        (Bug::LastRecordLineNotFlushed, Class::MissingFlush), // 2, 3
        (Bug::FlushBeforeStore, Class::MissingFlush),     // 4
        (Bug::NoFenceAfterRecord, Class::MissingFence),   // 5
        (Bug::OneBatch, Class::MissingFence),             // 5
        (Bug::SealLastInOneBatch, Class::Order),          // 5
        (Bug::NoFenceBeforeAck, Class::MissingFence),     // 6
        (Bug::CountNotFlushed, Class::MissingFlush),      // 7
        (Bug::WrongLineFlushed, Class::MissingFlush),     // 12
        (Bug::StreamWithoutFence, Class::MissingFence),   // 14
        (Bug::CountAcrossWords, Class::Tearing),          // 16
        (Bug::CountInHalves, Class::Tearing),             // 17
        (Bug::CountBeforeRecord, Class::Atomicity),       // 18
    ] {
        let report = check_appending(&Check::new(LEN), bug);
        let finding = assert_found(bug, &report, class, 40);
        let text = finding.reproduction.as_ref().unwrap().to_string();
        let again = Check::new(LEN).reproduce(
            &text.parse().unwrap(),
            |_, medium: &Recorder| (1..=3).for_each(|tx| append(medium, tx, bug)),
            |image: &ImageMedium| records(image, bug),
            |records: &Vec<u64>, crash: &Crash<'_>| judge(records, crash),
        );
        assert_eq!(again.err(), finding.violation, "{text}");
    }
}

#[test]
fn findings_point_at_the_line_of_the_program() {
    let report = check_appending(&Check::new(LEN), Bug::LastRecordLineNotFlushed);
    let place = report.findings[0].place;
    assert_eq!(place.line, Some(SLOTS.line().plus(1)));
    assert!(place.site.unwrap().location.file().ends_with("toy_log.rs"));
    let report = check_appending(&Check::new(LEN), Bug::NoFenceBeforeAck);
    assert_eq!(report.findings[0].place.line, Some(COUNT.line()));
}

#[test]
fn bugs_in_recovery_show_at_the_second_crash() {
    for (bug, class) in [
        (Bug::ResetBeforeHome, Class::Atomicity),   // 34
        (Bug::HomeNotFlushed, Class::MissingFlush), // 33
        (Bug::HomeAddedTo, Class::Atomicity),       // 35
    ] {
        let run = |check: Check, bug| {
            check.run(
                |_, medium: &Recorder| (1..=2).for_each(|tx| append(medium, tx, bug)),
                |image: &ImageMedium| bring_home(image, bug),
                |home: &u64, crash: &Crash<'_>| {
                    enough(*home, crash)?;
                    if *home > 2 { Err(format!("home is {home}").into()) } else { Ok(()) }
                },
            )
        };
        assert!(run(Check::new(LEN).crashes(1), bug).failures().next().is_none(), "{bug:?}");
        let finding = run(Check::new(LEN), bug);
        assert_eq!(assert_found(bug, &finding, class, 40).place.level, 2);
        assert!(run(Check::new(LEN), Bug::None).failures().next().is_none());
    }
}

#[test]
fn a_fence_on_another_lane_does_not_help() {
    // 13: lane 0 flushes, lane 1 fences and acknowledges.
    let flushed = AtomicBool::new(false);
    let program = |own_fence: bool| {
        let flushed = &flushed;
        move |lane: LaneId, medium: &Recorder| {
            if lane == LaneId(0) {
                medium.store_u64(COUNT, 1);
                medium.flush(COUNT.line());
                if own_fence {
                    medium.fence();
                }
                flushed.store(true, Ordering::Relaxed);
            } else {
                while !flushed.load(Ordering::Relaxed) {
                    medium.pause();
                }
                medium.fence();
                medium.mark(Mark::Ack(TxId(1)));
                flushed.store(false, Ordering::Relaxed);
            }
        }
    };
    let check = |own_fence| {
        Check::new(64).lanes(2).schedules(Schedules::Random { count: 8, seed: 1, stay: 100 }).run(
            program(own_fence),
            |image: &ImageMedium| Ok(image.load_u64(COUNT)),
            |count: &u64, crash: &Crash<'_>| enough(*count, crash),
        )
    };
    assert_found(Bug::None, &check(false), Class::MissingFence, 40);
    assert!(!check(true).has_failures());
}

#[test]
fn a_race_is_found_with_one_preemption() {
    // Two lanes append without a lock, and may take the same slot.
    let check = |bound| {
        Check::new(LEN)
            .lanes(2)
            .schedules(Schedules::Preemptions { bound, schedules_max: 10_000 })
            .run(
                |lane, medium: &Recorder| append(medium, u64::from(lane.0) + 1, Bug::None),
                |image: &ImageMedium| records(image, Bug::None),
                |records: &Vec<u64>, crash: &Crash<'_>| {
                    let missing = crash.acked.iter().find(|tx| !records.contains(&tx.0));
                    missing.map_or(Ok(()), |tx| Err(format!("{tx:?} is lost").into()))
                },
            )
    };
    assert!(!check(0).has_failures());
    let report = check(1);
    let finding = report.failures().next().unwrap();
    assert_eq!(finding.class, Class::Atomicity, "{finding}");
    // One preemption, and perhaps another lane to begin with.
    let plan = finding.reproduction.as_ref().unwrap().plan.to_string();
    assert!(plan.split_whitespace().count() <= 3, "{plan}");
}

#[test]
fn what_is_unusual_and_harmless_is_not_a_failure() {
    let redundant = |bug, check: Check| {
        let report = check_appending(&check, bug);
        assert!(!report.has_failures(), "{bug:?}: {}", report.findings[0]);
        assert!(report.complete);
        report.findings.len()
    };
    assert_eq!(redundant(Bug::FlushTwice, Check::new(LEN)), 1);
    assert_eq!(redundant(Bug::CleanLineFlushed, Check::new(LEN)), 1);
    assert_eq!(redundant(Bug::ExtraFence, Check::new(LEN)), 1);
    assert_eq!(redundant(Bug::OtherOrder, Check::new(LEN)), 0);
    let clflushopt = Check::new(LEN).flushing_with(FlushKind::ClflushOpt);
    assert_eq!(redundant(Bug::None, clflushopt), 0);
}

#[test]
fn domains_differ_in_what_they_forgive() {
    let in_domain = |domain, bug| {
        let check = Check::new(LEN).model(Model::default().in_domain(domain));
        check_appending(&check, bug).failures().next().map(|finding| finding.class)
    };
    // Where caches are durable flushes are needless and fences are not (rules 11 and 13).
    assert_eq!(in_domain(Domain::Eadr, Bug::RecordLineNotFlushed), None);
    assert_eq!(in_domain(Domain::Eadr, Bug::NoFenceAfterRecord), None);
    assert_eq!(in_domain(Domain::Eadr, Bug::NoFenceBeforeAck), Some(Class::MissingFence));
    assert_eq!(in_domain(Domain::Eadr, Bug::StreamWithoutFence), Some(Class::MissingFence));
    assert_eq!(in_domain(Domain::Eadr, Bug::CountBeforeRecord), Some(Class::Atomicity));
    assert_eq!(in_domain(Domain::Process, Bug::NoFenceBeforeAck), None);
    assert_eq!(in_domain(Domain::Process, Bug::CountBeforeRecord), Some(Class::Atomicity));
    // Count and first record share a sector, in which stores persist in order.
    assert_eq!(in_domain(Domain::Page, Bug::NoFenceAfterRecord), None);
    assert_eq!(in_domain(Domain::Page, Bug::NoFenceBeforeAck), Some(Class::MissingFence));
    for domain in [Domain::Eadr, Domain::Process, Domain::Page] {
        assert_eq!(in_domain(domain, Bug::None), None, "{domain}");
    }
}

// ---- A log without a count: records that are sealed by themselves. ----

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SealBug {
    None,
    /// 19: the seal is stored first, and says nothing of the record.
    SealFirst,
    /// The seal is stored last, and says nothing of the record.
    SealSaysNothing,
    /// 20, 23: the seal leaves out the generation.
    NoGeneration,
    /// 21: the seal of nothing is nothing.
    ZeroIsValid,
    /// 22: the slot's valid mark is still there from its last use.
    MarkNotCleared,
}

const GENERATION: PoolOffset = PoolOffset(0);
const VALID: u64 = 0x5ea1;

fn seal(generation: u64, words: &[u64], bug: SealBug) -> u64 {
    let start = match bug {
        SealBug::SealFirst | SealBug::SealSaysNothing | SealBug::MarkNotCleared => return VALID,
        SealBug::NoGeneration => 1,
        SealBug::ZeroIsValid => 0,
        SealBug::None => generation,
    };
    words.iter().fold(start, |sum, word| (sum ^ word).wrapping_mul(0x100_0000_01b3))
}

fn append_sealed<M: Medium>(medium: &M, tx: u64, bug: SealBug) {
    let at = slot(tx - 1);
    let words = [tx; 15];
    let seal = seal(medium.load_u64(GENERATION), &words, bug);
    if bug == SealBug::SealFirst {
        medium.store_u64(at.plus(120), seal);
    }
    medium.store(at, &words.map(u64::to_le_bytes).concat());
    if bug != SealBug::SealFirst {
        medium.store_u64(at.plus(120), seal);
    }
    medium.flush_range(at, SLOT_BYTES);
    medium.fence();
    medium.mark(Mark::Ack(TxId(tx)));
}

/// The records up to the first slot that holds no valid one.
fn sealed_records<M: Medium>(medium: &M, bug: SealBug) -> Result<Vec<u64>, String> {
    let generation = medium.load_u64(GENERATION);
    let mut records = Vec::new();
    for number in 0..4 {
        let words: [u64; 16] =
            std::array::from_fn(|word| medium.load_u64(slot(number).plus(word as u64 * 8)));
        if words[15] != seal(generation, &words[..15], bug) {
            break;
        }
        if words[..15].iter().any(|word| *word != words[0]) {
            return Err(format!("record {number} is torn"));
        }
        records.push(words[0]);
    }
    Ok(records)
}

/// The records in slots from an earlier generation.
fn leave_old_records(medium: &Recorder, bug: SealBug) {
    for tx in 1..=4 {
        let words = [tx + 100; 15];
        let at = slot(tx - 1);
        medium.store(at, &words.map(u64::to_le_bytes).concat());
        let cleared = matches!(bug, SealBug::SealFirst | SealBug::SealSaysNothing);
        medium.store_u64(at.plus(120), if cleared { 0 } else { seal(1, &words, bug) });
    }
    medium.store_u64(GENERATION, 2);
}

fn check_sealed(bug: SealBug, tear: Tear) -> Report {
    let mut check = Check::new(LEN).model(Model::default().tearing(tear));
    if bug != SealBug::ZeroIsValid {
        check = check.prepared(|medium| leave_old_records(medium, bug));
    }
    check.run(
        |_, medium: &Recorder| (1..=3).for_each(|tx| append_sealed(medium, tx, bug)),
        |image: &ImageMedium| sealed_records(image, bug),
        |records: &Vec<u64>, crash: &Crash<'_>| judge(records, crash),
    )
}

#[test]
fn bugs_in_seals_are_found_and_named() {
    for (bug, class) in [
        (SealBug::SealFirst, Class::Atomicity),
        (SealBug::SealSaysNothing, Class::Order),
        (SealBug::NoGeneration, Class::StaleRecord),
        (SealBug::ZeroIsValid, Class::Atomicity),
        (SealBug::MarkNotCleared, Class::StaleRecord),
    ] {
        println!("{bug:?}");
        assert_found(Bug::None, &check_sealed(bug, Tear::Line), class, 40);
    }
    for tear in [Tear::Line, Tear::Word] {
        let report = check_sealed(SealBug::None, tear);
        assert!(report.findings.is_empty() && report.complete, "{tear}: {:?}", report.findings);
    }
}

#[test]
fn a_seal_that_needs_whole_lines_tears_where_words_do() {
    // One line, its seal stored last: rule 2 makes that enough, unless lines tear.
    let append = |medium: &Recorder| {
        medium.store(SLOTS, &[7u64; 7].map(u64::to_le_bytes).concat());
        medium.store_u64(SLOTS.plus(56), VALID);
        medium.flush(SLOTS.line());
        medium.fence();
        medium.mark(Mark::Ack(TxId(1)));
    };
    let check = |tear| {
        Check::new(LEN).model(Model::default().tearing(tear)).run(
            |_, medium: &Recorder| append(medium),
            |image: &ImageMedium| {
                let words: [u64; 8] =
                    std::array::from_fn(|word| image.load_u64(SLOTS.plus(word as u64 * 8)));
                Ok((words[7] == VALID).then_some(words))
            },
            |record: &Option<[u64; 8]>, crash: &Crash<'_>| match record {
                Some(words) if words[..7] == [7; 7] => Ok(()),
                None if crash.acked.is_empty() => Ok(()),
                other => Err(format!("found {other:?}").into()),
            },
        )
    };
    assert!(!check(Tear::Line).has_failures());
    assert_found(Bug::None, &check(Tear::Word), Class::Tearing, 40);
}
