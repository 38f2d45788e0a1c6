//! Front ends crashed and killed: programs over a pool that acknowledge one step after the other.
//!
//! The fault model of crashes is that of `docs/fault-model.md`: words persist line by line, in any order that
//! fences allow, and recoveries are crashed, too. That of kills: a process ends at any instruction, and memory
//! that it shares with a file stays. Under both, the steps that were acknowledged must be there, and at most one
//! more.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use outlast_pmem::Recorder;

use crate::{Check, Crash, Exhaustive, ImageMedium, Model, Report, Sampled, Violation};

/// The variable with the number of crash points of programs by chance, where more are wanted.
const CRASHES: &str = "OUTLAST_CRASHES";

/// The variable with the number of kills, where more are wanted.
const KILLS: &str = "OUTLAST_KILLS";

/// Operations of a recovery that is not stuck.
const RECOVERY_OPS_MAX: u64 = 100_000_000;

/// A program of steps on one lane.
pub trait Program: Sync {
    /// The state that recovery finds.
    type Found;

    /// Bytes of the pool.
    const POOL_BYTES: u64;

    /// Makes the pool; nothing of it crashes.
    fn prepare(&self, medium: &Recorder);

    /// Runs the steps, and marks step `n` with [`Mark::Ack`](outlast_pmem::Mark::Ack) of `n` after its commit.
    fn run(&self, medium: &Recorder);

    /// Recovers an image.
    ///
    /// # Errors
    /// A pool that cannot be recovered.
    fn recover(&self, image: &ImageMedium) -> Result<Self::Found, String>;

    /// Holds the found state against the steps that were acknowledged.
    ///
    /// # Errors
    /// A step lost, in part, or not yet run.
    fn judge(&self, found: &Self::Found, acked: usize) -> Result<(), Violation>;

    /// Crashes it in every way, up to this many images.
    fn every_image(&self, images: u64) -> Report {
        Check::new(Self::POOL_BYTES).prepared(|medium| self.prepare(medium)).images_max(images).run(
            |_, medium| self.run(medium),
            |image| self.recover(image),
            |found, crash| self.judge(found, crash.acked.len()),
        )
    }

    /// Crashes it with an image at each of `points` crash points, and a crash of that image's recovery.
    ///
    /// # Panics
    /// When a crash point is too wide to be sampled.
    fn sample(&self, seed: u64, points: usize) -> Sampled {
        let medium = Recorder::new(Self::POOL_BYTES);
        self.prepare(&medium);
        let medium = Recorder::from_image(medium.to_bytes());
        let base = medium.to_bytes();
        self.run(&medium);
        let judge = |image: &ImageMedium, crash: &Crash<'_>| {
            self.judge(&self.recover(image).map_err(Violation::from)?, crash.acked.len())
        };
        let settings = Exhaustive::new(Model::default()).recovery_ops_max(RECOVERY_OPS_MAX);
        settings.sample(&base, &medium.take_log(), seed, points, 1, judge).expect("narrow")
    }
}

/// The number of states, counted from `acked`, at which a found one stands: 0 or 1, if nothing is wrong.
pub fn steps_ahead<S: PartialEq>(states: &[S], acked: usize, found: &S) -> Option<usize> {
    states.iter().skip(acked).take(2).position(|state| state == found)
}

/// Samples programs drawn by seeds until there are crash points enough; a failure names its seed.
///
/// # Panics
/// When a program fails, or no recovery was crashed.
pub fn by_chance<P: Program>(name: &str, mut draw: impl FnMut(u64) -> P) {
    let wanted = number_in(CRASHES, 1_500);
    let (mut points, mut images, mut seed) = (0, 0, 0);
    while points < wanted {
        let sampled = draw(seed).sample(seed, if wanted > 10_000 { 2_000 } else { 300 });
        assert!(sampled.failures.is_empty(), "{name}, seed {seed}: {:?}", sampled.failures);
        (points, images, seed) =
            (points + sampled.crash_points, images + sampled.verified, seed + 1);
    }
    println!("{name}: {points} crash points of {seed} seeds, {images} recoveries");
    assert!(images > points, "recoveries are crashed, too");
}

fn number_in(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |number| number.parse().expect(variable))
}

/// The number of kills of a test: `usual`, or as many as the environment asks for.
///
/// # Panics
/// When the variable is no number.
pub fn kills(usual: u64) -> u64 {
    number_in(KILLS, usual)
}

/// A process that ends with this value.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// A program that is missing or cannot be run.
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Ends it with SIGKILL, if it has not ended.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A child that prints the number of each transaction once it is committed, the last one of earlier children
/// first.
pub struct Teller {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
    /// The last number that it has printed.
    pub told: u64,
}

impl Teller {
    /// Starts it and reads its first number.
    ///
    /// # Panics
    /// When it cannot be started, or prints no number.
    pub fn start(command: &mut Command) -> Self {
        let mut process = Process::start(command.stdout(Stdio::piped())).expect("a child");
        let lines = BufReader::new(process.0.stdout.take().expect("piped")).lines();
        let mut teller = Self { process, lines, told: 0 };
        teller.read();
        teller
    }

    fn read(&mut self) {
        let line = self.lines.next().expect("it goes on until it is killed").expect("text");
        self.told = line.parse().expect("a number");
    }

    /// Lets it run `more` transactions and then this long, and kills it.
    ///
    /// # Panics
    /// When it ends by itself.
    pub fn kill_after(mut self, more: u64, pause: Duration) -> u64 {
        let wanted = self.told + more;
        while self.told < wanted {
            self.read();
        }
        std::thread::sleep(pause);
        self.process.kill();
        // Lines in the pipe were printed before the kill; the last one may be cut off.
        for line in self.lines.map_while(Result::ok) {
            self.told = line.parse().unwrap_or(self.told);
        }
        self.told
    }
}
