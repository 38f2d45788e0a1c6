//! Programs, checks and directories that are not as they should be: one line each, exit status 2, no
//! process left running and nothing left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

const TOOL: &str = env!("CARGO_BIN_EXE_outlast-check");

/// A run of the tool in a folder of its own, by which all that it starts can be known again.
struct Tool {
    folder: TempDir,
    id: String,
}

impl Tool {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("scratch")).unwrap();
        Self { folder, id: format!("OUTLAST_TEST={}-{number}-", std::process::id()) }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let scratch = self.path().join("scratch");
        let (name, value) = self.id.split_once('=').unwrap();
        command.current_dir(self.path()).stdin(Stdio::null()).env(name, value);
        command.env("OUTLAST_CHECK_SCRATCH", &scratch).env("TMPDIR", &scratch);
        command
    }

    fn run(&self, options: &[&str], program: &[&str]) -> Output {
        let mut command = self.command(TOOL);
        command.args(["--dir", "data"]).args(options).arg("--").args(program);
        let output = command.output().unwrap();
        self.is_clean();
        output
    }

    /// Nothing is left running and nothing left behind.
    fn is_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.path().join("scratch")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        // A killed process is there for a moment.
        for _ in 0..100 {
            if self.processes().is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("left running: {:?}", self.processes());
    }

    fn processes(&self) -> Vec<String> {
        let named = |path: &Path| {
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|word| word == self.id.as_bytes())
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let own = all.filter(|entry| named(&entry.path()));
        own.map(|entry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default())
            .collect()
    }
}

/// The one line of a refusal; none where no process can be traced.
fn refusal(output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("runs ")).collect();
    assert_eq!(output.status.code(), Some(2), "{said}{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(lines.len(), 1, "{said}");
    let line = lines[0].strip_prefix("outlast-check: ").unwrap_or_else(|| panic!("{said}"));
    if line.contains("refuses to trace") {
        eprintln!("left out: {line}");
        return None;
    }
    Some(line.to_owned())
}

fn refused(options: &[&str], program: &[&str], says: &str) {
    let Some(line) = refusal(&Tool::new().run(options, program)) else { return };
    assert!(line.contains(says), "{line}");
}

const CHECK: &[&str] = &["--then", "true {}"];

#[test]
fn a_program_that_is_not_there() {
    refused(CHECK, &["./no-such-program"], "no program './no-such-program'");
    refused(CHECK, &["no-such-program"], "no program 'no-such-program'");
}

/// Under another tracer, as under a container's filter, the kernel refuses to trace.
#[test]
fn a_program_that_fails_before_it_acknowledges_anything() {
    refused(
        &["--then", "true {}"],
        &["sh", "-c", "echo I 1; exit 3"],
        "the program ended with status 3 and acknowledged nothing",
    );
}

#[test]
fn no_ptrace() {
    let tool = Tool::new();
    let inner = format!(
        "mkdir -p data; {TOOL} --dir inside --then 'true {{}}' -- /bin/true 2>said; echo $? >status"
    );
    let output = tool.run(CHECK, &["/bin/sh", "-c", &inner]);
    if String::from_utf8_lossy(&output.stderr).contains("refuses to trace") {
        return;
    }
    let said = fs::read_to_string(tool.path().join("said")).unwrap();
    assert_eq!(fs::read_to_string(tool.path().join("status")).unwrap(), "2\n", "{said}");
    assert!(said.contains("the system refuses to trace"), "{said}");
    assert!(said.contains("docker run --cap-add SYS_PTRACE"), "{said}");
}

/// `exit(0)` by the calls of 32-bit programs, as an ELF file of its own.
fn elf32() -> Vec<u8> {
    let code: &[u8] = &[0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80];
    let base: u32 = 0x0804_8000;
    let size = (52 + 32 + code.len()) as u32;
    let mut elf = vec![0x7f, b'E', b'L', b'F', 1, 1, 1];
    elf.resize(16, 0);
    let halves = |elf: &mut Vec<u8>, numbers: &[u16]| {
        elf.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    };
    let words = |elf: &mut Vec<u8>, numbers: &[u32]| {
        elf.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    };
    halves(&mut elf, &[2, 3]);
    words(&mut elf, &[1, base + 84, 52, 0, 0]);
    halves(&mut elf, &[52, 32, 1, 0, 0, 0]);
    words(&mut elf, &[1, 0, base, base, size, size, 5, 4096]);
    elf.extend(code);
    elf
}

