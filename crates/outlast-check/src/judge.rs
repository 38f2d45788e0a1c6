//! Has the program recover from a state, and hears what it says.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::bounds::{self, Bounds, Strays};
use crate::files::quoted;
use crate::judges::history::History;
use crate::oracle::marked::{Listed, Marked};
use crate::search::Limits;
use crate::server::{Answer, Server};
use crate::sys;
use crate::tree::{self, Read as Whole, Tree};
use rustc_hash::FxHashMap;

/// What is wrong with a state, if anything is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The check passed.
    Good,
    /// The check named the last transaction that it found whole.
    Recovered(u64),
    /// The check listed keys with their versions.
    Keys(Listed),
    /// The check failed, with its last words.
    Bad(String),
}

impl Outcome {
    /// What is wrong, given what was begun and acknowledged.
    #[must_use]
    pub fn wrong(&self, issued: u64, acked: u64) -> Option<String> {
        match self {
            Self::Good => None,
            Self::Bad(text) => Some(text.clone()),
            Self::Recovered(found) if *found < acked => {
                Some(format!("lost: {found} recovered, {acked} acknowledged"))
            }
            Self::Recovered(found) if *found > issued => {
                Some(format!("never issued: {found} recovered, {issued} begun"))
            }
            Self::Recovered(_) => None,
            Self::Keys(listed) => listed.judge(issued, acked).err().map(|wrong| wrong.to_string()),
        }
    }

    /// What two openings of a state come to.
    #[must_use]
    fn then(self, second: Self) -> Self {
        match second {
            Self::Bad(_) => second,
            second if second != self => {
                Self::Bad(format!("opened a second time: {second:?} after {self:?}"))
            }
            _ => self,
        }
    }

    /// Whether it depends on the state alone, not on what was acknowledged.
    #[must_use]
    pub fn is_of_state(&self) -> bool {
        matches!(self, Self::Recovered(_) | Self::Keys(_))
    }
}

/// How states are checked.
#[derive(Clone, Debug)]
pub enum Checker {
    /// A command of the shell, once a state: its status tells.
    Command(String),
    /// A command that reads a line a state (folder, acknowledged, issued, by tabs) and answers a line.
    Server(String),
    /// The history of a file in the run itself: no command is run.
    History(History),
}

/// What the check says of directories that it has left itself: many states lead to the same one.
#[derive(Default)]
pub struct Reopened(Mutex<FxHashMap<(u128, u64, u64), Outcome>>);

/// Directories up to this size are read back after a check, to tell whether one was opened before.
const READ_BACK_BYTES_MAX: u64 = 32 << 20;

/// A checker at work in a folder of its own.
pub struct Judge<'a> {
    checker: &'a Checker,
    time: Duration,
    write: Option<String>,
    home: tempfile::TempDir,
    /// The checker starts here, within the home: the caller's folder, but for the directory.
    farm: PathBuf,
    /// The directory as the command knows it, within the farm.
    dir: PathBuf,
    server: Option<Server>,
    reopened: Arc<Reopened>,
    /// The marks of the program.
    marked: Arc<Marked>,
    strays: Strays,
    /// In a row of states: the one at the checker's, and what is known of it already.
    asked: Option<Asked>,
    told: Option<Outcome>,
}

/// A state that is to be checked, with the transactions begun and acknowledged before the crash.
pub struct Asked {
    /// The directory.
    pub tree: Tree,
    /// Transactions begun.
    pub issued: u64,
    /// Transactions acknowledged.
    pub acked: u64,
}

/// What a directory wants that a check has left.
enum Reopening {
    Needless,
    Known(Outcome),
    New(Option<(u128, u64, u64)>),
}

impl Drop for Judge<'_> {
    fn drop(&mut self) {
        self.server = None;
        bounds::is_gone(self.home.path());
    }
}

/// The environment variable that names another place for states, where memory is short.
pub const SCRATCH: &str = "OUTLAST_CHECK_SCRATCH";

