//! A finding as every report shows it, whatever the program stores to.
//!
//! [`finding::Finding`](crate::finding::Finding) tells of files and
//! [`memory::Finding`](crate::memory::Finding) of memory. Each [tells](Tell) itself as an [`Entry`]: a class
//! with its remedy, the lost and the kept operation, a name of the state for replay. The
//! [formats](crate::formats) know entries alone. Classes of both belong to [kinds](Kind), the faults that
//! files and memory have in common.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::finding::{Class, Finding};

/// Faults that programs over files and programs over memory have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Something relied upon is not made durable: no sync, no flush, no fence.
    NotDurable,
    /// Two changes may become durable in an order that recovery does not expect.
    Order,
    /// A crash between two changes, or in the middle of one, finds recovery unprepared.
    Torn,
    /// Recovery takes something older for something new.
    Stale,
    /// An acknowledgement comes before the operations that make its transaction durable.
    AcknowledgedEarly,
    /// A crash in recovery, or before anything was acknowledged, leaves a state that cannot be recovered.
    Recovery,
    /// The program goes on after a call that has failed.
    Error,
    /// The program or its recovery is wrong without a crash.
    Program,
    /// A state that could not be checked.
    Unchecked,
    /// Costs time and loses nothing.
    Cost,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotDurable => "not made durable",
            Self::Order => "order",
            Self::Torn => "torn",
            Self::Stale => "stale content",
            Self::AcknowledgedEarly => "acknowledged too early",
            Self::Recovery => "not recoverable again",
            Self::Error => "error not heeded",
            Self::Program => "wrong without a crash",
            Self::Unchecked => "not checked",
            Self::Cost => "costs time only",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A class of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: &'static str,
    /// The remedy, in a sentence.
    pub remedy: &'static str,
}

impl Term {
    /// Its name as one word, by which CI systems group findings.
    #[must_use]
    pub fn id(&self) -> String {
        self.name.replace(' ', "-")
    }
}

/// A line of source code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// The file.
    pub file: String,
    /// The line, from 1 on.
    pub line: u32,
}

/// A finding as reports show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The class.
    pub class: Term,
    /// The answer of the check or of the oracle.
    pub wrong: String,
    /// The operation that it is about: the first lost one.
    pub subject: String,
    /// The place of `subject` in the source, if it is known.
    pub source: Option<Source>,
    /// Everything lost.
    pub lost: Vec<String>,
    /// Later operations, kept or acknowledged.
    pub kept: Vec<String>,
    /// Further facts, each with its name.
    pub facts: Vec<(&'static str, String)>,
    /// The name of the state, by which it is checked again; empty if there is none.
    pub state: String,
    /// The command or call that checks the state again.
    pub replay: Option<String>,
}

/// A finding that reports can show.
pub trait Tell {
    /// The finding as an entry.
    fn entry(&self) -> Entry;
}

impl Tell for Entry {
    fn entry(&self) -> Entry {
        self.clone()
    }
}

impl<T: Tell> Tell for &T {
    fn entry(&self) -> Entry {
        (**self).entry()
    }
}

/// Lines of one name that a terminal shows.
const SHOWN: usize = 5;

impl Entry {
    /// Whether something may be lost, or the check cannot say that nothing is.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.class.kind != Kind::Cost
    }

    /// All facts in order: lost, kept, and the others.
    pub fn lines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let lost = self.lost.iter().map(|text| ("lost", text.as_str()));
        let kept = self.kept.iter().map(|text| ("kept", text.as_str()));
        lost.chain(kept).chain(self.facts.iter().map(|(name, text)| (*name, text.as_str())))
    }

    /// The entry as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("class".to_owned(), json!(self.class.name));
        object.insert("kind".to_owned(), json!(self.class.kind.name()));
        object.insert("wrong".to_owned(), json!(self.wrong));
        object.insert("lost".to_owned(), json!(self.subject));
        object.insert("lost_units".to_owned(), json!(self.lost));
        object.insert("kept".to_owned(), json!(self.kept.first()));
        object.insert("kept_units".to_owned(), json!(self.kept));
        object.insert("remedy".to_owned(), json!(self.class.remedy));
        object.insert("state".to_owned(), json!(self.state));
        object.insert("replay".to_owned(), json!(self.replay));
        if let Some(Source { file, line }) = &self.source {
            object.insert("source".to_owned(), json!({"file": file, "line": line}));
        }
        let facts: Vec<Value> =
            self.facts.iter().map(|(name, text)| json!({"name": name, "text": text})).collect();
        object.insert("facts".to_owned(), json!(facts));
        Value::Object(object)
    }
}

/// The entry for a terminal.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.class.name, self.wrong)?;
        if !self.lost.iter().any(|text| text.contains(&self.subject)) {
            writeln!(f, "  {:<12}{}", "at", self.subject)?;
        }
        for (name, all) in [("lost", &self.lost), ("kept", &self.kept)] {
            for text in all.iter().take(SHOWN) {
                writeln!(f, "  {name:<12}{text}")?;
            }
            if let more @ 1.. = all.len().saturating_sub(SHOWN) {
                writeln!(f, "  {:<12}and {more} more", "")?;
            }
        }
        for (name, text) in &self.facts {
            writeln!(f, "  {name:<12}{text}")?;
        }
        write!(f, "  {:<12}{}", "remedy", self.class.remedy)?;
        if !self.state.is_empty() {
            write!(f, "\n  {:<12}{}", "state", self.state)?;
        }
        if let Some(replay) = &self.replay {
            write!(f, "\n  {:<12}{replay}", "replay")?;
        }
        Ok(())
    }
}

impl Class {
    /// The class in the words that files and memory share.
    #[must_use]
    pub fn term(self) -> Term {
        let kind = match self {
            Self::FileNotSynced | Self::DirectoryNotSynced => Kind::NotDurable,
            Self::RenameBeforeSync | Self::MarkWithData => Kind::Order,
            Self::SizeWithoutContent | Self::HalfApplied => Kind::Torn,
            Self::AcknowledgedTooEarly => Kind::AcknowledgedEarly,
            Self::RecoveryNotRepeatable | Self::CreationNotRestartable => Kind::Recovery,
            Self::ErrorNotHeeded => Kind::Error,
        };
        Term { kind, name: self.name(), remedy: self.remedy() }
    }
}

impl Tell for Finding {
    fn entry(&self) -> Entry {
        let mut facts = vec![("allowed by", self.models.join(", "))];
        for (name, fact) in [("failing", &self.fault), ("recovering", &self.first_crash)] {
            facts.extend(fact.clone().map(|fact| (name, fact)));
        }
        if self.count > 1 {
            facts.push(("like it", format!("{} failing states of this kind", self.count)));
        }
        facts.push(("begun", format!("{}, acknowledged {}", self.issued, self.acked)));
        let calls = [("lost by", Some(&self.lost)), ("kept by", self.kept.as_ref())];
        let stacks = calls.into_iter().filter_map(|(name, call)| Some((name, &call?.place)));
        facts.extend(
            stacks
                .filter(|(_, stack)| !stack.is_empty())
                .map(|(name, stack)| (name, stack.clone())),
        );
        Entry {
            class: self.class.term(),
            wrong: self.wrong.clone(),
            subject: self.lost.text.clone(),
            source: None,
            lost: self.lost_units.clone(),
            kept: self.kept.iter().map(|call| call.text.clone()).collect(),
            facts,
            state: self.state.clone(),
            replay: None,
        }
    }
}
