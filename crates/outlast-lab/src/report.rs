//! Everything at once: the floor, the competition, the crashes, the verdicts, and the page.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use outlast_pmem::FloorOptions;
use outlast_trace::write_whole;

use crate::crash::{CrashError, crash_records};
use crate::native::{self, NativeError, Setup, Size, floor};
use crate::papers::{self, PAPERS};
use crate::progress::Listener;
use crate::record::{Document, Record};
use crate::{goals, html};

/// A report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Nothing could be measured.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// The checker could not run.
    #[error(transparent)]
    Crash(#[from] CrashError),
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

/// Measures what the report shows: floor, competition and distances, crashes, verdicts, then the
/// papers as far as the scale allows.
///
/// # Errors
/// [`ReportError`].
pub fn measure(
    setup: &Setup,
    floor_options: &FloorOptions,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, ReportError> {
    let mut records = measure_native(setup, floor_options, listen)?;
    records.extend(crash_records(setup.size, setup.seed, listen)?);
    records.extend(goals::judge(&records));
    for paper in PAPERS {
        let run = paper.for_report(setup.size, &setup.directory, setup.seed);
        let of_paper = papers::for_report(paper, run.as_ref(), listen);
        records.extend(of_paper.map_err(ReportError::Paper)?);
    }
    Ok(records)
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

/// How long crashes and the paper's figures take, in minutes, on two cores.
pub fn other_minutes(size: Size) -> u64 {
    match size {
        Size::Quick => 3,
        Size::Full => 300,
    }
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

    use outlast_workloads::Workload;

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
        let archapt = &page[page.find("<section id=\"archapt\"").unwrap()..];
        for shown in
            ["Figure 9: flushes", "Of these, by coalescing", "claims about results", "<svg"]
        {
            assert!(archapt.contains(shown), "{shown}");
        }
        let left =
            archapt.find("only with <code>--scale full</code>: 1, 2, 3, 6, 7, 8, clwb, table4");
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