/// Where states are laid out: in memory if there is such a place.
#[must_use]
pub fn scratch() -> PathBuf {
    if let Some(place) = std::env::var_os(SCRATCH) {
        return place.into();
    }
    let memory = Path::new("/dev/shm");
    if memory.is_dir() && tempfile::tempfile_in(memory).is_ok() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

impl<'a> Judge<'a> {
    /// A judge by `checker`, within `limits`. A relative `dir` is at the same
    /// place below the checker's folder as it is here, beside links to everything else.
    ///
    /// # Errors
    /// Those of making the folder.
    pub fn new(
        checker: &'a Checker,
        dir: &Path,
        limits: &Limits,
        reopened: Arc<Reopened>,
    ) -> io::Result<Self> {
        let home = tempfile::Builder::new().prefix("outlast-check-").tempdir_in(scratch())?;
        let farm = home.path().join("run");
        fs::create_dir(&farm)?;
        let inner = dir.is_relative()
            && dir
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let dir = if inner {
            let parts: Vec<&OsStr> = dir
                .components()
                .filter_map(|part| match part {
                    Component::Normal(name) => Some(name),
                    _ => None,
                })
                .collect();
            plant(&std::env::current_dir()?, &farm, &parts)?;
            parts.iter().fold(farm.clone(), |path, part| path.join(part))
        } else {
            farm.join("state")
        };
        bounds::begins(home.path());
        let (strays, marked) = (Strays::default(), Arc::default());
        Ok(Self {
            checker,
            time: limits.check_time,
            write: limits.write.clone(),
            home,
            farm,
            dir,
            server: None,
            reopened,
            marked,
            strays,
            asked: None,
            told: None,
        })
    }

    /// Judges keys that the check lists by these transactions.
    #[must_use]
    pub fn by(mut self, marked: &Arc<Marked>) -> Self {
        self.marked = Arc::clone(marked);
        self
    }

    /// Lays `tree` out and has it checked. Twice: recovery may heal or harm. A directory that the first check leaves as
    /// it was, or as another one has left it, is known already.
    ///
    /// # Errors
    /// The state cannot be written, or the checker cannot be started.
    pub fn judge(&mut self, tree: &Tree, issued: u64, acked: u64) -> io::Result<Outcome> {
        if let Checker::History(history) = self.checker {
            return Ok(history.judge(tree, issued, acked));
        }
        self.lay_out(tree)?;
        let first = self.check(issued, acked)?;
        match self.reopening(&first, left(&self.dir), tree, issued, acked) {
            Reopening::Needless => Ok(first),
            Reopening::Known(second) => Ok(first.then(second)),
            Reopening::New(key) => {
                let second = self.check_again(issued, acked)?;
                self.note_reopened(key, &second);
                Ok(first.then(second))
            }
        }
    }

    /// [`Judge::judge`] for one state after the other, each laid out while a server checks the one before: the outcome
    /// is that of the state given before, if there was one. No state ends the row.
    ///
    /// # Errors
    /// See [`Judge::judge`].
    pub fn judge_in_turn(&mut self, next: Option<Asked>) -> io::Result<Option<Outcome>> {
        let Checker::Server(command) = self.checker else {
            let now =
                next.map(|next| self.judge(&next.tree, next.issued, next.acked)).transpose()?;
            return Ok(std::mem::replace(&mut self.told, now));
        };
        let (ahead, behind) = (self.home.path().join("next"), self.home.path().join("past"));
        if let Some(next) = &next {
            write(&next.tree, &ahead)?;
        }
        let earlier = self.asked.take();
        let first = match (&earlier, self.told.take()) {
            (None, _) => None,
            (Some(_), Some(told)) => Some(told),
            (Some(_), None) => Some(self.hear()?),
        };
        if earlier.is_some() {
            change_place(&self.dir, &behind)?;
        } else {
            remove(&self.dir)?;
        }
        if let Some(next) = next {
            change_place(&ahead, &self.dir)?;
            self.send(command, next.issued, next.acked)?;
            self.asked = Some(next);
        }
        let (Some(Asked { tree, issued, acked }), Some(first)) = (earlier, first) else {
            return Ok(None);
        };
        let outcome = match self.reopening(&first, left(&behind), &tree, issued, acked) {
            Reopening::Needless => first,
            Reopening::Known(second) => first.then(second),
            Reopening::New(key) => {
                // The state that is being checked makes room.
                if self.asked.is_some() {
                    self.told = Some(self.hear()?);
                    change_place(&self.dir, &ahead)?;
                }
                change_place(&behind, &self.dir)?;
                let second = self.check_again(issued, acked)?;
                remove(&self.dir)?;
                change_place(&ahead, &self.dir)?;
                self.note_reopened(key, &second);
                first.then(second)
            }
        };
        remove(&behind)?;
        Ok(Some(outcome))
    }

    /// Whether a directory wants to be opened once more that the check of `tree` has left with that hash.
    fn reopening(
        &self,
        first: &Outcome,
        left: Option<u128>,
        tree: &Tree,
        issued: u64,
        acked: u64,
    ) -> Reopening {
        let is_same = || self.write.is_none() && left == Some(tree.hash(&Whole::default()));
        if matches!(first, Outcome::Bad(_)) || is_same() {
            return Reopening::Needless;
        }
        let told = if first.is_of_state() { (0, 0) } else { (issued, acked) };
        let key = left.map(|hash| (hash, told.0, told.1));
        let known = || Some(self.reopened.0.lock().ok()?.get(&key?)?.clone());
        known().map_or(Reopening::New(key), Reopening::Known)
    }

    fn note_reopened(&self, key: Option<(u128, u64, u64)>, second: &Outcome) {
        if let (Some(key), Ok(mut known)) = (key, self.reopened.0.lock()) {
            known.insert(key, second.clone());
        }
    }

    /// The folder in which the checker runs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.farm
    }

    /// The place where the last state lies.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.dir
    }

    /// The words that have the state checked which lies at [`Judge::place`], and the folder in which they
    /// run: for a capture of the recovery itself.
    #[must_use]
    pub fn words(&self, issued: u64, acked: u64) -> (Vec<OsString>, &Path) {
        let place = self.dir.display();
        let text = match self.checker {
            Checker::Command(command) => command.replace("{}", &place.to_string()),
            Checker::Server(command) => {
                format!(
                    "printf '%s\\t{acked}\\t{issued}\\n' '{place}' | ( {} )",
                    command.replace("{}", &place.to_string())
                )
            }
            Checker::History(history) => {
                format!("exec cat {}", quoted(&self.dir.join(history.file()).to_string_lossy()))
            }
        };
        let variables = [
            format!("OUTLAST_DIR={place}"),
            format!("OUTLAST_ISSUED={issued}"),
            format!("OUTLAST_ACKED={acked}"),
        ];
        // What it says on the way was heard when it was judged.
        let text = format!("exec 2>/dev/null\n{text}");
        let words = ["env".to_owned()].into_iter().chain(variables);
        let words = words.chain(["/bin/sh".to_owned(), "-c".to_owned(), text]);
        (words.map(OsString::from).collect(), &self.farm)
    }

    /// Lays `tree` out at [`Judge::place`].
    ///
    /// # Errors
    /// Those of writing.
    pub fn lay_out(&self, tree: &Tree) -> io::Result<()> {
        write(tree, &self.dir)
    }

    /// The second opening; then something is written, if a command was given, and nothing of the rest is lost.
    fn check_again(&mut self, issued: u64, acked: u64) -> io::Result<Outcome> {
        let second = self.check(issued, acked)?;
        if let Outcome::Bad(text) = second {
            return Ok(Outcome::Bad(format!("opened a second time: {text}")));
        }
        let Some(write) = self.write.clone() else { return Ok(second) };
        if let Outcome::Bad(text) = self.run(&write, issued, acked)? {
            return Ok(Outcome::Bad(format!("it cannot be written to: {text}")));
        }
        let third = self.check(issued, acked)?;
        Ok(match (&second, third) {
            (_, Outcome::Bad(text)) => Outcome::Bad(format!("written to: {text}")),
            (Outcome::Recovered(before), Outcome::Recovered(after)) if after < *before => {
                Outcome::Bad(format!("written to: {after} recovered, {before} before"))
            }
            _ => second,
        })
    }

    fn check(&mut self, issued: u64, acked: u64) -> io::Result<Outcome> {
        match self.checker {
            Checker::Command(command) => self.run(command, issued, acked),
            Checker::Server(command) => self.ask(command, issued, acked),
            // It is judged in memory.
            Checker::History(_) => Ok(Outcome::Good),
        }
    }

    fn command(&self, command: &str) -> Command {
        let mut shell = Command::new("/bin/sh");
        let text = command.replace("{}", &self.dir.display().to_string());
        shell.arg("-c").arg(text).current_dir(&self.farm).process_group(0);
        shell.env("OUTLAST_DIR", &self.dir);
        shell
    }

    fn run(&mut self, command: &str, issued: u64, acked: u64) -> io::Result<Outcome> {
        let mut output = tempfile::tempfile_in(scratch())?;
        let mut shell = self.command(command);
        shell.env("OUTLAST_ISSUED", issued.to_string()).env("OUTLAST_ACKED", acked.to_string());
        shell.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let mut child = shell.spawn()?;
        let began = Instant::now();
        let mut bounds = Bounds::new(&self.farm);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Ok(status);
            }
            if began.elapsed() >= self.time {
                break Err(format!("the check did not end within {:?}", self.time));
            }
            if let Some(excess) = bounds.excess(Some(&output))? {
                break Err(excess);
            }
            // Short runs are many: they are waited for closely, long ones are not.
            thread::sleep(
                (began.elapsed() / 8).clamp(Duration::from_micros(50), Duration::from_millis(20)),
            );
        };
        sys::kill_group(child.id() as i32);
        child.wait()?;
        self.strays.end(&self.farm);
        let status = match status {
            Ok(status) => status,
            Err(wrong) => return Ok(Outcome::Bad(wrong)),
        };
        let said =
            tail(&mut output, if self.marked.has_keys() { KEYS_BYTES_MAX } else { TAIL_BYTES })?;
        if let Some(signal) = status.signal() {
            return Ok(Outcome::Bad(format!("killed by {}", signal_name(signal))));
        }
        match status.code() {
            Some(0) => Ok(match Listed::in_lines(&self.marked, &said) {
                Some(listed) => Outcome::Keys(listed),
                None => recovered(&said).map_or(Outcome::Good, Outcome::Recovered),
            }),
            Some(127) => {
                Err(io::Error::other(format!("the check cannot be started: {}", last_line(&said))))
            }
            code => {
                let words = last_line(&said);
                let code = code.unwrap_or_default();
                let words = if words.is_empty() { format!("status {code}") } else { words };
                Ok(Outcome::Bad(words))
            }
        }
    }

    fn ask(&mut self, command: &str, issued: u64, acked: u64) -> io::Result<Outcome> {
        self.send(command, issued, acked)?;
        self.hear()
    }

    /// Asks the server about the state at [`Judge::place`].
    fn send(&mut self, command: &str, issued: u64, acked: u64) -> io::Result<()> {
        let line = format!("{}\t{acked}\t{issued}\n", self.dir.display());
        let server = match self.server.as_mut() {
            Some(server) => server,
            None => {
                let server = Server::start(self.command(command))?;
                self.server.insert(server)
            }
        };
        server.ask(&line);
        Ok(())
    }

    /// The server's answer to what it was asked last. One that does not answer is started anew for the next state.
    fn hear(&mut self) -> io::Result<Outcome> {
        let Some(server) = self.server.as_mut() else {
            return Err(io::Error::other("no server was asked"));
        };
        let wrong = match server.answer(self.time, Bounds::new(&self.farm))? {
            Answer::Line(line) => return outcome_of(line.trim(), &self.marked),
            Answer::Overdone(wrong) => wrong,
            Answer::Late => format!("the check did not answer within {:?}", self.time),
            Answer::Ended(status) => match signal_of(status) {
                Some(signal) => format!("killed by {}", signal_name(signal)),
                None => "the check ended instead of answering".to_owned(),
            },
        };
        self.server = None;
        Ok(Outcome::Bad(wrong))
    }
}

