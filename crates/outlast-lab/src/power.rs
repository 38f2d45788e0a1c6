//! Loss of power under programs that know nothing of this project: three of them, captured and crashed live, for a
//! report. `docs/check-files.md` has the table of all programs that were tried.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outlast_check::finding::Finding;
use outlast_check::{Program, Report};
use serde::{Deserialize, Serialize};

use crate::progress::{Listener, Progress};

/// What was checked, and what could not be.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Power {
    /// A program each.
    pub checked: Vec<Checked>,
    /// A line each.
    pub left_out: Vec<String>,
}

/// A program with what a loss of power leaves of its data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Checked {
    /// The program.
    pub program: String,
    /// What it says of a loss of power.
    pub promise: String,
    /// Changes of its directory.
    pub changes: usize,
    /// Distinct directories that were opened.
    pub states: usize,
    /// Seconds for all of it.
    pub seconds: f64,
    /// Distinct findings.
    pub losses: Vec<Loss>,
}

/// A state that fails.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// Its class.
    pub class: String,
    /// What is wrong.
    pub wrong: String,
    /// File systems that allow the state.
    pub models: Vec<String>,
    /// The call that is lost.
    pub lost: String,
    /// The first call behind it that is kept, or acknowledges.
    pub kept: String,
    /// What mends it.
    pub remedy: String,
}

impl Power {
    /// Whether a document has nothing of it to keep.
    pub fn is_empty(&self) -> bool {
        self.checked.is_empty() && self.left_out.is_empty()
    }
}

impl From<&Finding> for Loss {
    fn from(finding: &Finding) -> Self {
        Self {
            class: finding.class.name().to_owned(),
            wrong: finding.wrong.clone(),
            models: finding.models.iter().map(|&model| model.to_owned()).collect(),
            lost: finding.lost.text.clone(),
            kept: finding.kept.as_ref().map_or_else(String::new, |call| call.text.clone()),
            remedy: finding.class.remedy().to_owned(),
        }
    }
}

/// A program that is checked.
struct Subject {
    name: &'static str,
    promise: &'static str,
    /// An interpreter with its option for the text behind it.
    interpreter: [&'static str; 2],
    /// The text; its first argument is the directory.
    text: &'static str,
    judge: &'static str,
}

const VERSIONS: &str = "for i in 1 2 3 4; do echo I $i; echo version $i > $0/new; SYNC mv $0/new $0/file; BEHIND echo A $i; done";

const SQLITE: &str = r#"
import sqlite3, sys
database = sqlite3.connect(sys.argv[1] + "/db", isolation_level=None)
database.execute("pragma journal_mode=delete")
database.execute("pragma synchronous=full")
database.execute("create table outlast_marks (n integer)")
for n in range(1, 5):
    print("I", n, flush=True)
    database.execute("insert into outlast_marks values (?)", (n,))
    print("A", n, flush=True)
"#;

const SUBJECTS: [Subject; 3] = [
    Subject {
        name: "a file replaced by rename, no sync",
        promise: "rename alone promises that the name changes at once, not that the new file's bytes are there",
        interpreter: ["sh", "-c"],
        text: "",
        judge: "replace=file",
    },
    Subject {
        name: "the same; the file and its directory synced",
        promise: "both are durable once the syncs have returned",
        interpreter: ["sh", "-c"],
        text: "sync",
        judge: "replace=file",
    },
    Subject {
        name: "SQLite, journal mode DELETE, synchronous FULL",
        promise: "its documentation says that FULL may lose the last commit with the journal's unlink; EXTRA does not",
        interpreter: ["python3", "-c"],
        text: SQLITE,
        judge: "sqlite",
    },
];

impl Subject {
    fn words(&self) -> [String; 3] {
        let text = match self.text {
            "" => VERSIONS.replace("SYNC", "").replace("BEHIND", ""),
            "sync" => VERSIONS.replace("SYNC", "sync $0/new;").replace("BEHIND", "sync $0;"),
            text => text.to_owned(),
        };
        [self.interpreter[0].to_owned(), self.interpreter[1].to_owned(), text]
    }

    fn is_there(&self) -> bool {
        let text = if self.judge == "sqlite" { "import sqlite3" } else { "command -v sync" };
        let [program, option] = self.interpreter;
        let mut command = Command::new(program);
        let found = command.args([option, text]).output();
        found.is_ok_and(|output| output.status.success())
    }

    fn check(&self, folder: &Path, seed: u64) -> Result<Report, String> {
        let dir = folder.join("data");
        let [program, option, text] = self.words();
        Program::new(program)
            .args([option, text])
            .arg(dir.as_os_str())
            .dir(&dir)
            .judge(self.judge)
            .seed(seed)
            .budget(BUDGET)
            .check()
            .map_err(|error| error.to_string())
    }
}

/// The time for one program's states.
const BUDGET: Duration = Duration::from_secs(20);

/// Captures and crashes each program in a folder of its own below `folder`.
pub fn measure(folder: &Path, seed: u64, listen: &mut Listener<'_>) -> Power {
    let mut power = Power::default();
    for (index, subject) in SUBJECTS.iter().enumerate() {
        listen(Progress::Note(subject.name));
        if !subject.is_there() {
            let program = subject.interpreter[0];
            power
                .left_out
                .push(format!("{}: {program} with what it needs is missing", subject.name));
            continue;
        }
        let place = tempfile::Builder::new().prefix(&format!("power-{index}-")).tempdir_in(folder);
        let checked = match place {
            Ok(place) => subject.check(place.path(), seed),
            Err(error) => Err(error.to_string()),
        };
        match checked {
            Ok(report) => power.checked.push(Checked {
                program: subject.name.to_owned(),
                promise: subject.promise.to_owned(),
                changes: report.run.counts().0,
                states: report.coverage.distinct,
                seconds: report.took.as_secs_f64(),
                losses: report.findings().map(Loss::from).collect(),
            }),
            Err(why) => power.left_out.push(format!("{}: {why}", subject.name)),
        }
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_programs_have_the_verdicts_that_they_are_known_for() {
        let folder = tempfile::tempdir().unwrap();
        let power = measure(folder.path(), 1, &mut |_| {});
        let known = |name: &str| power.left_out.iter().any(|line| line.starts_with(name));
        for checked in &power.checked {
            let sound = checked.program.contains("synced");
            assert_eq!(checked.losses.is_empty(), sound, "{checked:?}");
            assert!(checked.states > 0 && checked.changes > 0, "{checked:?}");
        }
        assert_eq!(
            power.checked.len() + SUBJECTS.iter().filter(|subject| known(subject.name)).count(),
            SUBJECTS.len()
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
