//! Real programs together on one machine: each has memory of its own, byte for byte, also after
//! crashes under a checkpoint scheme; what they write is held. Without QEMU these tests say so, and go on.
#![cfg(not(miri))]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use outlast_crash::machine::with_cores;
use outlast_lab::points::{Choice, Points, Window, choose_for};
use outlast_lab::record::{Metric, Record};
use outlast_lab::simulated::{RealPrograms, Simulation, Work, replay_programs, run};
use outlast_lab::suite::ERROR_MAX;
use outlast_schemes::{Image, MachineScheme, Options, Streams, apply, whole_image};
use outlast_sim::Domain;
use outlast_sim::timed::{Cycle, MachineConfig, Setup, TimedJournal};
use outlast_trace::{Happening, LineAddr, Program, is_output};
use outlast_tracer::{Place, ProgramOutput, Request, capture, qemu_version};

/// Captures a program into a folder; all of it, or a window.
fn captured(
    folder: &Path,
    name: &str,
    command: &[OsString],
    window: Option<(u64, u64)>,
) -> PathBuf {
    let request = Request {
        skip: window.map_or(0, |window| window.0),
        count: window.map(|window| window.1),
        output: ProgramOutput::Nowhere,
        ..Request::new(folder.join(name), command.iter().cloned())
    };
    capture(&request, &mut |_| {}).unwrap().files[0].path.clone()
}

/// Captures all of a test of ours in one thread, in an environment that is the same everywhere: how
/// libraries copy bytes does not depend on the processor.
fn pinned(folder: &Path, name: &str, test: &str) -> PathBuf {
    let mut command = own_test(test);
    command.push("--test-threads=1".into());
    let tunables = "glibc.cpu.hwcaps=-AVX2,-AVX,-ERMS,-FSRM,-SSSE3,-SSE4_1,-SSE4_2";
    let environment = vec![("GLIBC_TUNABLES".into(), tunables.into())];
    let request = Request {
        output: ProgramOutput::Nowhere,
        place: Place { environment: Some(environment), ..Place::default() },
        ..Request::new(folder.join(name), command)
    };
    capture(&request, &mut |_| {}).unwrap().files[0].path.clone()
}

fn own_test(name: &str) -> Vec<OsString> {
    let own = std::env::current_exe().unwrap();
    vec![own.into(), "--exact".into(), name.into()]
}

/// A folder, if programs can be captured here.
fn place() -> Option<tempfile::TempDir> {
    if qemu_version().is_none() {
        eprintln!("qemu-x86_64 is missing: nothing is captured (apt-get install qemu-user)");
        return None;
    }
    Some(tempfile::tempdir().unwrap())
}

/// Not a test of anything, but a program that others capture: two threads under a lock.
#[test]
fn guest_with_threads() {
    let lock = Mutex::new(1u64);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let lock = &lock;
            scope.spawn(move || {
                for _ in 0..200 {
                    let mut locked = lock.lock().unwrap();
                    *locked = locked.wrapping_mul(3).wrapping_add(thread);
                }
            });
        }
    });
}

/// Not a test of anything, but a program that others capture: it fills a table, and says something now
/// and then.
#[test]
fn guest_that_writes() {
    use std::io::Write;
    let mut table = vec![0u64; 2048];
    for n in 0..12_000u64 {
        let at = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53;
        table[at as usize] += n;
        if n % 250 == 0 {
            std::io::stderr().write_all(&table[at as usize].to_le_bytes()).unwrap();
        }
    }
    assert!(table.iter().sum::<u64>() > 0);
}