/// The meaning of a server's answer.
fn outcome_of(answer: &str, marked: &Arc<Marked>) -> io::Result<Outcome> {
    let strange =
        |right: &str| io::Error::other(format!("the server answered '{answer}': {right}"));
    match answer.split_once(' ').unwrap_or((answer, "")) {
        ("ok", _) => Ok(Outcome::Good),
        ("recovered", number) => {
            let number = number.trim().parse().map(Outcome::Recovered);
            number.map_err(|_| strange("a number is missing"))
        }
        ("keys", words) => Listed::in_words(marked, words)
            .map(Outcome::Keys)
            .ok_or_else(|| strange("'keys NAME=VERSION ...' would be right")),
        ("bad", text) => Ok(Outcome::Bad(text.to_owned())),
        _ => Err(strange(
            "'ok', 'recovered N', 'keys NAME=VERSION ...' or 'bad TEXT' would be right",
        )),
    }
}

/// The hash of the directory as a check has left it; none of one that is large, or gone.
fn left(dir: &Path) -> Option<u128> {
    let mut bytes = 0;
    let read = tree::read_folder(dir, &mut |path, _| {
        bytes += fs::symlink_metadata(path)?.len();
        let small = bytes <= READ_BACK_BYTES_MAX;
        small.then_some(()).ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))
    });
    // A check may hold a file open, or leave one that cannot be read: it is opened again then.
    Some(read.ok()?.hash(&Whole::default()))
}

