//! The interface of a paper's folder to the command line and the report.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use outlast::Scheme;
use outlast::lab::Plant;

use super::claim::Claim;
use super::view::View;
use crate::native::Size;
use crate::progress::{Listener, Phase};
use crate::record::Record;

/// A request for a paper's reproduction. A paper refuses options that it has no use for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Only these figures; all if there are none.
    pub figures: Vec<String>,
    /// How much.
    pub size: Size,
    /// The seed of everything drawn.
    pub seed: u64,
    /// Numbers of threads.
    pub threads: Option<Vec<u32>>,
    /// Nanoseconds added for each line written back, in runs on slower memory.
    pub write_latency_ns: Option<u64>,
    /// Where pools are created.
    pub directory: Option<PathBuf>,
    /// Crashes of each campaign.
    pub crashes: Option<u32>,
    /// Only these workloads; all if there are none.
    pub workloads: Vec<String>,
    /// Only these schemes of the runtime; all if there are none.
    pub schemes: Vec<Scheme>,
    /// A bug that is planted in crash tests.
    pub plant: Option<Plant>,
}

impl Request {
    /// All of a paper at its usual amount.
    pub fn new(size: Size, seed: u64) -> Self {
        Self {
            figures: Vec::new(),
            size,
            seed,
            threads: None,
            write_latency_ns: None,
            directory: None,
            crashes: None,
            workloads: Vec::new(),
            schemes: Vec::new(),
            plant: None,
        }
    }
}

impl Request {
    /// The figures that were asked for, of all those of a paper; all of them where none were.
    ///
    /// # Errors
    /// One line with the names that there are.
    pub(super) fn parts<P: Copy>(
        &self,
        paper: &str,
        all: &[P],
        name_of: fn(P) -> &'static str,
    ) -> Result<Vec<P>, String> {
        if self.figures.is_empty() {
            return Ok(all.to_vec());
        }
        let part = |name: &String| {
            all.iter().copied().find(|part| name_of(*part) == name).ok_or_else(|| {
                let names: Vec<_> = all.iter().map(|part| name_of(*part)).collect();
                let names = names.join(", ");
                format!("no figure of {paper} is called '{name}'; there are {names}")
            })
        };
        self.figures.iter().map(part).collect()
    }

    /// Refuses what papers on the timed machine have no use for.
    ///
    /// # Errors
    /// One line that names what such a paper takes.
    pub(super) fn only_figures_and_scale(&self, paper: &str) -> Result<(), String> {
        let is_given = self.crashes.is_some()
            || self.plant.is_some()
            || self.directory.is_some()
            || self.threads.is_some()
            || self.write_latency_ns.is_some();
        if is_given || !self.workloads.is_empty() || !self.schemes.is_empty() {
            return Err(format!(
                "{paper} takes --figure and --scale; --crashes, --workload, --scheme, --plant, \
                 --threads, --write-latency and --dir are for papers that use them"
            ));
        }
        Ok(())
    }
}

/// The results of a reproduction.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Measurements, and claims with their verdicts.
    pub records: Vec<Record>,
    /// Crashes that lost something, each with the command that replays it.
    pub failures: Vec<String>,
    /// Schemes in which a bug was planted.
    pub planted: Vec<Scheme>,
}

/// A reproduction whose request was found right.
pub trait Run {
    /// Measures, and judges the claims about what it measured.
    ///
    /// # Errors
    /// When something could not be measured.
    fn run(&self, listen: &mut Listener<'_>) -> Result<Outcome, Box<dyn Error>>;

    /// The stages that it tells of, in their order, each with the seconds that it is expected to take on two
    /// processors.
    fn stages(&self) -> Vec<Phase>;

    /// Whether code runs that is broken on purpose or promises nothing: its panics are results.
    fn panics_are_results(&self) -> bool {
        false
    }
}

/// How a paper is called, and the texts that it comes with.
pub struct Card {
    /// Its name on the command line.
    pub name: &'static str,
    /// The name under which its records are filed, and the prefix of its claims' names.
    pub id: &'static str,
    /// How it is called in text.
    pub title: &'static str,
    /// Its subject, in a few words.
    pub about: &'static str,
    /// Its figures and tables by their names on the command line, each with its name in claims.
    pub figures: fn() -> Vec<(&'static str, String)>,
    /// Its claims about results and orderings.
    pub claims: &'static LazyLock<Vec<Claim>>,
    /// The names of the claims that its judge has rows for, without its own.
    pub rows: fn() -> Vec<&'static str>,
    /// Its views.
    pub views: &'static [View],
}

/// A paper. Its folder implements this once; a line of [`PAPERS`](super::PAPERS) is all that else
/// names it.
pub trait Paper: Sync {
    /// How it is called.
    fn card(&self) -> &'static Card;

    /// Its name on the command line.
    fn name(&self) -> &'static str {
        self.card().name
    }

    /// The name under which its records are filed, and the prefix of its claims' names.
    fn id(&self) -> &'static str {
        self.card().id
    }

    /// How it is called in text.
    fn title(&self) -> &'static str {
        self.card().title
    }

    /// Its subject, in a few words.
    fn about(&self) -> &'static str {
        self.card().about
    }

    /// Its figures and tables by their names on the command line, each with its name in claims.
    fn figures(&self) -> Vec<(&'static str, String)> {
        (self.card().figures)()
    }

    /// Its claims about results and orderings.
    fn claims(&self) -> &'static [Claim] {
        self.card().claims
    }

    /// Its views.
    fn views(&self) -> &'static [View] {
        self.card().views
    }

    /// Looks whether a request is right.
    ///
    /// # Errors
    /// One line that names what is wrong.
    fn prepare(&self, request: &Request) -> Result<Box<dyn Run>, Box<dyn Error>>;

    /// The run for a report.
    fn for_report(&self, size: Size, directory: &Path, seed: u64) -> Box<dyn Run>;
}
