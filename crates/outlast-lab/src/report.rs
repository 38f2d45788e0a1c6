//! Everything at once: the floor, the competition, the crashes, the verdicts, and the page.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use outlast_crash::explain::Explanation;
use outlast_pmem::FloorOptions;
use outlast_trace::write_whole;
use outlast_workloads::Workload;

use crate::beside::{self, Beside};
use crate::crash::{self, CrashError};
use crate::native::{self, NativeError, Setup, Size, floor};
use crate::papers::{self, PAPERS};
use crate::power::{self, Power};
use crate::progress::{Listener, Overall, Phase, Progress};
use crate::record::{Document, Record};
use crate::{compare, explain, goals, html};

/// A report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Nothing could be measured.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// The checker could not run.
    #[error(transparent)]
    Crash(#[from] CrashError),
    /// Hardware schemes could not be compared.
    #[error("{0}")]
    Compared(Box<dyn std::error::Error>),
    /// A paper's figures could not be measured.
    #[error("{0}")]
    Paper(Box<dyn std::error::Error>),
    /// The files could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What a report has measured.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Everything but what follows.
    pub records: Vec<Record>,
    /// Schemes of the machine on one program.
    pub compared: Vec<Record>,
    /// Explained crashes.
    pub explained: Vec<Explanation>,
    /// Front ends beside the programs that they stand for.
    pub beside: Beside,
    /// Programs that know nothing of this project, after a loss of power.
    pub power: Power,
}

/// The phases of a report with the seconds that each takes on two cores.
fn phases(setup: &Setup) -> Vec<Phase> {
    let of_size = |(quick, full)| if setup.size == Size::Quick { quick } else { full };
    let works = setup.workloads.iter();
    let works = works.map(|work| (work.name, alone(setup, work).estimate().as_secs_f64()));
    let crashes_s = crash::expected_ms(setup.size, setup.seed) as f64 / 1e3 / cores();
    let papers = PAPERS.iter().map(|paper| paper.name()).zip(PAPERS_S.map(of_size));
    [(FLOOR, of_size(FLOOR_S))]
        .into_iter()
        .chain(works)
        .chain([(BESIDE, of_size(BESIDE_S))])
        .chain([(crash::STAGE, crashes_s)])
        .chain([
            (POWER, of_size(POWER_S)),
            (EXPLAINED, of_size(EXPLAINED_S)),
            (COMPARED, of_size(COMPARED_S)),
        ])
        .chain(papers)
        .collect()
}

/// Processors that work is dealt to.
fn cores() -> f64 {
    thread::available_parallelism().map_or(1.0, |count| usize::from(count) as f64)
}

const FLOOR: &str = "floor";
const BESIDE: &str = "front ends";
const POWER: &str = "any program";
const EXPLAINED: &str = "explained crashes";
const COMPARED: &str = "hardware schemes";

/// Seconds in the quick scale and in the full one.
type Seconds = (f64, f64);

// What quick runs took on two cores of their own. Those of the full scale are estimates, and so are the crashes'
// shares in `crash::expected_ms`: what such a run took for all crashes, dealt out by hand.
const FLOOR_S: Seconds = (10.0, 60.0);
const BESIDE_S: Seconds = (17.0, 25.0);
const POWER_S: Seconds = (10.0, 10.0);
const EXPLAINED_S: Seconds = (4.0, 5.0);
const COMPARED_S: Seconds = (5.0, 300.0);
/// In the order of [`PAPERS`].
const PAPERS_S: [Seconds; 4] = [(19.0, 4_000.0), (10.0, 2_000.0), (10.0, 1_500.0), (10.0, 1_500.0)];

/// How long all of it is expected to take, in seconds, on two cores.
pub fn estimate_s(setup: &Setup) -> u64 {
    phases(setup).iter().map(|phase| phase.1).sum::<f64>() as u64
}

/// Measures what the report shows: floor, competition and distances, front ends, crashes, some of them explained,
/// hardware schemes on one program, then the papers as far as the scale allows. `first` hears of
/// records as soon as a phase has some.
///
/// # Errors
/// [`ReportError`].
pub fn measure<'l>(
    setup: &Setup,
    floor_options: &FloorOptions,
    others: &beside::Setup<'_>,
    listen: &'l mut Listener<'l>,
    first: &mut dyn FnMut(&[Record]),
) -> Result<Findings, ReportError> {
    let mut whole = Overall::new(phases(setup), listen);
    whole.begin(FLOOR);
    let mut records = floor::measure(setup, floor_options, &mut |progress| whole.hear(progress))?;
    first(&records);
    for workload in &setup.workloads {
        whole.begin(workload.name);
        let alone = alone(setup, workload);
        let found = native::run(&alone, &mut |progress| whole.hear(progress))?;
        first(&found);
        records.extend(found);
    }
    records.extend(floor::distances(&records));
    whole.begin(BESIDE);
    let beside = beside::measure(others, &mut |progress| whole.hear(progress));
    whole.begin(crash::STAGE);
    let mut tell = |progress: Progress<'_>| whole.hear(progress);
    records.extend(crash::measure(setup.size, setup.seed, &mut tell)?);
    records.extend(goals::pages_summed());
    records.extend(goals::judge(&records));
    whole.begin(POWER);
    let power = power::measure(&setup.directory, setup.seed, &mut |progress| whole.hear(progress));
    whole.begin(EXPLAINED);
    let explained = explain::for_report(setup.seed, &mut |progress| whole.hear(progress))?;
    whole.begin(COMPARED);
    let compared =
        compare::for_report(setup.size, setup.seed, &mut |progress| whole.hear(progress))
            .map_err(ReportError::Compared)?;
    for paper in PAPERS {
        whole.begin(paper.name());
        let run = paper.for_report(setup.size, &setup.directory, setup.seed);
        let of_paper =
            papers::for_report(paper, run.as_ref(), &mut |progress| whole.hear(progress));
        records.extend(of_paper.map_err(ReportError::Paper)?);
    }
    Ok(Findings { records, compared, explained, beside, power })
}