/// Writes `tree` to `place`, and nothing else is there.
fn write(tree: &Tree, place: &Path) -> io::Result<()> {
    remove(place)?;
    fs::create_dir_all(place)?;
    tree.write_to(place)
}

/// Removes a folder, unless a check has done so.
fn remove(folder: &Path) -> io::Result<()> {
    unless_gone(fs::remove_dir_all(folder))
}

/// Moves a folder, unless a check has removed it.
fn change_place(from: &Path, to: &Path) -> io::Result<()> {
    remove(to)?;
    unless_gone(fs::rename(from, to))
}

fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Fills `farm` with links to all of `real`, but for the path of `parts`, whose folders are real.
fn plant(real: &Path, farm: &Path, parts: &[&OsStr]) -> io::Result<()> {
    let Some((first, rest)) = parts.split_first() else { return Ok(()) };
    if let Ok(entries) = fs::read_dir(real) {
        for entry in entries {
            let entry = entry?;
            if entry.file_name() != **first {
                symlink(entry.path(), farm.join(entry.file_name()))?;
            }
        }
    }
    fs::create_dir(farm.join(first))?;
    if rest.is_empty() { Ok(()) } else { plant(&real.join(first), &farm.join(first), rest) }
}

/// The end of a check's output that is looked at: it may be megabytes long.
const TAIL_BYTES: u64 = 16 * 1024;

