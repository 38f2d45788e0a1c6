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
    /// So much of all stages together is done.
    Whole {
        /// What is under way.
        stage: &'a str,
        /// Of a thousand.
        permille: u64,
        /// Since the beginning, in seconds.
        elapsed_s: u64,
        /// Until the end, in seconds, by what was expected and what it took so far.
        left_s: u64,
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

/// Tells the stages of one part of several as steps of all of them.
pub fn as_part(
    stage: &'static str,
    (number, parts): (u64, u64),
    listen: &mut Listener<'_>,
) -> impl FnMut(Progress<'_>) {
    /// Steps of a part.
    const STEPS: u64 = 1000;
    let mut most = 0;
    move |progress| match progress {
        Progress::Step { done, total, .. } => {
            // A part may have several stages: it does not go back with the next.
            most = most.max(STEPS * done / total.max(1));
            listen(Progress::Step { stage, done: STEPS * number + most, total: STEPS * parts });
        }
        other => listen(other),
    }
}

/// A part of a long run, with the seconds that it is expected to take.
pub type Phase = (&'static str, f64);

/// Stages of a long run as one: a total, and an estimate of what is left.
pub struct Overall<'l> {
    listen: &'l mut Listener<'l>,
    phases: Vec<Phase>,
    current: usize,
    /// How much of the current phase is done, from 0 to 1.
    part: f64,
    began: Instant,
    /// Notes that several phases have are told once.
    noted: Vec<String>,
}

impl<'l> Overall<'l> {
    /// Nothing is done of these.
    pub fn new(phases: Vec<Phase>, listen: &'l mut Listener<'l>) -> Self {
        Self { listen, phases, current: 0, part: 0.0, began: Instant::now(), noted: Vec::new() }
    }

    /// A phase begins; those before it are over.
    pub fn begin(&mut self, name: &str) {
        let index = self.phases.iter().position(|(phase, _)| *phase == name);
        self.current = index.unwrap_or(self.current);
        self.part = 0.0;
        self.tell(name);
    }

    /// Passes on what the current phase tells: notes as they are, steps as a share of the whole. A stage
    /// with the name of a later phase begins it.
    pub fn hear(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Step { stage, done, total } => {
                let named = self.phases.iter().position(|(phase, _)| *phase == stage);
                if let Some(index) = named.filter(|index| *index > self.current) {
                    (self.current, self.part) = (index, 0.0);
                }
                // A phase may have several stages of its own: it does not go back with the next.
                self.part = self.part.max(done as f64 / total.max(1) as f64);
                self.tell(stage);
            }
            Progress::Note(note) if self.noted.iter().any(|other| other == note) => {}
            Progress::Note(note) => {
                self.noted.push(note.to_owned());
                (self.listen)(progress);
            }
            Progress::Whole { .. } => (self.listen)(progress),
        }
    }

    fn tell(&mut self, stage: &str) {
        let elapsed = self.began.elapsed().as_secs_f64();
        let (permille, left) = self.state(elapsed);
        let (elapsed_s, left_s) = (elapsed as u64, left.ceil() as u64);
        (self.listen)(Progress::Whole { stage, permille, elapsed_s, left_s });
    }

    /// The share that is done of a thousand, and the seconds that are left: what is expected of the
    /// rest, stretched as what is over was.
    fn state(&self, elapsed: f64) -> (u64, f64) {
        let total: f64 = self.phases.iter().map(|phase| phase.1).sum();
        let over: f64 = self.phases[..self.current].iter().map(|phase| phase.1).sum();
        let done = over + self.part * self.phases.get(self.current).map_or(0.0, |phase| phase.1);
        // The first seconds say little about the machine.
        let stretch = (elapsed + SETTLING_S) / (done + SETTLING_S);
        ((1000.0 * done / total.max(1e-9)) as u64, (total - done) * stretch)
    }
}

/// Seconds by which what was expected counts beside what was measured.
const SETTLING_S: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_to_one_and_the_estimate_follows_what_they_took() {
        let mut told = Vec::new();
        let mut listen = |progress: Progress<'_>| {
            if let Progress::Whole { permille, .. } = progress {
                told.push(permille);
            }
        };
        let mut overall = Overall::new(vec![("a", 30.0), ("b", 70.0)], &mut listen);
        overall.begin("a");
        overall.hear(Progress::Step { stage: "x", done: 1, total: 2 });
        // Another stage of the same phase.
        overall.hear(Progress::Step { stage: "y", done: 0, total: 9 });
        overall.begin("b");
        overall.hear(Progress::Step { stage: "z", done: 7, total: 7 });
        let (permille, left) = overall.state(200.0);
        assert_eq!((permille, left), (1000, 0.0));
        overall.begin("b");
        // What was to take 30 seconds took 70: twice as long, with the ten that count for it.
        assert_eq!(overall.state(70.0), (300, 140.0));
        drop(overall);
        // The stages of a paper are phases by their names.
        let mut overall = Overall::new(vec![("a", 30.0), ("b", 70.0)], &mut listen);
        overall.hear(Progress::Step { stage: "a", done: 1, total: 2 });
        as_part("b", (1, 2), &mut |progress| overall.hear(progress))(Progress::Step {
            stage: "any",
            done: 1,
            total: 2,
        });
        drop(overall);
        assert_eq!(told, [0, 150, 150, 300, 1000, 300, 150, 825]);
    }
}
