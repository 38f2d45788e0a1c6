//! Programs are captured, their traces checked byte by byte, and replayed on machines. Without QEMU
//! these tests say so, and go on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use outlast_sim::timed::{
    MachineConfig, NonPers, ProgramMemory, ProgramSource, Setup, Source, System,
};
use outlast_trace::{Ending, Facts, Part, Program, SiteKind, check_program, cut_program};
use outlast_tracer::{CaptureError, Captured, ProgramOutput, Request, capture, qemu_version};

/// Whether there is a QEMU; a line, if not.
fn has_qemu() -> bool {
    let has = qemu_version().is_some();
    if !has {
        eprintln!("qemu-x86_64 is missing: nothing is captured (apt-get install qemu-user)");
    }
    has
}

/// A program of the system; a line, if it is not installed.
fn find(name: &str) -> Option<PathBuf> {
    let found =
        ["/usr/bin", "/bin"].iter().map(|at| Path::new(at).join(name)).find(|at| at.exists());
    if found.is_none() {
        eprintln!("{name} is missing: it is not captured");
    }
    found
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn request<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Request {
        let request = Request::new(self.path("a.otrace"), command);
        Request { output: ProgramOutput::Nowhere, ..request }
    }

    fn capture<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Captured {
        capture(&self.request(command), &mut |_| {}).unwrap()
    }
}

/// Checks a trace of a program that ended by itself.
fn checked(path: &Path) -> Facts {
    let program = Program::open(path).unwrap();
    assert_eq!(program.ending(), Ending::Whole, "{path:?}");
    let checked = check_program(&program).unwrap();
    assert_eq!(checked.findings, [""; 0], "{:?}", program.about());
    assert!(checked.compared > 3, "{} pages are compared", checked.compared);
    checked.facts
}

/// Replays a trace to its end on a machine; memory is then what the program's was.
fn replayed(path: &Path, core: &str) -> u64 {
    let program = Arc::new(Program::open(path).unwrap());
    let memory = Arc::new(ProgramMemory::of(&program).unwrap());
    let threads = program.threads();
    let mut machine = MachineConfig::named("tiny").unwrap();
    machine.set("a test", "core.threads", "1").unwrap();
    machine.set("a test", "core.kind", core).unwrap();
    machine.set("a test", "core.count", &threads.to_string()).unwrap();
    let source = |thread| -> Box<dyn Source> {
        Box::new(ProgramSource::new(Arc::clone(&program), Arc::clone(&memory), thread))
    };
    let setup = Setup { base: memory.base().to_vec(), ..Setup::default() };
    let sources = (0..threads).map(source).collect();
    let mut system = System::new(&machine, NonPers, setup, sources).unwrap();
    system.run_to_end().unwrap();
    let instructions = system.take_stats().instructions();
    let (wrong, pages) = memory.compare(&program, |line| system.line(line)).unwrap();
    assert_eq!((wrong, pages > 10), (vec![], true), "on {core} cores");
    instructions
}

/// Text that programs have something to do with.
fn text(bytes: usize) -> Vec<u8> {
    let words = ["durable", "line", "epoch", "store", "a", "of", "the", "fence"];
    let mut text = Vec::new();
    for n in 0u64.. {
        let drawn = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        text.extend_from_slice(words[(drawn % 8) as usize].as_bytes());
        text.push(if drawn % 7 == 0 { b'\n' } else { b' ' });
        if text.len() >= bytes {
            break;
        }
    }
    text
}

