//! Bounds of a check that runs wild: of its output, of its files, and of the time that its
//! processes live.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::sys;

/// Bytes that one run of a check may print.
const PRINTED_MAX: u64 = 64 << 20;
/// Bytes that one run of a check may add to its folder.
const WRITTEN_MAX: u64 = 1 << 30;
/// Bytes of one answer of a check that stays.
pub const LINE_MAX: u64 = 64 << 10;
/// The folder is looked at that often.
const LOOK: Duration = Duration::from_millis(100);

/// The bounds of one run of a check in a folder.
#[derive(Debug)]
pub struct Bounds<'a> {
    folder: &'a Path,
    looked: Instant,
    /// Bytes in the folder when it was first looked at.
    first: Option<u64>,
}

impl<'a> Bounds<'a> {
    /// A run that begins now.
    #[must_use]
    pub fn new(folder: &'a Path) -> Self {
        Self { folder, looked: Instant::now(), first: None }
    }

    /// The bound that the run has passed by now, if any. Runs shorter than a tenth of a second are not
    /// looked at.
    ///
    /// # Errors
    /// Those of looking at `output`.
    pub fn excess(&mut self, output: Option<&File>) -> io::Result<Option<String>> {
        if self.looked.elapsed() < LOOK {
            return Ok(None);
        }
        if let Some(output) = output
            && output.metadata()?.len() > PRINTED_MAX
        {
            return Ok(Some(format!("the check has printed more than {} MiB", PRINTED_MAX >> 20)));
        }
        let now = used(self.folder);
        self.looked = Instant::now();
        let first = *self.first.get_or_insert(now);
        Ok((now.saturating_sub(first) > WRITTEN_MAX)
            .then(|| format!("the check has written more than {} MiB", WRITTEN_MAX >> 20)))
    }

    /// How long to wait before the next look.
    #[must_use]
    pub fn patience(&self) -> Duration {
        LOOK
    }
}

/// Bytes of the disk below a folder. Files that vanish meanwhile count nothing.
fn used(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |path: PathBuf| match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() => used(&path),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(|entry| of(entry.path())).sum()
}

/// Folders of judges at work, and of those that are done.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static GONE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn locked(folders: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    folders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the folder of a judge that begins.
pub fn begins(folder: &Path) {
    locked(&LIVE).push(folder.to_owned());
}

/// Notes the folder of a judge that is done.
pub fn is_gone(folder: &Path) {
    locked(&LIVE).retain(|known| known != folder);
    locked(&GONE).push(folder.to_owned());
}

/// Processes that runs of a check leave behind, out of their group.
#[derive(Default, Debug)]
pub struct Strays {
    runs: usize,
    seen: bool,
}

impl Strays {
    /// Ends those of a run that is over. A check that leaves none in its first runs is trusted after.
    pub fn end(&mut self, folder: &Path) {
        const WATCHED: usize = 4;
        self.runs += 1;
        if self.runs <= WATCHED || self.seen {
            self.seen |= kill_in(&[folder.to_owned()]);
        }
    }
}

/// Ends processes that checks have left running, and removes what they wrote since.
pub fn end_strays() {
    let gone = std::mem::take(&mut *locked(&GONE));
    end(&gone);
}

fn end(folders: &[PathBuf]) {
    if !folders.is_empty() {
        kill_in(folders);
    }
    for folder in folders.iter().filter(|folder| folder.exists()) {
        let _ = fs::remove_dir_all(folder);
    }
}

/// Kills all processes that run in one of `folders`, which their environment names; whether there was one.
fn kill_in(folders: &[PathBuf]) -> bool {
    // They may start others meanwhile.
    const ROUNDS: usize = 20;
    let prefix = |folder: &PathBuf| [b"OUTLAST_DIR=", folder.as_os_str().as_bytes(), b"/"].concat();
    let prefixes: Vec<Vec<u8>> = folders.iter().map(prefix).collect();
    let is_in = |environment: &[u8]| {
        let mut words = environment.split(|&byte| byte == 0);
        words.any(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
    };
    let mut any = false;
    for _ in 0..ROUNDS {
        let mut found = false;
        let Ok(processes) = fs::read_dir("/proc") else { return any };
        for process in processes.flatten() {
            let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(pid) = pid else { continue };
            if fs::read(process.path().join("environ")).is_ok_and(|all| is_in(&all)) {
                sys::kill(pid);
                found = true;
            }
        }
        if !found {
            return any;
        }
        any = true;
    }
    any
}

/// From here on an interrupt of this process ends the checks that run, and removes their folders.
pub fn tidy_at_interrupts() {
    let Ok(mut interrupts) = sys::interrupts() else { return };
    thread::spawn(move || {
        let mut signal = [0];
        if interrupts.read_exact(&mut signal).is_ok() {
            let live = locked(&LIVE).clone();
            end(&live);
            end_strays();
            std::process::exit(128 + i32::from(signal[0]));
        }
    });
}