/// Not a test of anything, but a program that others capture: it computes, goes through memory line by
/// line, jumps about in it, and fills bytes, each for some time, again and again. A machine stores those
/// bytes word by word, so that it has an eighth of the program's instructions there.
#[test]
fn guest_with_phases() {
    let mut table = vec![1u64; 1 << 15];
    let mut bytes = vec![0u8; 1 << 15];
    let mut sum = 0u64;
    for round in 0..3u64 {
        for n in 0..5_000u64 {
            sum = (sum ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(9);
        }
        for at in (0..table.len()).step_by(8) {
            table[at] = table[at].wrapping_add(sum);
        }
        for n in 0..1_000u64 {
            let at = (n ^ round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49;
            sum = sum.wrapping_add(table[at as usize]);
        }
        for _ in 0..4 {
            fill(&mut bytes, round as u8);
        }
    }
    assert_ne!(sum, u64::from(bytes[1]));
}

/// Fills bytes by a string instruction.
fn fill(bytes: &mut [u8], with: u8) {
    // SAFETY: it stores to these bytes, upwards as the direction flag has it in every function.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "rep stosb",
            inout("rcx") bytes.len() => _,
            inout("rdi") bytes.as_mut_ptr() => _,
            in("al") with,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    bytes.fill(with);
}

fn machine(config: &str) -> MachineConfig {
    let mut machine = MachineConfig::named(config).unwrap();
    machine.set("a test", "core.threads", "1").unwrap();
    machine.set("a test", "core.kind", "inorder").unwrap();
    machine
}

/// Two copies of a program with threads, whose orders have nothing to do with each other, and another.
#[test]
fn programs_end_each_with_its_own_memory() {
    let Some(place) = place() else { return };
    let threads = captured(place.path(), "a.otrace", &own_test("guest_with_threads"), None);
    let writes = captured(place.path(), "b.otrace", &own_test("guest_that_writes"), None);
    let all = replay_programs(&[threads.clone(), writes, threads], &machine("tiny"), 1).unwrap();
    assert_eq!(all.len(), 3);
    for replayed in all {
        assert_eq!(replayed.wrong, [0; 0]);
        assert!(replayed.pages > 10, "{}", replayed.pages);
    }
}

fn value(records: &[Record], metric: &str, class: Option<&str>) -> f64 {
    let is_it = |record: &&Record| record.metric == metric && record.class.as_deref() == class;
    records.iter().find(is_it).and_then(|record| record.value).unwrap_or(f64::NAN)
}

fn output_calls(path: &Path) -> u64 {
    let program = Program::open(path).unwrap();
    let mut count = 0;
    for thread in 0..program.threads() {
        let mut thread = program.thread(thread);
        while let Some(happening) = thread.next().unwrap() {
            let is_it = |call: Happening<'_>| matches!(call, Happening::Call { number, .. } if is_output(number));
            count += u64::from(is_it(happening));
        }
    }
    count
}

/// The short program begins again until the long one has had its instructions, and what they write is
/// counted under each scheme that holds it.
#[test]
fn programs_go_on_until_all_are_done_and_what_they_write_is_held() {
    let Some(place) = place() else { return };
    let command = own_test("guest_that_writes");
    let long = captured(place.path(), "long.otrace", &command, None);
    let short = captured(place.path(), "short.otrace", &command, Some((100_000, 30_000)));
    let simulation = |work: Work, scheme: &str, instructions: u64| {
        let scheme: MachineScheme = scheme.parse().unwrap();
        let simulation = Simulation {
            machine: machine("picl"),
            work,
            warm_up: 0,
            instructions,
            seed: 1,
            timeline: None,
            scheme,
            options: match scheme.name() {
                "non-pers" => Options::default(),
                _ => Options::default().with("epoch", 20_000).with("save_lines", 1),
            },
        };
        run(&simulation).unwrap()
    };
    let count = Program::open(&long).unwrap().instructions().unwrap();
    let both = Work::Programs(vec![short.clone(), long.clone()]);
    let plain = simulation(both.clone(), "non-pers", count);
    assert!(value(&plain, Metric::INSTRUCTIONS.name, None) >= 2.0 * count as f64);
    let ends = ["0 short", "1 long"].map(|class| value(&plain, Metric::CYCLES.name, Some(class)));
    let all = value(&plain, Metric::CYCLES.name, None);
    assert!(ends.iter().all(|end| *end > 0.0 && *end <= all), "{ends:?} of {all}");
    assert_eq!(ends[0].max(ends[1]), all, "it ends with the last");
    let calls = output_calls(&long);
    assert!(calls >= 40, "{calls}");
    for scheme in ["picl", "frm", "journaling", "shadow", "thynvm"] {
        let alone = simulation(Work::Trace(long.clone()), scheme, u64::MAX);
        assert_eq!(value(&alone, "outputs", None), calls as f64, "{scheme}");
        let (mean, p99) =
            (value(&alone, "output_cycles_mean", None), value(&alone, "output_cycles_p99", None));
        assert!(mean > 0.0 && p99 >= mean, "{scheme}: {mean} {p99}");
    }
    // Each begins again: an instruction of a program is two of the machine's at most.
    let twice = simulation(both, "picl", 4 * count);
    assert!(value(&twice, "outputs", None) >= 2.0 * calls as f64);
}

/// Windows by basic blocks and costs, with their weights, tell what the whole run takes; without weights they
/// would not.
#[test]
fn representative_windows_stand_for_the_whole_run() {
    let Some(place) = place() else { return };
    let whole = pinned(place.path(), "whole.otrace", "guest_with_phases");
    let program = Program::open(&whole).unwrap();
    let out = place.path().join("whole.points");
    let mut machine = machine("picl");
    for (key, size) in [("l1.size", "8 KiB"), ("l2.size", "32 KiB"), ("llc.size", "128 KiB")] {
        machine.set_option(key, size).unwrap();
    }
    let choice = Choice { interval: 10_000, windows_max: 20, warm_up: 10_000, seed: 1 };
    let points = choose_for(&machine, &program, &choice, &out).unwrap();
    assert_eq!(Points::open(&out).unwrap(), points);
    let of = |work: Work| {
        let (warm_up, instructions) = (0, 1 << 40);
        let (machine, options) = (machine.clone(), Options::default());
        let (seed, timeline, scheme) = (1, None, MachineScheme::plain());
        run(&Simulation { machine, work, warm_up, instructions, seed, timeline, scheme, options })
            .unwrap()
    };
    let cpi = |records: &[Record]| {
        value(records, Metric::CYCLES.name, None) / value(records, Metric::INSTRUCTIONS.name, None)
    };
    let (exact, all) = (of(Work::Trace(whole.clone())), of(Work::Windows(out.clone())));
    let name = out.display().to_string();
    let (weighted, windows): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|record| record.workload == name);
    let mut unweighted = 0.0;
    for window in &points.windows {
        let name = out.with_file_name(&window.file).display().to_string();
        let own: Vec<_> = windows.iter().filter(|it| it.workload == name).cloned().collect();
        unweighted += cpi(&own) / points.windows.len() as f64;
    }
    let off = |found: f64| (found / cpi(&exact) - 1.0).abs();
    let ran: u64 = points.windows.iter().map(|window| window.instructions).sum();
    let text = format!(
        "{} windows of {} intervals; CPI {}, by weights {}, without {unweighted}",
        points.windows.len(),
        points.intervals,
        cpi(&exact),
        cpi(&weighted)
    );
    println!("{text}");
    assert!((3..=20).contains(&points.windows.len()) && 2 * ran < points.instructions, "{text}");
    // Caches are warm (`windows_of_everything_are_the_whole_run`): the error is that of the choice.
    assert!(off(cpi(&weighted)) <= ERROR_MAX, "{text}");
    assert!(off(unweighted) > 2.0 * off(cpi(&weighted)), "{text}");
    let name = Metric::INSTRUCTIONS.name;
    let found = value(&weighted, name, None) / value(&exact, name, None);
    assert!((found - 1.0).abs() < 0.1, "{name} {found}: {text}");
}

/// Windows that are all of a trace take as long as it does: caches, TLBs and predictors hold at each
/// window's begin what they hold there in the whole run.
#[test]
fn windows_of_everything_are_the_whole_run() {
    const ALL: u64 = 120_000;
    let Some(place) = place() else { return };
    let path = place.path().join("part.otrace");
    let command = [own_test("guest_with_phases"), vec!["--test-threads=1".into()]].concat();
    let request = Request {
        skip: 400_000,
        count: Some(ALL),
        output: ProgramOutput::Nowhere,
        ..Request::new(&path, command)
    };
    capture(&request, &mut |_| {}).unwrap();
    let out = place.path().join("part.points");
    let window = |number: u64| Window {
        file: format!("part.{number}.otrace").into(),
        begins_at: number * ALL / 12,
        warm_up: 0,
        instructions: ALL / 12,
        weight: 1.0 / 12.0,
    };
    let points = Points {
        command: String::new(),
        trace: Some("part.otrace".into()),
        instructions: ALL,
        intervals: 12,
        windows: (0..12).map(window).collect(),
    };
    std::fs::write(&out, serde_json::to_string(&points).unwrap()).unwrap();
    let cpi = |work: Work| {
        let name = work.name();
        let records = run(&Simulation {
            machine: machine("picl"),
            work,
            warm_up: 0,
            instructions: 1 << 40,
            seed: 1,
            timeline: None,
            scheme: MachineScheme::plain(),
            options: Options::default(),
        })
        .unwrap();
        let own: Vec<_> = records.into_iter().filter(|record| record.workload == name).collect();
        value(&own, Metric::CYCLES.name, None) / value(&own, Metric::INSTRUCTIONS.name, None)
    };
    let (whole, by_windows) = (cpi(Work::Trace(path)), cpi(Work::Windows(out)));
    println!("CPI {whole} as a whole, {by_windows} by windows of everything");
    assert!((by_windows / whole - 1.0).abs() < 0.02, "{by_windows} for {whole}");
}

/// Memory at the end of an epoch.
fn memory(base: &[u8], journal: &TimedJournal, epoch: u64, lines: u64) -> Vec<u8> {
    let mut memory = base[..64 * lines as usize].to_vec();
    let end = journal.ended_epochs().iter().find(|end| end.epoch == epoch);
    for (at, word) in &journal.stored_words()[..end.map_or(0, |end| end.stores)] {
        memory[at.0 as usize..][..8].copy_from_slice(word);
    }
    memory
}

/// Crashes `picl` on that machine at a hundred places of its journal, and takes each for the end of the
/// epoch that recovery names. Returns the cycle at which the work ended.
fn crash_along(paths: &[PathBuf], machine: &MachineConfig) -> Cycle {
    let real = RealPrograms::open(paths, false).unwrap();
    let sources = real.sources();
    let lanes = sources.len() as u16;
    let base = real.base();
    let work = outlast_schemes::Work {
        streams: Streams::Generated { tx_stores: 0 },
        image: Default::default(),
        end: LineAddr(base.len() as u64 / 64),
        lanes,
        is_nested: false,
        whole: None,
    };
    let options = Options::default().with("epoch", 3_000).with("acs_gap", 1).with("save_lines", 1);
    let scheme: MachineScheme = "picl".parse().unwrap();
    let prepared = scheme.prepare(&work, &options, None).unwrap();
    let setup =
        Setup { base: base.clone(), journal: Some(Domain::Adr), stores: true, ..Setup::default() };
    let config = with_cores(machine, lanes);
    let mut ran = prepared.machine(&config, setup, sources).unwrap();
    ran.run_to_end().unwrap();
    let journal = ran.journal().unwrap();
    let entries = journal.journal().len();
    let base = whole_image(&base, prepared.lines());
    let (mut image, mut cursor) = (base.clone(), journal.journal().cursor());
    let (mut epochs, mut unlike_unrecovered) = (Vec::new(), 0);
    for crash in 0..=100 {
        let entry = entries * crash / 100;
        cursor.advance_to_entry(entry, &mut image, |_| {});
        let now = match entry < entries {
            true => Cycle(journal.at(entry).0.saturating_sub(1)),
            false => Cycle::NEVER,
        };
        let patches = prepared.recover(Image::new(&image)).unwrap();
        let undo = apply(&patches, &mut image);
        let epoch = prepared.epoch(Image::new(&image)).unwrap();
        assert!(epoch >= journal.persisted_by(now), "behind entry {entry}: epoch {epoch}");
        let expected = memory(&base, journal, epoch, prepared.epoch_lines());
        let is_expected = |image: &[u8]| image[..expected.len()] == expected;
        assert!(is_expected(&image), "behind entry {entry}: not as at the end of epoch {epoch}");
        apply(&undo, &mut image);
        unlike_unrecovered += u32::from(!is_expected(&image));
        epochs.push(epoch);
    }
    epochs.dedup();
    assert!(epochs.len() > 10 && unlike_unrecovered > 10, "{epochs:?} {unlike_unrecovered}");
    ran.now()
}

#[test]
fn a_crash_of_two_programs_leaves_the_end_of_an_epoch() {
    let Some(place) = place() else { return };
    let window = |name, skip| {
        captured(place.path(), name, &own_test("guest_that_writes"), Some((skip, 60_000)))
    };
    crash_along(&[window("a.otrace", 200_000), window("b.otrace", 300_000)], &machine("tiny"));
}

/// Threads under a lock, whose locked instructions the last level performs for them.
#[test]
fn a_crash_of_threads_with_atomics_at_the_last_level_leaves_the_end_of_an_epoch() {
    let Some(place) = place() else { return };
    let threads = captured(place.path(), "a.otrace", &own_test("guest_with_threads"), None);
    let ends = ["false", "true"].map(|below| {
        let mut machine = machine("tiny");
        machine.set("a test", "llc.atomics", below).unwrap();
        crash_along(std::slice::from_ref(&threads), &machine)
    });
    assert_ne!(ends[0], ends[1], "no locked instruction was performed there");
}