#[test]
fn memory_is_what_the_program_left_byte_for_byte() {
    if !has_qemu() {
        return;
    }
    let place = Place::new();
    let file = place.path("text");
    std::fs::write(&file, text(20_000)).unwrap();
    let file = file.to_str().unwrap();
    let perl = "my %h; for (1..300) { $h{$_ % 97} .= $_ } $SIG{USR1} = sub { $h{x} = 1 }; \
                kill 'USR1', $$; print join ',', sort keys %h";
    let programs: [(&str, &[&str]); 5] = [
        ("bzip2", &["-c", file]),
        ("gzip", &["-c", file]),
        ("sort", &[file]),
        ("perl", &["-e", perl]),
        ("true", &[]),
    ];
    for (name, arguments) in programs {
        let Some(program) = find(name) else { continue };
        let mut command = vec![program.into_os_string()];
        command.extend(arguments.iter().map(OsString::from));
        let captured = place.capture(command);
        assert!(captured.status.success(), "{name}");
        let path = &captured.files[0].path;
        let facts = checked(path);
        assert!(facts.instructions > 50_000 && facts.calls > 10, "{name}: {facts:?}");
        assert!(facts.conditional_branches > 1000 && facts.system_bytes > 100, "{name}: {facts:?}");
        if name == "perl" {
            assert_eq!(facts.signals, 1);
        }
        // An instruction of a program is one of the machine's, or two where it stores two words.
        let cores: &[&str] = match name {
            "bzip2" => &[],
            "gzip" | "perl" => &["inorder"],
            _ => &["inorder", "ooo"],
        };
        for core in cores {
            let ran = replayed(path, core);
            assert!((facts.instructions..2 * facts.instructions).contains(&ran), "{ran}");
        }
    }
}

