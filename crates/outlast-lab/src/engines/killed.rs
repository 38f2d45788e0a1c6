//! The first opening after a kill: a process updates a database until it is killed, and another opens that.

use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use outlast::Scheme;
use outlast_measure::Rounds;
use outlast_peers::engines::{Engine, EngineError, Ours, OursOptions, PEERS, open_peer};
use outlast_trace::mix;

use super::data::{DataSet, UPDATES};
use super::{EnginesError, EnginesSetup, ours_options};
use crate::stats::Spread;

/// Openings of each database at most.
const OPENINGS_MAX: u32 = 5;

/// Updates of a process before it says that it updates, and how long it goes on after that.
const UPDATES_BEFORE: u64 = 200;
const UPDATED_FOR: Duration = Duration::from_millis(100);

/// A process that nothing kills ends by itself.
const LIVES_AT_MOST: Duration = Duration::from_secs(60);

/// The line by which it says so.
const UPDATING: &str = "updating";

/// A database that is there when no process has it open.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub name: &'static str,
    /// Its file or folder.
    path: PathBuf,
}

/// The databases of a run in `directory`, pools under the names of `name` and their schemes.
pub(super) fn subjects(setup: &EnginesSetup, directory: &Path, name: &Path) -> Vec<Subject> {
    let ours = setup.schemes.iter().map(|scheme| Subject {
        name: scheme.name(),
        path: directory.join(name).with_extension(scheme.name()),
    });
    let peers = PEERS.iter().map(|name| Subject { name, path: directory.join(name) });
    ours.chain(peers).collect()
}

/// How long each takes to be opened and to give its first value, after a process that updated it was killed, in
/// milliseconds.
pub(super) fn first_openings(
    set: &DataSet,
    setup: &EnginesSetup,
    subjects: &[Subject],
    program: &Path,
    advance: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Spread>, EnginesError> {
    let rounds = Rounds::new(setup.rounds.min(OPENINGS_MAX), setup.seed);
    let total = u64::from(rounds.count + rounds.warm_up) * subjects.len() as u64;
    let mut done = 0;
    let turns = rounds.run(subjects.len(), |subject, round| {
        let Subject { name, path } = &subjects[subject];
        kill_updating(setup, name, path, program)?;
        let key = set.key(u64::from(round) % setup.keys);
        let start = Instant::now();
        let engine = open(setup, set, name, path)?;
        engine.session()?.get(&[&key])?;
        let took = start.elapsed();
        done += 1;
        advance(done, total);
        Ok::<_, EnginesError>(took.as_secs_f64() * 1e3)
    })?;
    let spread = |turns: Vec<f64>| Spread::of(turns).expect("there are rounds");
    Ok(turns.into_iter().map(spread).collect())
}

/// Has a process open a database and update it, and kills that in the middle.
fn kill_updating(
    setup: &EnginesSetup,
    name: &'static str,
    path: &Path,
    program: &Path,
) -> Result<(), EnginesError> {
    let unusable = |source| EnginesError::Directory { path: program.to_owned(), source };
    let mut command = Command::new(program);
    command.args(["bench", "engines", "--updating", name]).arg("--file").arg(path);
    command.args(["--records", &setup.keys.to_string(), "--seed", &setup.seed.to_string()]);
    command.args(["--threads", &most_threads(setup).to_string()]);
    if let Some(domain) = setup.domain {
        command.args(["--domain", domain.name()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Killed(command.spawn().map_err(unusable)?);
    let mut line = String::new();
    if let Some(told) = child.0.stdout.take() {
        BufReader::new(told).read_line(&mut line).map_err(unusable)?;
    }
    if line.trim_end() != UPDATING {
        child.kill();
        let mut why = String::new();
        let told = child.0.stderr.take();
        let _ = told.map(|mut told| io::Read::read_to_string(&mut told, &mut why));
        let why = why.lines().next().unwrap_or("it says nothing").to_owned();
        return Err(EnginesError::Updating { engine: name, why });
    }
    thread::sleep(UPDATED_FOR);
    child.kill();
    Ok(())
}

/// A process that does not outlive this value.
struct Killed(Child);

impl Killed {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}

fn most_threads(setup: &EnginesSetup) -> u32 {
    setup.threads.iter().copied().max().unwrap_or(1).max(1)
}

fn open(
    setup: &EnginesSetup,
    set: &DataSet,
    name: &str,
    path: &Path,
) -> Result<Box<dyn Engine>, EngineError> {
    match name.parse::<Scheme>() {
        Ok(scheme) => {
            let options: OursOptions = ours_options(setup, set, scheme);
            Ok(Box::new(Ours::open(path, options)?))
        }
        Err(_) => open_peer(name, path, set.bytes(setup.keys)),
    }
}

/// Opens the database of that name at the setup's file and updates it, a row in a transaction, until the process is
/// killed. Says by a line to `out` when it is at it.
///
/// # Errors
/// [`EnginesError`], and where nothing kills it in time.
pub fn update_until_killed(
    setup: &EnginesSetup,
    name: &'static str,
    out: &mut dyn Write,
) -> Result<Infallible, EnginesError> {
    let failed = |why: &str| EnginesError::Updating { engine: name, why: why.to_owned() };
    let set = &UPDATES;
    let engine = open(setup, set, name, &setup.file)?;
    let mut session = engine.session()?;
    let began = Instant::now();
    for number in 0u64.. {
        if number == UPDATES_BEFORE {
            writeln!(out, "{UPDATING}")
                .and_then(|()| out.flush())
                .map_err(|_| failed("no reader"))?;
        }
        let row = mix(setup.seed ^ number) % setup.keys;
        session.put(&[(&set.key(row), &set.value(row, number))])?;
        if began.elapsed() > LIVES_AT_MOST {
            break;
        }
    }
    Err(failed("nothing has killed it"))
}