/// The same of a check that lists keys.
const KEYS_BYTES_MAX: u64 = 64 << 20;

/// The last `most` bytes of a check's output.
fn tail(output: &mut File, most: u64) -> io::Result<String> {
    let length = output.seek(SeekFrom::End(0))?;
    output.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    output.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_line(text: &str) -> String {
    let lines: VecDeque<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.back().map_or_else(String::new, |line| line.trim().chars().take(300).collect())
}

/// The number of a line `recovered N`.
fn recovered(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("recovered ")?.trim().parse().ok())
}

/// The signal that killed a command, also where a shell in between tells it by its status.
fn signal_of(status: ExitStatus) -> Option<i32> {
    status
        .signal()
        .or_else(|| status.code().filter(|code| (129..160).contains(code)).map(|code| code - 128))
}

fn signal_name(signal: i32) -> String {
    match signal {
        libc::SIGSEGV => "SIGSEGV".to_owned(),
        libc::SIGBUS => "SIGBUS".to_owned(),
        libc::SIGABRT => "SIGABRT".to_owned(),
        libc::SIGKILL => "SIGKILL".to_owned(),
        libc::SIGILL => "SIGILL".to_owned(),
        libc::SIGFPE => "SIGFPE".to_owned(),
        other => format!("signal {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Change;
    use crate::tree::{Content, Node};

    /// Answers by the file `word`: it changes `once` and finds fault with what it made of it, removes the directory of
    /// `gone`, ends at `end`.
    const SERVER: &str = r#"tab=$(printf '\t'); while IFS="$tab" read -r dir acked issued; do
        case $(cat "$dir/word" 2>/dev/null) in
            once) echo twice > "$dir/word"; echo ok;;
            heal) echo healed > "$dir/word"; echo ok;;
            twice) echo bad twice;;
            gone) rm -r "$dir"; echo recovered 1;;
            end) exit 3;;
            wild) echo strange;;
            *) echo ok;;
        esac
    done"#;

    fn limits(write: Option<&str>) -> Limits {
        let (time, check_time) = (Duration::from_secs(600), Duration::from_secs(60));
        Limits { time, check_time, jobs: 1, seed: 0, write: write.map(str::to_owned) }
    }

    /// A store whose check passes, and which finds its content gone once something is added.
    #[test]
    fn a_recovered_state_is_written_to() {
        let check = Checker::Command("! grep -q lost {}/word && echo recovered 1".to_owned());
        let add = "[ ! -e {}/locked ] && sed -i 's/cut/lost/' {}/word";
        let mut judge =
            Judge::new(&check, Path::new("/state"), &limits(Some(add)), Arc::default()).unwrap();
        assert_eq!(judge.judge(&tree("whole"), 1, 1).unwrap(), Outcome::Recovered(1));
        let Outcome::Bad(text) = judge.judge(&tree("cut"), 1, 1).unwrap() else { panic!() };
        assert_eq!(text, "written to: status 1");
        let mut refused = tree("whole");
        let Node::Dir(_) = refused.node(tree::ROOT) else { panic!() };
        let node = Some(refused.add(Node::File(Content::default())));
        refused.apply(&Change::Name { dir: tree::ROOT, name: b"locked".to_vec(), node });
        let Outcome::Bad(text) = judge.judge(&refused, 1, 1).unwrap() else { panic!() };
        assert_eq!(text, "it cannot be written to: status 1");
        let mut without =
            Judge::new(&check, Path::new("/state"), &limits(None), Arc::default()).unwrap();
        assert_eq!(without.judge(&tree("cut"), 1, 1).unwrap(), Outcome::Recovered(1));
    }

    fn tree(word: &str) -> Tree {
        let mut tree = Tree::default();
        let dir = tree.add(Node::Dir(std::collections::BTreeMap::new()));
        let mut content = Content::default();
        content.write(0, word.as_bytes());
        content.size = word.len() as u64;
        let node = Some(tree.add(Node::File(content)));
        tree.apply(&Change::Name { dir, name: b"word".to_vec(), node });
        tree
    }

    #[test]
    fn states_in_a_row_are_judged_as_one_by_one() {
        let server = Checker::Server(SERVER.to_owned());
        let new =
            || Judge::new(&server, Path::new("/state"), &limits(None), Arc::default()).unwrap();
        let words = ["a", "once", "b", "heal", "heal", "end", "once", "end", "gone", "c"];
        let (mut alone, mut row) = (new(), new());
        let one_by_one: Vec<Outcome> =
            words.iter().map(|word| alone.judge(&tree(word), 1, 1).unwrap()).collect();
        let asked = words.iter().map(|word| Some(Asked { tree: tree(word), issued: 1, acked: 1 }));
        let in_a_row: Vec<Outcome> =
            asked.chain([None]).filter_map(|asked| row.judge_in_turn(asked).unwrap()).collect();
        assert_eq!(in_a_row, one_by_one);
        let bad = |text: &str| Outcome::Bad(text.to_owned());
        assert_eq!(
            in_a_row[..4],
            [Outcome::Good, bad("opened a second time: twice"), Outcome::Good, Outcome::Good]
        );
        assert_eq!(in_a_row[5], bad("the check ended instead of answering"));

        let next = |word: &str| Some(Asked { tree: tree(word), issued: 1, acked: 1 });
        assert!(row.judge_in_turn(next("wild")).unwrap().is_none());
        assert!(row.judge_in_turn(next("a")).is_err(), "an answer that means nothing");
    }
}
