//! Findings of memory in the form of every report: JUnit, SARIF, JSON, the terminal.

use super::finding::{Acknowledged, Class, Finding, Held};
use super::report::Report;
use crate::entry::{Entry, Kind, Source, Tell, Term};
use crate::formats;

impl Class {
    /// The name.
    pub fn name(self) -> &'static str {
        self.term().name
    }

    /// The remedy, in a sentence.
    pub fn remedy(self) -> &'static str {
        self.term().remedy
    }

    /// The class in the words that files and memory share.
    pub fn term(self) -> Term {
        let (kind, name, remedy) = match self {
            Self::MissingFlush => {
                (Kind::NotDurable, "missing flush", "flush the line before it is relied on")
            }
            Self::MissingFence => {
                (Kind::NotDurable, "missing fence", "fence between the flush and what relies on it")
            }
            Self::Order => {
                (Kind::Order, "order", "flush and fence in the order that recovery assumes")
            }
            Self::Atomicity => (
                Kind::Torn,
                "atomicity",
                "recovery must expect a crash between the two stores: log them, or publish both by one word",
            ),
            Self::Tearing => {
                (Kind::Torn, "tearing", "store one aligned word, or give the record a checksum")
            }
            Self::StaleRecord => {
                (Kind::Stale, "stale record", "give the record a number or a checksum")
            }
            Self::AcknowledgedEarly => (
                Kind::AcknowledgedEarly,
                "acknowledged too early",
                "acknowledge only behind the fence",
            ),
            Self::Panic => {
                (Kind::Program, "panic", "return an error that names the damage instead")
            }
            Self::Endless => (Kind::Program, "endless", "bound the loop by the size of the medium"),
            Self::NotDeterministic => (
                Kind::Program,
                "not deterministic",
                "recovery must depend on the image alone, the program on its schedule",
            ),
            Self::TooWide => (
                Kind::Unchecked,
                "too many images",
                "raise `images_max`, declare the checksum by `Medium::verify`, or check a smaller program",
            ),
            Self::NotDecided => {
                (Kind::Unchecked, "not decided", "raise `images_max`, or check a smaller program")
            }
            Self::RedundantFlush => (Kind::Cost, "redundant flush", "leave the flush out"),
            Self::NeedlessFence => (Kind::Cost, "needless fence", "leave the fence out"),
            Self::NeverRead => (
                Kind::Cost,
                "persisted and never read",
                "leave the flush out, or have the oracle read the line",
            ),
        };
        Term { kind, name, remedy }
    }
}

/// The class of a failure that takes a crash of the program and one of its recovery.
fn recovery_not_repeatable() -> Term {
    let remedy = "flush and fence what recovery repairs before it removes what it repairs from, so that it can run again";
    Term { remedy, ..crate::finding::Class::RecoveryNotRepeatable.term() }
}

impl Finding {
    /// The class in the words that files and memory share. A fault that takes a crash of recovery is one of
    /// recovery, as with files.
    pub fn term(&self) -> Term {
        let term = self.class.term();
        match (self.class, term.kind) {
            (Class::Atomicity, _) if self.place.level > 1 => recovery_not_repeatable(),
            (_, Kind::Program | Kind::Unchecked | Kind::Cost) => term,
            _ if self.place.level > 1 => Term { kind: Kind::Recovery, ..term },
            _ => term,
        }
    }
}

impl Tell for Finding {
    fn entry(&self) -> Entry {
        let acknowledged = |Acknowledged { tx, place }: &Acknowledged| {
            format!("transaction {}, acknowledged by {place}", tx.0)
        };
        let held =
            |old: bool| self.lines.iter().filter(move |line| (line.held == Held::Old) == old);
        let lines = held(true).map(|line| format!("{} after {}", line.held, line.stored));
        let lost = self.lost.iter().map(acknowledged).chain(lines).collect();
        let kept = held(false).map(|line| format!("{} after {}", line.held, line.stored)).collect();
        let callers = self.callers.iter().map(|caller| ("called at", caller.to_string()));
        let also = self.also.iter().map(|place| ("see", place.to_string()));
        let state = self.reproduction.as_ref().map_or_else(String::new, ToString::to_string);
        let source = self.place.site.map(|site| Source {
            file: site.location.file().to_owned(),
            line: site.location.line(),
        });
        Entry {
            class: self.term(),
            wrong: match &self.violation {
                Some(violation) => violation.to_string(),
                None => "nothing is lost".to_owned(),
            },
            subject: self.place.to_string(),
            source,
            lost,
            kept,
            facts: callers.chain(also).collect(),
            replay: self.reproduction.as_ref().map(|_| {
                format!("check.reproduce(&\"{state}\".parse()?, program, recover, oracle)")
            }),
            state,
        }
    }
}

impl Report {
    /// The findings as a test suite in JUnit's format, of the program with this name.
    pub fn junit(&self, program: &str) -> String {
        formats::junit(program, &self.findings, self.elapsed.as_secs_f64())
    }

    /// The findings as a SARIF log.
    pub fn sarif(&self) -> String {
        format!("{:#}\n", formats::sarif(&self.findings))
    }

    /// Everything as a JSON document.
    pub fn json(&self) -> String {
        let findings: Vec<_> = self.findings.iter().map(|finding| finding.entry().json()).collect();
        let document = serde_json::json!({
            "outlast": env!("CARGO_PKG_VERSION"),
            "schedules": self.schedules,
            "images_verified": self.images_verified,
            "complete": self.complete,
            "coverage": self.coverage.to_string(),
            "findings": findings,
        });
        format!("{document:#}\n")
    }
}
