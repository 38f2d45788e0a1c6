//! `outlast trace` as a user meets it.

mod common;

use common::{directory, good, json, one_line, outlast, path, refused, text};

fn has_qemu() -> bool {
    let has = std::process::Command::new("qemu-x86_64").arg("-version").output().is_ok();
    if !has {
        eprintln!("qemu-x86_64 is missing: nothing is captured (apt-get install qemu-user)");
    }
    has
}

#[test]
fn what_cannot_be_captured_or_read_is_one_line() {
    let directory = directory();
    let out = &path(&directory, "a.otrace");
    let cases: [(&[&str], &str); 11] = [
        (&["trace"], "outlast trace -- PROGRAM"),
        (&["trace", "--out", out, "--", "no-such-program"], "no such program in PATH"),
        (&["trace", "--out", out, "--", "/etc/passwd"], "no program for x86-64 Linux"),
        (&["trace", "--count", "0", "--", "true"], "0"),
        (&["trace", "info", "/no/such/file"], "No such file"),
        (&["trace", "check", "/etc/passwd"], "no trace of Outlast"),
        (&["trace", "stat", "/etc/passwd"], "no trace of Outlast"),
        (&["trace", "cut", "/etc/passwd", "--out", out], "no trace of Outlast"),
        (&["trace", "convert", "/etc/passwd", "--out", out], "no ChampSim trace"),
        (&["trace", "suite", "--program", "bzip3"], "bzip2"),
        (&["sim", "--trace", "/etc/passwd,/etc/group"], "only traces of `outlast trace`"),
    ];
    for (arguments, says) in cases {
        let line = refused(arguments);
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn without_qemu_one_line_names_the_package() {
    let directory = directory();
    let out = &path(&directory, "a.otrace");
    let arguments = ["trace", "--out", out, "--", "/bin/true"];
    let output = common::command(&arguments).env("PATH", directory.path()).output().unwrap();
    let line = one_line(&arguments, &output);
    assert!(line.contains("qemu-x86_64 is missing") && line.contains("qemu-user"), "{line}");
}

#[test]
fn a_program_is_captured_looked_at_cut_converted_and_replayed() {
    if !has_qemu() {
        return;
    }
    let directory = directory();
    let [all, part, champsim, back] = ["all.otrace", "part.otrace", "champsim.gz", "back.otrace"]
        .map(|name| path(&directory, name));
    let printed = good(&["trace", "--out", &all, "--", "/bin/echo", "--", "a", "line"]);
    assert_eq!(printed, "-- a line\n", "standard output is the program's");
    let info = json(&["trace", "info", &all]);
    assert_eq!(info["records"][0]["command"], "/bin/echo -- a line");
    assert_eq!(info["records"][0]["whole"], true);
    assert_eq!(info["records"][0]["check"], "right");
    assert!(good(&["trace", "check", &all]).starts_with("0 findings; "));
    let stat = json(&["trace", "stat", &all]);
    let instructions = stat["records"][0]["instructions"].as_u64().unwrap();
    assert!(instructions > 20_000, "{stat}");

    good(&["trace", "cut", &all, "--skip", "5000", "--count", "10000", "--out", &part]);
    assert!(good(&["trace", "check", &part]).starts_with("0 findings; "));
    good(&["trace", "convert", &part, "--out", &champsim]);
    good(&["trace", "convert", &champsim, "--out", &back]);
    let of = |file: &str| json(&["trace", "stat", file])["records"][0]["instructions"].as_u64();
    assert_eq!(of(&part), of(&back));
    // Through drmemtrace's format a ChampSim trace is the same but for registers, of which it has those of branches.
    let [drmem, through, again] =
        ["drmem.trace.gz", "through.champsim", "again.champsim"].map(|name| path(&directory, name));
    let told = json(&["trace", "convert", &part, "--to", "drmemtrace", "--out", &drmem]);
    assert_eq!(told["records"][0]["lost_accesses"], 0);
    let mut lost = Vec::new();
    for (from, out) in [(&drmem, &through), (&part, &again)] {
        let told = json(&["trace", "convert", from, "--to", "champsim", "--out", out]);
        lost.push(told["records"][0]["lost_accesses"].clone());
    }
    assert_eq!(lost[0], lost[1]);
    let [one, other] = [&through, &again].map(|file| std::fs::read(file).unwrap());
    let instructions = of(&part).unwrap() as usize;
    assert_eq!((one.len(), other.len()), (64 * instructions, 64 * instructions));
    // Whether the last one is taken is not known.
    let pairs = one.chunks(64).zip(other.chunks(64)).enumerate().take(instructions - 1);
    for (number, (one, other)) in pairs {
        // The instruction pointer, whether it is a branch and taken, and the addresses.
        assert_eq!((&one[..10], &one[16..]), (&other[..10], &other[16..]), "{number}");
    }
    let line = refused(&["trace", "convert", &champsim, "--to", "drmemtrace", "--out", &drmem]);
    assert!(line.contains("only an otrace becomes"), "{line}");
    for trace in [&part, &champsim, &back] {
        let warm = ["--warm-up", "0", "--instructions", "5000", "--config", "tiny"];
        let run = [&["sim", "--trace", trace][..], &warm].concat();
        assert!(good(&run).contains("instructions "));
    }

    // A byte of it is changed: a failed check, and what cannot be read is refused.
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    let line = refused(&["trace", "check", &part]);
    assert!(line.contains("damaged"), "{line}");
    let output = outlast(&["trace", "info", &part]);
    let (status, told) = (output.status.code(), text(&output.stdout) + &text(&output.stderr));
    assert!(status != Some(0) && told.contains("damaged"), "{status:?}: {told}");

    let output = outlast(&["trace", "--json", "--out", &all, "--", "/bin/echo", "aside"]);
    let document: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(document["records"][0]["file"].as_str(), Some(all.as_str()));
    assert!(text(&output.stderr).contains("aside"));
}

#[test]
fn the_suite_is_listed_and_what_is_missing_has_a_line() {
    let list = json(&["trace", "suite", "--list"]);
    let records = list["records"].as_array().unwrap();
    let of = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!((of("program"), of("mix")), (29, 8));
    let directory = directory();
    let inputs = path(&directory, "inputs");
    good(&["trace", "suite", "--inputs", &inputs, "--program", "namd"]);
    assert!(directory.path().join("inputs/namd/salt.lammps").is_file());
    // Without QEMU each program is told, and the status says so.
    let arguments =
        ["trace", "suite", "--to", &path(&directory, "to"), "--program", "bzip2,perlbench"];
    let output = common::command(&arguments).env("PATH", directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(["bzip2: ", "perlbench: "].iter().all(|name| told.contains(name)), "{told}");
}

#[test]
fn programs_run_together_with_what_each_took() {
    if !has_qemu() {
        return;
    }
    let directory = directory();
    let [a, b] = ["a.otrace", "b.otrace"].map(|name| path(&directory, name));
    good(&["trace", "--count", "60000", "--out", &a, "--", "/bin/ls", "/"]);
    good(&["trace", "--count", "30000", "--skip", "20000", "--out", &b, "--", "/bin/ls", "/"]);
    let both = format!("{a},{b}");
    let common = ["--config", "picl", "--warm-up", "10000", "--instructions", "90000"];
    let run = |scheme: &str| {
        json(&[&["sim", "--trace", &both, "--scheme", scheme][..], &common].concat())
    };
    for scheme in ["non-pers", "picl"] {
        let document = run(scheme);
        let records = document["records"].as_array().unwrap();
        let classes: Vec<_> = records
            .iter()
            .filter(|record| record["metric"] == "cycles" && record["class"].is_string())
            .map(|record| record["class"].as_str().unwrap())
            .collect();
        assert_eq!(classes, ["0 a", "1 b"], "{scheme}");
        assert!(records.iter().all(|record| record["workload"] == "a+b"), "{scheme}");
    }
}

/// A table of words whose transactions the program marks, and some work outside of them.
const MARKED: &str = "
    #define _GNU_SOURCE
    #include <unistd.h>
    #include \"outlast_marks.h\"
    static long table[512], sums[64];
    int main() {
        for (int n = 0; n < 512; n++) table[n] = n;
        for (int tx = 0; tx < 40; tx++) {
            sums[tx % 64] = table[tx];
            OUTLAST_BEGIN();
            for (int k = 0; k < 4; k++) table[(tx * 37 + k * 129) % 512] += tx + 1;
            OUTLAST_END();
            OUTLAST_ACK();
        }
        return 0;
    }";

#[test]
fn a_captured_program_is_crashed_by_its_marks_and_by_epochs() {
    let compiler = std::process::Command::new("cc").arg("--version").output();
    if !has_qemu() || compiler.is_err() {
        return eprintln!("qemu-user or cc is missing: no program with marks is captured");
    }
    let directory = directory();
    let [source, program, trace, bare] =
        ["marked.c", "marked", "marked.otrace", "bare.otrace"].map(|name| path(&directory, name));
    std::fs::write(&source, MARKED).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../outlast-tracer/include");
    let done = std::process::Command::new("cc")
        .args(["-O1", "-I", include, "-o", &program, &source])
        .status();
    assert!(done.unwrap().success());
    good(&["trace", "--out", &trace, "--", &program]);
    let crash = |scheme: &str, trace: &str, more: &[&str]| {
        let common =
            ["sim", "--trace", trace, "--scheme", scheme, "--config", "tiny", "--crash", "60"];
        outlast(&[&common[..], more].concat())
    };
    for scheme in ["fwb", "redu", "ssp", "ehou"] {
        let output = crash(scheme, &trace, &["--resume", "1"]);
        let told = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{scheme}: {told}");
        assert!(told.contains(" 40 transactions, ") && told.contains(" 0 lost, 0 torn"), "{told}");
    }
    // A scheme without a guarantee is found guilty, and the hint replays it.
    let output = crash("unsafe-redo", &trace, &[]);
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(!told.contains(" 0 lost, 0 torn"), "{told}");
    // Timed under a scheme of transactions, as a workload would be.
    let timed = good(&["sim", "--trace", &trace, "--scheme", "fwb", "--config", "tiny"]);
    assert!(timed.contains("throughput"), "{timed}");
    becomes_a_file(&directory, &trace);
    // Epochs need no marks.
    good(&["trace", "--out", &bare, "--count", "30000", "--", "/bin/true"]);
    let output = crash("picl", &bare, &["--set", "scheme.epoch=3_000", "--resume", "1"]);
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.code() == Some(0) && told.contains(" 0 lost, 0 torn"), "{told}");
    for arguments in [
        &["sim", "--trace", &bare, "--scheme", "fwb"][..],
        &["sim", "--trace", &bare, "--scheme", "fwb", "--crash", "5"],
    ] {
        let line = refused(arguments);
        assert!(line.contains("no transactions in it"), "{line}");
    }
}

/// The transactions of [`MARKED`] as a file of one's own leave the same words, and run under every scheme.
fn becomes_a_file(directory: &tempfile::TempDir, trace: &str) {
    let mine = &path(directory, "marked.work");
    let convert = ["trace", "convert", trace, "--to", "work", "--out", mine];
    let line = refused(&convert);
    assert!(
        line.contains("work cannot hold") && line.contains("outside leaves them out"),
        "{line}"
    );
    assert!(!std::path::Path::new(mine).exists());
    let document = json(&[&convert[..], &["--lose", "sizes,outside"]].concat());
    let told = &document["records"][0];
    assert_eq!(told["transactions"], 40, "{told}");
    assert!(told["lost_stores"].as_u64().unwrap() >= 40, "{told}");
    let work = outlast_workloads::own::OwnWork::read(mine.as_ref()).unwrap();
    let mut table: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    for (tx, k) in (0..40).flat_map(|tx| (0..4).map(move |k| (tx, k))) {
        let place = (tx * 37 + k * 129) % 512;
        *table.entry(place).or_insert(place) += tx + 1;
    }
    let mut memory = work.memory_at_end();
    for value in table.values() {
        let found = memory.iter().position(|word| word == value);
        memory.swap_remove(found.unwrap_or_else(|| panic!("{value} is in no word")));
    }
    good(&["sim", mine, "--scheme", "swift,fwb", "--config", "tiny"]);
    good(&["crash", mine, "--scheme", "swift", "--points", "40"]);
}

/// Single words of every line, as a trace has them, so that the way back gives the same file.
#[test]
fn a_file_of_transactions_becomes_a_trace_with_marks_and_comes_back() {
    let directory = directory();
    let [mine, trace, back, champsim] = ["mine.work", "mine.otrace", "back.work", "mine.champsim"]
        .map(|name| path(&directory, name));
    let mut text = "outlast-work 1\nmemory 8192\nlanes 1\n".to_owned();
    for line in 0..128u64 {
        text += &format!("init {:#x} {}\n", 64 * line, line + 1);
    }
    for tx in 0..128u64 {
        let (at, other) = (64 * tx, 64 * (tx * 37 % 128) + 8);
        text += &format!(
            "\ntx 0\n  load {at:#x}\n  think {}\n  store {other:#x} {}\nend\n",
            tx + 1,
            tx << 40
        );
    }
    std::fs::write(&mine, &text).unwrap();
    let told = json(&["trace", "convert", &mine, "--out", &trace]);
    let instructions = 128 * 2 + (1..=128).sum::<u64>();
    assert_eq!(told["records"][0]["instructions"], instructions);
    assert!(good(&["trace", "check", &trace]).contains("0 findings"));
    good(&["trace", "convert", &trace, "--to", "work", "--out", &back]);
    assert_eq!(std::fs::read_to_string(&back).unwrap(), text);
    good(&["trace", "convert", &trace, "--out", &champsim]);
    for scheme in ["fwb", "picl"] {
        let crash = ["--config", "tiny", "--crash", "30", "--resume", "1"];
        good(&[&["sim", "--trace", &trace, "--scheme", scheme][..], &crash].concat());
    }
    let line = refused(&["trace", "convert", &mine, "--to", "champsim", "--out", &champsim]);
    assert!(line.contains("become an otrace first"), "{line}");
    std::fs::write(&mine, "outlast-work 1\nmemory 64\nlanes 2\ntx\nend\ntx 1\nend\n").unwrap();
    let line = refused(&["trace", "convert", &mine, "--out", &trace]);
    assert!(line.contains("has 2 lanes"), "{line}");
}

#[test]
fn lists_of_requests_become_each_other_and_nothing_is_lost_unnamed() {
    let directory = directory();
    let [list, packets, back, loads, out] =
        ["list", "packets.gz", "back", "loads", "out"].map(|name| path(&directory, name));
    let lines: String = (0..200)
        .map(|n| {
            format!("{:#x} {} {}\n", 4096 * n, if n % 3 == 0 { "WRITE" } else { "READ" }, 7 * n)
        })
        .collect();
    std::fs::write(&list, &lines).unwrap();
    let convert = |from: &str, to: &str, out: &str, more: &[&str]| {
        let common = ["trace", "convert", from, "--to", to, "--out", out];
        json(&[&common[..], more].concat())["records"][0].clone()
    };
    let told = convert(&list, "gem5", &packets, &["--clock", "1200"]);
    assert_eq!((told["from"].as_str(), told["requests"].as_u64()), (Some("dramsim3"), Some(200)));
    assert!(std::fs::read(&packets).unwrap().starts_with(&[0x1f, 0x8b]));
    convert(&packets, "dramsim3", &back, &["--clock", "1200"]);
    assert_eq!(std::fs::read_to_string(&back).unwrap(), lines);
    convert(&list, "ramulator2", &loads, &["--lose", "times"]);
    convert(&loads, "dramsim3", &out, &["--every", "7"]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), lines);
    assert!(good(&["sim", "--requests", &out]).contains("bandwidth"));
    std::fs::remove_file(&out).unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&[&list, "--to", "ramulator"], "ramulator cannot hold times: --lose times"),
        (&[&list, "--to", "gem5"], "--clock says the memory's clock"),
        (&[&loads, "--to", "dramsim3"], "--every says the cycles between requests"),
        (&[&list, "--to", "champsim"], "a list of requests, which has no instructions"),
        (&[&list], "a list of requests, which has no instructions"),
        (&[&list, "--to", "work"], "no trace of a program"),
        (&["/etc/passwd", "--to", "gem5"], "no list of requests"),
        (&[&list, "--to", "ramulator", "--lose", "time"], "nothing called 'time' can be lost"),
    ];
    for (arguments, says) in cases {
        let line = refused(&[&["trace", "convert"][..], arguments, &["--out", &out]].concat());
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn a_trace_of_drmemtrace_is_replayed() {
    let directory = directory();
    let [trace, champsim, program, same] =
        ["drmem", "drmem.champsim.gz", "drmem.otrace", "same.otrace"]
            .map(|name| path(&directory, name));
    let entry = |kind: u16, size: u16, address: u64| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &address.to_le_bytes()].concat()
    };
    let mut bytes = [entry(25, 0, 5), entry(22, 4, 7)].concat();
    for n in 0..3000 {
        bytes.extend(entry(10, 4, 0x40_1000));
        bytes.extend(entry(0, 8, 0x10_0000 + 64 * n));
        bytes.extend(entry(1, 8, 0x20_0000 + 8 * n));
        bytes.extend(entry(if n < 2999 { 48 } else { 49 }, 2, 0x40_1004));
    }
    std::fs::write(&trace, &bytes).unwrap();
    for (from, to, out) in [
        (&trace, "champsim", &champsim),
        (&trace, "otrace", &program),
        (&champsim, "otrace", &same),
    ] {
        let told = json(&["trace", "convert", from, "--to", to, "--out", out]);
        assert_eq!(told["records"][0]["instructions"], 6000);
    }
    let stat = |file: &str| {
        let document = json(&["trace", "stat", file]);
        ["instructions", "loads", "stores"].map(|name| document["records"][0][name].clone())
    };
    assert_eq!(stat(&program), [6000, 3000, 3000].map(serde_json::Value::from));
    assert_eq!(stat(&program), stat(&same));
    for trace in [&champsim, &program] {
        let run = ["sim", "--trace", trace, "--config", "tiny", "--warm-up", "0"];
        assert!(good(&run).contains("instructions"), "{trace}");
    }
    std::fs::write(&trace, &bytes[..bytes.len() - 5]).unwrap();
    let line = refused(&["trace", "convert", &trace, "--out", &same]);
    assert!(line.contains("is cut off"), "{line}");
}