/// One workload of the setup. The quick scale takes the transactions of those apart that goals are about.
fn alone(setup: &Setup, workload: &'static Workload) -> Setup {
    let is_taken_apart = setup.size == Size::Full || goals::COST_WORKLOADS.contains(&workload.name);
    let parts = setup.parts && is_taken_apart;
    Setup { workloads: vec![workload], parts, ..setup.clone() }
}

/// The floor, the competition, and how far its schemes are from the floor.
///
/// # Errors
/// [`NativeError`].
pub fn measure_native(
    setup: &Setup,
    floor_options: &FloorOptions,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, NativeError> {
    let mut records = floor::measure(setup, floor_options, listen)?;
    records.extend(native::run(setup, listen)?);
    records.extend(floor::distances(&records));
    Ok(records)
}

/// Makes sure that [`write()`] will be able to: a run of minutes must not end in a wrong path.
///
/// # Errors
/// [`ReportError::Write`].
pub fn prepare(directory: &Path) -> Result<(), ReportError> {
    let failed = |source| ReportError::Write { path: directory.to_owned(), source };
    fs::create_dir_all(directory).map_err(failed)?;
    tempfile::tempfile_in(directory).map(drop).map_err(failed)
}

/// Writes `index.html` and `results.json`; returns the page's path.
///
/// # Errors
/// [`ReportError::Write`].
pub fn write(document: &Document, directory: &Path) -> Result<PathBuf, ReportError> {
    write_page(document, directory, &html::page(document))
}

/// Writes this page as `index.html`, with the document's `results.json`; returns its path.
///
/// # Errors
/// [`ReportError::Write`].
pub fn write_page(
    document: &Document,
    directory: &Path,
    page: &str,
) -> Result<PathBuf, ReportError> {
    prepare(directory)?;
    let put = |name: &str, content: &str| {
        let path = directory.join(name);
        match write_whole(&path, content) {
            Ok(()) => Ok(path),
            Err(source) => Err(ReportError::Write { path, source }),
        }
    };
    put("results.json", &document.to_json())?;
    put("index.html", page)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::papers::archapt::{Amount, Archapt, Task};
    use crate::record::Metric;

    #[test]
    fn a_tiny_report_is_written_with_its_figures_and_read_back() {
        let directory = tempfile::tempdir_in(native::default_directory()).unwrap();
        let workloads = ["ycsb-a", "sps1"].map(|name| Workload::named(name).unwrap()).into();
        let setup = Setup {
            directory: directory.path().to_owned(),
            records: Some(100),
            rounds: 2,
            turn: Duration::from_millis(1),
            latency_transactions: 20,
            ..Setup::new(workloads, Size::Quick, 5)
        };
        let options = FloorOptions { rounds: 1, seed: 5 };
        let mut document = Document::new("0.0.0", "outlast report", 5, None);
        document.records = measure_native(&setup, &options, &mut |_| ()).unwrap();
        document.records.extend(goals::judge(&document.records));
        let task = Task::for_report(Size::Quick, directory.path(), 5);
        let amount = Amount { keys: Some(200), warm_up: 200, transactions: 200, ..task.amount };
        let archapt = papers::for_report(&Archapt, &Task { amount, ..task }, &mut |_| ()).unwrap();
        document.records.extend(archapt);
        assert!(document.records.iter().any(|record| record.is(Metric::FLOOR_PREDICTED)));

        let out = directory.path().join("out");
        let page = fs::read_to_string(write(&document, &out).unwrap()).unwrap();
        assert!(page.matches("<svg").count() >= 6, "throughput, cost, parts, floor, flushes");
        let archapt = &page[page.find("<details id=\"archapt\"").unwrap()..];
        for shown in
            ["Figure 9: flushes", "Of these, by coalescing", "claims about results", "<svg"]
        {
            assert!(archapt.contains(shown), "{shown}");
        }
        let left = archapt.find("Not measured in this report: 1, 2, 3, 6, 7, 8, clwb, table4");
        assert!(left.is_some(), "{archapt}");
        let results = fs::read_to_string(out.join("results.json")).unwrap();
        assert_eq!(Document::from_json(&results).unwrap(), document);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_known_before_anything_runs() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let error = prepare(&file.join("out")).unwrap_err().to_string();
        assert!(error.starts_with(&file.display().to_string()), "{error}");
    }
}
