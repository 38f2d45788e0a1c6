//! The folder with the traces, and how one gets there.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use outlast_trace::{Ending, Program, Scratch};
use outlast_tracer::{Place, ProgramOutput, Request, capture, digest};
use sha2::{Digest, Sha256};

use super::{Counterpart, Missing, Scale, Window, packages, program};
use crate::parallel::told_each;
use crate::progress::{Listener, Progress};

/// Raised when traces of an unchanged row have to be captured anew.
const FORMAT: &str = "1";

/// Where traces are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suite {
    folder: PathBuf,
}

/// What became of one program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Its trace.
    pub file: PathBuf,
    /// Whether it was captured now.
    pub is_new: bool,
}

impl Suite {
    /// `outlast/traces` in the user's cache.
    ///
    /// # Errors
    /// When there is none, as neither XDG_CACHE_HOME nor HOME is set.
    pub fn usual() -> Result<Self, Missing> {
        let of =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|at| at.is_absolute());
        let cache = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
        let cache = cache.ok_or_else(|| {
            let why = "there is no folder for traces: set XDG_CACHE_HOME or HOME, or give one";
            Missing::Io(PathBuf::from("outlast/traces"), std::io::Error::other(why))
        })?;
        Ok(Self::at(&cache.join("outlast/traces")))
    }

    /// Some folder.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The trace of a program's counterpart, captured now if it is not there.
    ///
    /// # Errors
    /// When it is not there and cannot be captured.
    pub fn trace(
        &self,
        name: &str,
        scale: Scale,
        listen: &mut Listener<'_>,
    ) -> Result<PathBuf, Missing> {
        self.make(name, scale, listen).map(|made| made.file)
    }

    /// As [`trace`](Self::trace), and says what was done.
    ///
    /// # Errors
    /// As [`trace`](Self::trace).
    pub fn make(
        &self,
        name: &str,
        scale: Scale,
        listen: &mut Listener<'_>,
    ) -> Result<Made, Missing> {
        let row = Row::of(name, scale)?;
        let file = self.folder.join(row.file_name());
        if file.exists() {
            return Ok(Made { file, is_new: false });
        }
        let failed = |error| Missing::Io(self.folder.clone(), error);
        fs::create_dir_all(&self.folder).map_err(failed)?;
        self.capture(&row, &file, listen)?;
        self.remove_others(&row, &file);
        Ok(Made { file, is_new: true })
    }

    /// Makes several, as many at a time as there are processors. What is missing is told, and the rest
    /// goes on. After each, `listen` hears how long the others will take about.
    pub fn make_all(
        &self,
        names: &[&'static str],
        scale: Scale,
        listen: &mut Listener<'_>,
    ) -> Vec<(&'static str, Result<Made, Missing>)> {
        // How far one has come only its own capture tells.
        if let [name] = *names {
            let made = self.make(name, scale, listen);
            if let Err(missing) = &made {
                listen(Progress::Note(&missing.to_string()));
            }
            return vec![(name, made)];
        }
        let weight = |name: &&str| {
            let counterpart = program(name).ok().and_then(|entry| entry.counterpart.as_ref().ok());
            counterpart.map_or(0, |counterpart| seconds(counterpart.window(scale)))
        };
        let (began, of) = (Instant::now(), names.len());
        let (mut number, mut left, mut worked_off) = (0, names.iter().map(weight).sum::<u64>(), 0);
        let make = |name: &&'static str| {
            let began = Instant::now();
            let made = self.make(name, scale, &mut |_| ());
            Ok::<_, Infallible>((made, began.elapsed().as_secs_f64()))
        };
        let made = told_each(
            names,
            weight,
            of,
            "capturing, s",
            listen,
            make,
            |name, (made, took), listen| {
                number += 1;
                left -= weight(name);
                match made {
                    Ok(Made { is_new: false, .. }) => {}
                    Ok(Made { file, .. }) => {
                        worked_off += weight(name);
                        let mebi =
                            fs::metadata(file).map_or(0, |data| data.len()) as f64 / 1048576.0;
                        let pace = began.elapsed().as_secs_f64() / worked_off.max(1) as f64;
                        let rest = left as f64 * pace;
                        listen(Progress::Note(&format!(
                            "{name}: {mebi:.1} MiB in {took:.1} s; {number} of {of}, up to {rest:.0} s left"
                        )));
                    }
                    Err(missing) => listen(Progress::Note(&missing.to_string())),
                }
            },
        );
        let Ok(made) = made;
        names.iter().copied().zip(made.into_iter().map(|(made, _)| made)).collect()
    }

    fn capture(&self, row: &Row, file: &Path, listen: &mut Listener<'_>) -> Result<(), Missing> {
        let failed = |error| Missing::Io(self.folder.clone(), error);
        let place = tempfile::Builder::new().prefix(".work-").tempdir_in(&self.folder);
        let place = place.map_err(failed)?;
        let _scratch = Scratch::register(place.path());
        for (name, bytes) in &row.inputs {
            fs::write(place.path().join(name), bytes).map_err(failed)?;
        }
        let counterpart = row.counterpart;
        for command in counterpart.before {
            prepare(row.name, command, place.path())?;
        }
        let Window { skip, count } = row.window;
        // Traces under way are not what readers of the folder should see.
        let captured_to = place.path().join("captured.otrace");
        let request = Request {
            skip,
            count: Some(count),
            output: ProgramOutput::Nowhere,
            place: Place {
                directory: Some(place.path().to_owned()),
                input: Some(match counterpart.stdin {
                    Some(name) => place.path().join(name),
                    None => PathBuf::from("/dev/null"),
                }),
                input_goes_on: counterpart.stdin.is_some(),
                environment: Some(environment()),
            },
            origin: row.versions.clone(),
            ..Request::new(&captured_to, counterpart.command.iter().copied())
        };
        let began = Instant::now();
        let stage = format!("capturing {}, s", row.name);
        capture(&request, &mut |_| {
            let done = began.elapsed().as_secs();
            listen(Progress::Step { stage: &stage, done, total: seconds(row.window).max(done) });
        })
        .map_err(|error| Missing::Capture(row.name, error))?;
        row.check(&captured_to)?;
        fs::rename(&captured_to, file).map_err(failed)
    }

    /// Removes what the row had before it changed.
    fn remove_others(&self, row: &Row, file: &Path) {
        let start = row.file_start();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let is_of_row = entry.file_name().to_string_lossy().starts_with(&start);
            if is_of_row && entry.path() != file {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// What a trace comes from.
struct Row {
    name: &'static str,
    counterpart: &'static Counterpart,
    scale: Scale,
    window: Window,
    inputs: Vec<(&'static str, Vec<u8>)>,
    versions: String,
    digest: String,
}

impl Row {
    fn of(name: &str, scale: Scale) -> Result<Self, Missing> {
        let entry = program(name)?;
        let name = entry.name;
        let counterpart =
            entry.counterpart.as_ref().map_err(|why| Missing::NoCounterpart(name, why))?;
        let missing = packages::missing(counterpart.packages);
        if !missing.is_empty() {
            return Err(Missing::Packages(name, missing.join(" ")));
        }
        let inputs = counterpart.inputs.iter().map(|input| (input.name, (input.make)())).collect();
        let mut row = Self {
            name,
            counterpart,
            scale,
            window: counterpart.window(scale),
            inputs,
            versions: packages::versions(counterpart),
            digest: String::new(),
        };
        row.digest = row.of_all()?;
        Ok(row)
    }

    /// Twelve digits that change with anything that a trace comes from.
    fn of_all(&self) -> Result<String, Missing> {
        let mut hash = Sha256::new();
        let mut put = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        let Counterpart { command, stdin, before, .. } = self.counterpart;
        let window = format!("{} {}", self.window.skip, self.window.count);
        for part in [FORMAT, env!("CARGO_PKG_VERSION"), &window, &self.versions] {
            put(part.as_bytes());
        }
        let words = before.iter().copied().flatten().chain(command.iter()).chain(stdin);
        words.for_each(|word| put(word.as_bytes()));
        for (name, bytes) in &self.inputs {
            put(name.as_bytes());
            put(bytes);
        }
        // A program that was built before is as its compiler and its source.
        let program = Path::new(command[0]);
        if program.is_absolute() {
            let of = digest(program).map_err(|error| Missing::Capture(self.name, error))?;
            put(of.as_bytes());
        }
        Ok(hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect())
    }

    fn file_start(&self) -> String {
        format!("{}-{}-", self.name, self.scale.name())
    }

    fn file_name(&self) -> String {
        format!("{}{}.otrace", self.file_start(), self.digest)
    }

    /// A window that the program did not fill is a defect of the table.
    fn check(&self, file: &Path) -> Result<(), Missing> {
        let refused = |why: String| Missing::Before(self.name, why);
        let program = Program::open(file).map_err(|error| refused(error.to_string()))?;
        if program.ending() != Ending::Whole {
            return Err(refused("was killed, or became another program".to_owned()));
        }
        let ran = program.instructions().map_err(|error| refused(error.to_string()))?;
        if ran < self.window.count / 10 * 9 {
            let Window { skip, count } = self.window;
            let why = format!("ended {ran} instructions behind the first {skip}, not {count}");
            return Err(refused(why));
        }
        Ok(())
    }
}

/// About how long a capture takes: a skipped instruction runs at QEMU's speed, a captured one at that
/// of the encoder.
fn seconds(window: Window) -> u64 {
    1 + window.skip / 300_000_000 + window.count / 40_000_000
}

/// The same everywhere: one thread, no locale, nothing drawn at random.
fn environment() -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let fixed = [
        ("HOME", "/nonexistent"),
        ("LC_ALL", "C"),
        ("OMP_NUM_THREADS", "1"),
        ("OPENBLAS_NUM_THREADS", "1"),
        ("PERL_HASH_SEED", "0"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONHASHSEED", "0"),
    ];
    let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
    std::iter::once(("PATH".into(), path)).chain(fixed).collect()
}

fn prepare(name: &'static str, command: &[&str], place: &Path) -> Result<(), Missing> {
    let shown = command.join(" ");
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).current_dir(place).stdin(Stdio::null());
    let output =
        process.output().map_err(|error| Missing::Before(name, format!("{shown}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = text.lines().next().unwrap_or("it failed").to_owned();
    Err(Missing::Before(name, format!("{shown}: {first}")))
}