/// Not a test of anything, but the program with threads that another one captures: they take a lock,
/// count by atomics, and race.
#[test]
fn guest_with_threads() {
    let (lock, count, raced) = (Mutex::new(1u64), AtomicU64::new(0), AtomicU64::new(0));
    let begin = Barrier::new(3);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (lock, count, raced, begin) = (&lock, &count, &raced, &begin);
            scope.spawn(move || {
                begin.wait();
                for n in 0..400 {
                    let mut locked = lock.lock().unwrap();
                    *locked = locked.wrapping_mul(3).wrapping_add(thread);
                    drop(locked);
                    count.fetch_add(1, Ordering::Relaxed);
                    raced.store(thread << 32 | n, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 1200);
}

#[test]
fn threads_run_on_cores_of_their_own_and_leave_the_same_memory() {
    if !has_qemu() {
        return;
    }
    let place = Place::new();
    let own = std::env::current_exe().unwrap();
    let captured =
        place.capture([own.as_os_str(), "--exact".as_ref(), "guest_with_threads".as_ref()]);
    assert!(captured.status.success());
    let path = &captured.files[0].path;
    let facts = checked(path);
    assert!(facts.threads >= 4 && facts.locked >= 1200, "{facts:?}");
    for core in ["inorder", "ooo"] {
        replayed(path, core);
    }
    // A part of it, with all threads that run there.
    let (out, half) = (place.path("part.otrace"), facts.instructions / 2);
    let part = Part { skip: half, count: half / 2, out: out.clone() };
    let cut = cut_program(&Program::open(path).unwrap(), part).unwrap();
    let facts = checked(&out);
    assert_eq!(facts.instructions, cut);
    assert!(cut.abs_diff(half / 2) < 4096, "{cut} of {half}");
    for core in ["inorder", "ooo"] {
        replayed(&out, core);
    }
}

#[test]
fn a_window_is_what_was_asked_for() {
    if !has_qemu() {
        return;
    }
    let place = Place::new();
    let own = std::env::current_exe().unwrap();
    let command = [own.as_os_str(), "--exact".as_ref(), "no-such-test".as_ref()];
    let of = |skip, start_at: Option<&str>| {
        let start_at = start_at.map(str::to_owned);
        let request = Request { skip, count: Some(20_000), start_at, ..place.request(command) };
        let captured = capture(&request, &mut |_| {}).unwrap();
        let path = captured.files[0].path.clone();
        let facts = checked(&path);
        assert!((19_000..=20_000).contains(&facts.instructions), "{facts:?}");
        path
    };
    let first = |path: &Path| {
        let program = Program::open(path).unwrap();
        let mut thread = program.thread(0);
        match thread.next().unwrap() {
            Some(outlast_trace::Happening::Execution(one)) => program.block(one.block)[0].at,
            other => panic!("{other:?}"),
        }
    };
    let begin = first(&of(0, None));
    assert_ne!(first(&of(30_000, None)), begin);
    let main = first(&of(0, Some("main")));
    assert_ne!(main, begin);
    let request = Request { start_at: Some("no_such_function".into()), ..place.request(command) };
    let error = capture(&request, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("never came to no_such_function"), "{error}");
}

#[test]
fn children_have_files_of_their_own_and_a_fatal_signal_leaves_one_that_is_readable() {
    if !has_qemu() {
        return;
    }
    let place = Place::new();
    let captured = place.capture(["/bin/sh", "-c", "(exit 3); (kill -SEGV $$); exit 1"]);
    assert_eq!(captured.files.len(), 3);
    for (number, file) in captured.files.iter().enumerate() {
        let program = Program::open(&file.path).unwrap();
        assert_eq!(program.about().process, number as u32);
        let found = check_program(&program).unwrap();
        assert_eq!((found.count, found.facts.instructions > 100), (0, true), "{number}: {found:?}");
    }
    // The shell itself is killed.
    let endings: Vec<_> = captured.files.iter().map(|file| file.ending).collect();
    assert_eq!(endings[..2], [Ending::Killed, Ending::Whole]);
    assert_eq!(captured.files[1].path, place.path("a.1.otrace"));
    // Up to the system call that killed it.
    let program = Program::open(&captured.files[0].path).unwrap();
    let mut thread = program.thread(0);
    let mut kinds = Vec::new();
    while let Some(happening) = thread.next().unwrap() {
        if let outlast_trace::Happening::Execution(one) = happening {
            kinds.extend(program.block(one.block).last().map(|site| site.kind));
        }
    }
    assert!(kinds.iter().rev().take(100).any(|kind| *kind == SiteKind::System));
}

/// A program in C, compiled; a line, if there is no compiler.
fn compiled(place: &Place, name: &str, source: &str) -> Option<PathBuf> {
    let compiler = find("cc")?;
    let (file, program) = (place.path(&format!("{name}.c")), place.path(name));
    std::fs::write(&file, source).unwrap();
    let done = Command::new(compiler).args(["-O1", "-o"]).arg(&program).arg(&file).status();
    assert!(done.unwrap().success(), "{name}");
    Some(program)
}

/// A timer's signals, which arrive in loops, in system calls and where the program begins and ends. The
/// handler runs as an ordinary function before it is a handler.
const TIMER: &str = "
    #include <signal.h>
    #include <string.h>
    #include <sys/time.h>
    #include <unistd.h>
    static volatile long n, x;
    static char a[5000], b[5000];
    static void h(int s) { n++; }
    int main() {
        h(0); h(0); h(0); h(0);
        signal(SIGALRM, h);
        struct itimerval t = {{0, 700}, {0, 700}};
        setitimer(ITIMER_REAL, &t, 0);
        for (int k = 0; n < 150; k++) {
            for (int j = 0; j < 100; j++) x += j * k;
            memcpy(a, b, sizeof a);
            getppid();
            if (k % 64 == 0) usleep(900);
        }
        return 0;
    }";

#[test]
fn signals_arrive_at_any_instruction() {
    if !has_qemu() {
        return;
    }
    let place = Place::new();
    let python = "import signal\nn = 0\ndef f(*_):\n    global n\n    n += 1\n\
        signal.signal(signal.SIGALRM, f)\nsignal.setitimer(signal.ITIMER_REAL, .002, .002)\n\
        s = {}\nk = 0\nwhile n < 8:\n    k += 1\n    s[k % 97] = str(k)\n\
        signal.setitimer(signal.ITIMER_REAL, 0)\n";
    // A child that is slower than the handler sends them.
    let shell = "trap 'n=$((n+1))' USR1; n=0; p=$$; \
        (while kill -USR1 $p 2>/dev/null; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; done) & \
        while [ $n -lt 6 ]; do k=$((k+1)); done; kill $!";
    let mut commands: Vec<Vec<OsString>> = Vec::new();
    commands.extend(compiled(&place, "timer", TIMER).map(|timer| vec![timer.into()]));
    commands.extend(find("python3").map(|it| vec![it.into(), "-c".into(), python.into()]));
    commands.extend(find("dash").map(|it| vec![it.into(), "-c".into(), shell.into()]));
    for command in commands {
        let captured = place.capture(command.clone());
        assert!(captured.status.success(), "{command:?}");
        let path = &captured.files[0].path;
        let facts = checked(path);
        assert!(facts.signals >= 6, "{command:?}: {facts:?}");
        replayed(path, "inorder");
    }
}

/// The runtime of Go interrupts its threads by signals. Compiling its library takes minutes, so the
/// nightly check runs this.
#[test]
#[ignore = "compiles Go's library: minutes"]
fn a_program_in_go_is_captured() {
    if !has_qemu() {
        return;
    }
    let Ok(version) = Command::new("go").arg("version").output() else {
        return eprintln!("go is missing: no program in Go is captured");
    };
    assert!(version.status.success());
    let place = Place::new();
    let (source, program) = (place.path("main.go"), place.path("program"));
    let text = "package main\nfunc work(c chan int) {\n s := 0\n m := map[int]int{}\n\
        for i := 0; i < 60000; i++ {\n m[i % 97] += i\n\
        for j := 0; j < 20; j++ { s += i * j }\n}\n c <- s + m[3]\n}\n\
        func main() {\n c := make(chan int)\n for k := 0; k < 4; k++ { go work(c) }\n\
        for k := 0; k < 4; k++ { println(<-c) }\n}\n";
    std::fs::write(&source, text).unwrap();
    let build = Command::new("go").args(["build", "-o"]).arg(&program).arg(&source).status();
    assert!(build.unwrap().success());
    let captured = place.capture([program]);
    assert!(captured.status.success());
    let facts = checked(&captured.files[0].path);
    assert!(facts.threads > 1 && facts.signals > 0, "{facts:?}");
}

#[test]
fn a_killed_program_keeps_its_last_phase() {
    if !has_qemu() {
        return;
    }
    let place = Place::new();
    // A long loop that is all as expected, and at its end the only call that kills without a word.
    let source = "
        #include <signal.h>
        #include <unistd.h>
        static volatile long x;
        int main() {
            int child = getpid();
            if (!fork()) { usleep(400000); kill(child, SIGKILL); return 0; }
            for (;;) x += 3;
        }";
    let Some(program) = compiled(&place, "killed", source) else { return };
    let captured = place.capture([program]);
    assert!(!captured.status.success());
    let path = &captured.files[0].path;
    let program = Program::open(path).unwrap();
    assert_eq!(program.ending(), Ending::Killed);
    let found = check_program(&program).unwrap();
    assert_eq!(found.count, 0, "{found:?}");
    // Without words about expected blocks the loop, some ten million instructions, has none.
    assert!(found.facts.instructions > 1_000_000, "{:?}", found.facts);
}

/// The command that a trace names, and what it holds.
fn ran(path: &Path) -> (Vec<String>, Facts) {
    (Program::open(path).unwrap().about().command.clone(), checked(path))
}

#[test]
fn a_program_that_a_process_becomes_is_captured() {
    if !has_qemu() {
        return;
    }
    let place = Place::new();
    let (file, script) = (place.path("text"), place.path("script"));
    std::fs::write(&file, text(20_000)).unwrap();
    std::fs::write(&script, "#!/bin/sh -e\ntest \"$LD_OWN:$1\" = kept:word\n").unwrap();
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, runs).unwrap();
    let (file, script) = (file.to_str().unwrap(), script.to_str().unwrap());

    let shell = format!("exec sort {file}");
    let command = ["/bin/sh", "-c", &shell];
    let captured = place.capture(command);
    assert!(captured.status.success());
    assert_eq!(captured.files.len(), 2);
    let [(of_shell, shell_facts), (of_sort, sort_facts)] =
        [0, 1].map(|number| ran(&captured.files[number].path));
    assert_eq!(
        (of_shell, of_sort),
        (command.map(str::to_owned).to_vec(), vec!["sort".to_owned(), file.to_owned()])
    );
    let about =
        |number: usize| Program::open(&captured.files[number].path).unwrap().about().clone();
    assert_ne!(about(0).digest, about(1).digest);
    assert!(about(1).digest.starts_with("sha256:"), "{}", about(1).digest);
    replayed(&captured.files[1].path, "inorder");

    // The window is the process's, whatever it becomes.
    let begin = shell_facts.instructions + 20_000;
    let request = Request { skip: begin, count: Some(30_000), ..place.request(command) };
    let windowed = capture(&request, &mut |_| {}).unwrap();
    assert_eq!(windowed.files.len(), 1, "the shell has nothing in the window");
    assert!((29_000..=30_000).contains(&ran(&windowed.files[0].path).1.instructions));
    let count = shell_facts.instructions + sort_facts.instructions / 2;
    let request = Request { count: Some(count), ..place.request(command) };
    let windowed = capture(&request, &mut |_| {}).unwrap();
    let all: u64 = windowed.files.iter().map(|file| ran(&file.path).1.instructions).sum();
    assert!(count.abs_diff(all) < 5000, "{all} instructions of {count}");

    // A child that becomes a script's interpreter, with the variables of the loader.
    let shell = format!("LD_OWN=kept {script} word && exit 3");
    let captured = place.capture(["/bin/sh", "-c", &shell]);
    assert_eq!(captured.status.code(), Some(3));
    assert_eq!(captured.files.len(), 3);
    let commands: Vec<_> = captured.files.iter().map(|file| ran(&file.path).0.join(" ")).collect();
    assert_eq!(commands[2], format!("/bin/sh -e {script} word"));
}

#[test]
fn an_exec_that_fails_goes_on_and_one_that_is_not_followed_is_named() {
    if !has_qemu() {
        return;
    }
    let place = Place::new();
    let captured = place.capture(["/bin/sh", "-c", "exec 2>/dev/null; /no/such/program || exit 7"]);
    assert_eq!((captured.status.code(), captured.files[0].ending), (Some(7), Ending::Whole));
    // A program of 32 bits, which the system refuses for another reason.
    let other = place.path("other");
    std::fs::write(&other, [&b"\x7fELF\x01\x01\x01"[..], &[0; 60]].concat()).unwrap();
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&other, runs).unwrap();
    let shell = format!("{} || exit 9", other.display());
    let captured = place.capture(["/bin/sh", "-c", &shell]);
    assert_eq!(captured.status.code(), Some(9));
    let notes: Vec<_> = captured.files.iter().flat_map(|file| &file.notes).collect();
    let expected = format!("{} is not followed: it is no program for x86-64", other.display());
    assert!(notes.iter().any(|note| **note == expected), "{notes:?}");
}

#[test]
fn what_is_no_program_is_refused_and_leaves_no_file() {
    let place = Place::new();
    let script = place.path("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
    let script = script.to_str().unwrap().to_owned();
    let refused = [
        ("no-such-program-here".to_owned(), "no such program in PATH"),
        (script, "a script: give its interpreter"),
        ("/etc/passwd".to_owned(), "no program for x86-64 Linux"),
        ("/no/such/file".to_owned(), "No such file"),
    ];
    for (program, why) in refused {
        let error = capture(&place.request([program.clone()]), &mut |_| {}).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&program) && message.contains(why), "{message}");
        assert_eq!(message.lines().count(), 1);
        assert!(!place.path("a.otrace").exists());
    }
    let nowhere = Request::new("/no/such/directory/a.otrace", ["/bin/true"]);
    if has_qemu() {
        let error = capture(&nowhere, &mut |_| {}).unwrap_err();
        assert!(matches!(error, CaptureError::Io(_, _)), "{error}");
    }
}
