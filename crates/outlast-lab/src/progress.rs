//! What a long run tells while it goes on. Who shows it, and where, is the caller's affair.

use std::time::{Duration, Instant};

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress<'a> {
    /// A line that a reader of the results has to know: what is in force, what is left out.
    Note(&'a str),
    /// So much of a stage is done.
    Step {
        /// The stage.
        stage: &'a str,
        /// Steps finished.
        done: u64,
        /// Steps in all.
        total: u64,
    },
}

/// Hears the progress.
pub type Listener<'a> = dyn FnMut(Progress<'_>) + 'a;

/// Tells a stage's steps; of one that takes long, also lines with what is left by what it took so far.
#[derive(Debug)]
pub struct Estimate<'a> {
    stage: &'a str,
    total: u64,
    began: Instant,
    told: Instant,
    done: Option<u64>,
}

impl<'a> Estimate<'a> {
    /// Between two lines at least.
    const PAUSE: Duration = Duration::from_secs(10);

    /// The stage begins.
    pub fn new(stage: &'a str, total: u64) -> Self {
        let now = Instant::now();
        Self { stage, total, began: now, told: now, done: None }
    }

    /// So much is done.
    pub fn tell(&mut self, done: u64, listen: &mut Listener<'_>) {
        if self.done == Some(done) {
            return;
        }
        self.done = Some(done);
        let Self { stage, total, .. } = *self;
        listen(Progress::Step { stage, done, total });
        if self.told.elapsed() >= Self::PAUSE && done > 0 && done < total {
            self.told = Instant::now();
            let took = self.began.elapsed().as_secs_f64();
            let left = took * (total - done) as f64 / done as f64;
            listen(Progress::Note(&format!(
                "{stage}: {done} of {total} in {took:.0} s, about {left:.0} s left"
            )));
        }
    }
}