#[test]
fn a_32_bit_program() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let tool = Tool::new();
    let file = tool.path().join("old");
    fs::write(&file, elf32()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    if !Command::new(&file).status().is_ok_and(|status| status.success()) {
        eprintln!("left out: this system runs no 32-bit program");
        return;
    }
    let Some(line) = refusal(&tool.run(CHECK, &["./old"])) else { return };
    assert!(line.contains("runs 32-bit code") && line.contains("use a 64-bit build"), "{line}");
    // The same in a child of the program.
    let Some(line) = refusal(&tool.run(CHECK, &["/bin/sh", "-c", "./old; true"])) else { return };
    assert!(line.contains("runs 32-bit code"), "{line}");
}

#[test]
fn a_setuid_program() {
    let tool = Tool::new();
    let file = tool.path().join("root");
    fs::copy("/bin/true", &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    let Some(line) = refusal(&tool.run(CHECK, &["./root"])) else { return };
    assert!(line.contains("setuid or setgid") && line.contains("run it as that user"), "{line}");
}

/// Runs the tool where file systems can be mounted; none if they cannot.
fn mounted(tool: &Tool, script: &str) -> Option<Output> {
    let mut command = tool.command("unshare");
    let output = command.args(["-m", "/bin/sh", "-ec", script]).env("TOOL", TOOL).output().ok()?;
    tool.is_clean();
    if output.status.code() == Some(77)
        || String::from_utf8_lossy(&output.stderr).contains("unshare")
    {
        eprintln!("left out: nothing can be mounted");
        return None;
    }
    Some(output)
}

#[test]
fn a_directory_that_is_a_mount_point_is_checked() {
    let tool = Tool::new();
    let script = "mkdir data; mount -t tmpfs none data || exit 77; status=0; \
        $TOOL --dir data --save kept.run --then 'grep -q x data/file || [ $OUTLAST_ACKED = 0 ]' -- \
        /bin/sh -c 'echo x >data/new; SYNC; mv data/new data/file; sync data; echo A 1' || status=$?; exit $status";
    let Some(sound) = mounted(&tool, &script.replace("SYNC", "sync data/new")) else { return };
    assert_eq!(sound.status.code(), Some(0), "{sound:?}");
    let tool = Tool::new();
    let torn = mounted(&tool, &script.replace("SYNC", ":")).unwrap();
    assert_eq!(torn.status.code(), Some(1), "{torn:?}");
}

#[test]
fn a_directory_with_a_mount_point_in_it_is_refused() {
    let tool = Tool::new();
    let script = "mkdir -p data/inner; mount -t tmpfs none data/inner || exit 77; \
        exec $TOOL --dir data --then 'true {}' -- /bin/true";
    let Some(output) = mounted(&tool, script) else { return };
    let Some(line) = refusal(&output) else { return };
    assert!(line.contains("data/inner is on another file system"), "{line}");
}

#[test]
fn files_renamed_in_from_elsewhere_have_their_writes() {
    let tool = Tool::new();
    let program = |sync: &str| {
        format!(
            "mkdir -p outside; for i in 1 2; do echo I $i; seq $i 900 >outside/new; {sync}; \
             mv outside/new data/file; sync data; echo A $i; done"
        )
    };
    let judge = ["--judge", "replace=data/file"];
    let sound = tool.run(&judge, &["/bin/sh", "-c", &program("sync outside/new")]);
    if String::from_utf8_lossy(&sound.stderr).contains("refuses to trace") {
        return;
    }
    assert_eq!(sound.status.code(), Some(0), "{sound:?}");
    let torn = Tool::new();
    let options = [&judge[..], &["--save", "kept.run"]].concat();
    let output = torn.run(&options, &["/bin/sh", "-c", &program(":")]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("file is torn"), "{said}");
    // One that is too large to be followed is said to be unmeasured.
    let large = "mkdir -p outside; truncate -s 65M outside/new; cat outside/new >outside/other; \
                 : >>outside/other; mv outside/other data/file; echo A 1";
    let output = Tool::new().run(CHECK, &["/bin/sh", "-c", large]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "followed from its first byte: {said}");
    let tool = Tool::new();
    assert!(
        tool.command("/bin/sh")
            .args(["-c", "head -c 68157440 /dev/zero >before"])
            .status()
            .unwrap()
            .success()
    );
    let output =
        tool.run(CHECK, &["/bin/sh", "-c", "echo x >>before; mv before data/file; echo A 1"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("not measured: data/file: a file"),
        "{said}"
    );
}

#[test]
fn a_check_that_never_ends() {
    let says = "the check fails without any crash";
    let tool = Tool::new();
    let never = ["--check-time", "1", "--then", "cd {}; setsid sleep 1000 & sleep 1000"];
    let Some(line) = refusal(&tool.run(&never, &["/bin/true"])) else { return };
    assert!(line.contains(says) && line.contains("did not end within 1s"), "{line}");
    let tool = Tool::new();
    let never = ["--check-time", "1", "--server", "setsid sleep 1000 & while read x; do :; done"];
    let Some(line) = refusal(&tool.run(&never, &["/bin/true"])) else { return };
    assert!(line.contains(says) && line.contains("did not answer within 1s"), "{line}");
}

/// A check that passes but leaves a process behind, out of its group.
#[test]
fn a_check_that_leaves_processes_running() {
    let tool = Tool::new();
    let stray = "true {}; setsid sh -c 'while sleep 0.01; do mkdir -p {}; date >{}/late; done' >/dev/null 2>&1 &";
    let output =
        tool.run(&["--then", stray], &["/bin/sh", "-c", "echo x >data/file; sync; echo A 1"]);
    assert!([0, 1, 2].contains(&output.status.code().unwrap()), "{output:?}");
}

#[test]
fn a_check_that_prints_or_writes_gigabytes() {
    let tool = Tool::new();
    let prints = ["--check-time", "100", "--then", "true {}; exec yes"];
    let Some(line) = refusal(&tool.run(&prints, &["/bin/true"])) else { return };
    assert!(line.contains("the check has printed more than 64 MiB"), "{line}");
    let answers =
        ["--check-time", "100", "--server", "read x; head -c 99999999 /dev/zero; sleep 1000"];
    let Some(line) = refusal(&Tool::new().run(&answers, &["/bin/true"])) else { return };
    assert!(line.contains("the check's answer has more than 64 KiB"), "{line}");
    let writes = ["--check-time", "100", "--then", "exec head -c 99999999999 /dev/zero >{}/file"];
    let Some(line) = refusal(&Tool::new().run(&writes, &["/bin/true"])) else { return };
    let full = line.contains("No space left");
    assert!(full || line.contains("the check has written more than 1024 MiB"), "{line}");
}

#[test]
fn a_program_that_writes_more_than_can_be_held() {
    for program in ["head -c 3000000 /dev/zero >data/file; exec sleep 1000", "exec cat data/there"]
    {
        let tool = Tool::new();
        fs::create_dir(tool.path().join("data")).unwrap();
        let there = if program.contains("there") { 3_000_000 } else { 0 };
        fs::write(tool.path().join("data/there"), vec![1; there]).unwrap();
        let mut command = tool.command(TOOL);
        command.env("OUTLAST_CHECK_BYTES", "2000000");
        let options = ["--dir", "data", "--time", "30", "--then", "true {}", "--"];
        command.args(options).args(["/bin/sh", "-c", program]);
        let output = command.output().unwrap();
        tool.is_clean();
        let Some(line) = refusal(&output) else { return };
        assert!(line.contains("more than 2000000 bytes"), "{line}");
    }
    let tool = Tool::new();
    let mut command = tool.command(TOOL);
    command.env("OUTLAST_CHECK_BYTES", "2 MB").args(["--dir", "data", "--then", "true {}"]);
    let output = command.args(["--", "/bin/true"]).output().unwrap();
    let Some(line) = refusal(&output) else { return };
    assert!(line.contains("OUTLAST_CHECK_BYTES=2 MB: a number of bytes"), "{line}");
}

#[test]
fn a_program_that_never_ends() {
    let program = "echo I 1; echo x >data/file; sync data/file data; echo A 1; setsid sleep 1000 & sleep 1000";
    let tool = Tool::new();
    let check = ["--time", "1", "--then", "[ -e data/file ] || [ $OUTLAST_ACKED = 0 ]"];
    let output = tool.run(&check, &["/bin/sh", "-c", program]);
    if String::from_utf8_lossy(&output.stderr).contains("refuses to trace") {
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("not measured: what the program does later: it was stopped after 1 s"),
        "{said}"
    );
    // What it did until then is checked.
    let lost = Tool::new();
    let output = lost.run(
        &[
            "--time",
            "1",
            "--save",
            "kept.run",
            "--then",
            "[ -e data/file ] || [ $OUTLAST_ACKED = 0 ]",
        ],
        &["/bin/sh", "-c", &program.replace("sync", "true")],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// An interrupt at any time leaves nothing: neither a check that runs nor its folder.
#[test]
fn an_interrupt() {
    for (signal, check) in
        [("INT", "cd {}; exec sleep 1000"), ("TERM", "true {}; setsid sleep 1000")]
    {
        let tool = Tool::new();
        let mut command = tool.command(TOOL);
        command.args(["--dir", "data", "--check-time", "100", "--then", check, "--", "/bin/true"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let started = |tool: &Tool| tool.processes().iter().any(|line| line.starts_with("sleep"));
        while !started(&tool) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let pid = child.id().to_string();
        Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap();
        let status = child.wait().unwrap().code();
        assert!(status.is_some_and(|status| status == 2 || status > 128), "{status:?}");
        tool.is_clean();
    }
}