#[test]
fn a_trace_of_operations_without_transactions_is_no_champsim_trace() {
    let directory = directory();
    let file = path(&directory, "a.otrace");
    let mut log = outlast_trace::OpLog::default();
    for n in 0..200u64 {
        let (at, bytes) = (outlast_trace::PoolOffset(8 * n), n.to_le_bytes());
        outlast_trace::Sink::op(
            &mut log,
            outlast_trace::LaneId(0),
            outlast_trace::Op::Store { at, bytes: &bytes },
        );
    }
    outlast_trace::write_trace(file.as_ref(), &log).unwrap();
    let run = |scheme: &str| {
        let rest = ["--scheme", scheme, "--config", "tiny", "--warm-up", "0"];
        [&["sim", "--trace", &file][..], &rest]
            .concat()
            .iter()
            .map(|it| (*it).to_owned())
            .collect::<Vec<_>>()
    };
    let words = |of: &[String]| of.to_vec();
    for scheme in ["non-pers", "picl"] {
        let run = words(&run(scheme));
        let run: Vec<&str> = run.iter().map(String::as_str).collect();
        assert!(good(&run).contains("instructions"), "{scheme}");
    }
    let run = run("fwb");
    let line = refused(&run.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(line.contains("no transactions in it"), "{line}");
}
