//! Planted bugs as the laboratory sees them: by name, by how they show, and by scheme.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering;

use super::{Code, MET, Plant, TABLE};
use crate::io::Site;
use crate::scheme::{Facts, NewBlocks, Scheme};

/// How a planted bug shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// In a crash: the number in the fault model's list of mistakes.
    Mistake(u8),
    /// In no crash, only in what several lanes see of each other.
    Isolation,
    /// As isolation, where lanes have pages to themselves.
    Bias,
    /// In a checkpoint.
    Checkpoint,
    /// After hundreds of laps of a ring, or openings; no scope is so large.
    Laps,
    /// Where commits store to what they have not read; all scopes read.
    Numbers,
    /// Where fences go to a log of their own, in power cuts of the domain `page`.
    Fences,
    /// Where rings grow, in power cuts of the domain `page`.
    Rings,
    /// As numbers, where others back off while one runs alone.
    BackOff,
    /// Not at all: it is unusual and sound, and a checker that flags it is wrong.
    Control,
}

use Shows::{Control, Mistake};

impl Facts {
    /// By redo logging, as published too.
    pub fn is_redo(&self) -> bool {
        self.new_blocks == NewBlocks::BySize
    }

    pub fn by_segment(&self) -> bool {
        self.covers && !self.by_age
    }

    /// Data is flushed at the commit, which is a mark.
    pub fn marks(&self) -> bool {
        self.keeps_announced && !self.by_age
    }
}

/// A row of the table.
pub struct Row {
    pub plant: Plant,
    pub name: &'static str,
    pub shows: Shows,
    pub applies: fn(&Facts) -> bool,
    pub about: &'static str,
}

impl Plant {
    /// The number of a medium that carries this bug, or none.
    pub fn code_of(plant: Option<Self>) -> u16 {
        plant.map_or(Code::None as u16, Self::code)
    }

    /// Every planted bug that crashes show: the named ones, then each site's missing flush and
    /// fence.
    pub fn all() -> impl Iterator<Item = Self> {
        let named = TABLE.iter().filter(|row| matches!(row.shows, Mistake(_)));
        let sites = Site::ALL.iter().flat_map(|site| {
            let fence = site.has_fence().then_some(Self::SkipFence(*site));
            [Self::SkipFlush(*site)].into_iter().chain(fence)
        });
        named.map(|row| row.plant).chain(sites)
    }

    /// Those that show in one way.
    pub fn shown_in(shows: Shows) -> impl Iterator<Item = Self> {
        TABLE.iter().filter(move |row| row.shows == shows).map(|row| row.plant)
    }

    /// Every control: switched on like a bug, and to be flagged by no checker.
    pub fn controls() -> impl Iterator<Item = Self> {
        Self::shown_in(Control)
    }

    /// Its row; `None` for a site's own flush or fence.
    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.plant == self)
    }

    /// Whether a pool that runs with `scheme` executes the code that this breaks. Planted
    /// elsewhere a bug changes nothing.
    pub fn applies_to(self, scheme: Scheme) -> bool {
        let facts = scheme.facts();
        scheme != Scheme::None
            && match self {
                Self::SkipFlush(site) => site.is_flushed_under(facts),
                Self::SkipFence(site) => site.is_fenced_under(facts),
                named => named.row().is_some_and(|row| (row.applies)(facts)),
            }
    }

    /// How often this process has come to code that a planted bug had broken, whichever pool and
    /// whichever bug it was. A run that leaves this as it was has not tried its bug.
    pub fn times_met() -> u64 {
        MET.load(Ordering::Relaxed)
    }

    /// Its effect, in words; of a site's flush or fence, the purpose of that.
    pub fn describe(self) -> String {
        match self {
            Self::SkipFlush(site) => format!("This flush is left out. {}", site.about()),
            Self::SkipFence(site) => format!("This fence is left out. {}", site.about()),
            named => named.row().map_or(String::new(), |row| row.about.to_owned()),
        }
    }

    /// Whether it is unusual and sound.
    pub fn is_control(self) -> bool {
        self.row().is_some_and(|row| row.shows == Control)
    }

    /// Its number in the fault model's list of mistakes; `None` for a site's own flush or fence.
    pub fn number(self) -> Option<u8> {
        match self.row()?.shows {
            Mistake(number) => Some(number),
            _ => None,
        }
    }
}

impl Site {
    /// Whether a scheme flushes here.
    fn is_flushed_under(self, it: &Facts) -> bool {
        match self {
            Self::UndoRecord | Self::UndoFresh | Self::UndoData => {
                it.keeps_announced || it.logs_locks
            }
            Self::UndoMark => it.marks() || it.logs_locks,
            Self::UndoWitnesses | Self::UndoSettled => it.marks(),
            Self::RedoData => it.flushes_installed,
            Self::SegmentData => it.by_segment(),
            Self::AgedOut | Self::Sums | Self::RunSums | Self::FreshAborted => it.by_age,
            Self::RedoFresh => it.is_redo(),
            Self::JournalPages | Self::JournalHeader | Self::JournalData | Self::JournalEnd => {
                it.has_one_writer
            }
            Self::Region => !it.has_one_writer,
            Self::Command => it.keeps_chunks,
            // Streamed: the lane moves its tail itself.
            Self::RecoverTail => it.has_floor && !it.covers,
            Self::RedoRecord | Self::SweepData | Self::Floor | Self::Tail => it.has_floor,
            _ => true,
        }
    }

    /// Whether its fence is of use there.
    fn is_fenced_under(self, it: &Facts) -> bool {
        match self {
            Self::UndoFresh => it.keeps_announced && it.by_age,
            // The commands' fence comes before any lane could use the chunk otherwise.
            Self::ChunkWord => !it.keeps_chunks,
            // A journal's pages are fenced before its header makes them count.
            Self::FirstLap => !it.has_one_writer,
            _ => self.is_flushed_under(it),
        }
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SkipFlush(site) => write!(f, "skip-flush:{site:?}"),
            Self::SkipFence(site) => write!(f, "skip-fence:{site:?}"),
            named => f.write_str(named.row().map_or("", |row| row.name)),
        }
    }
}

/// A name that no planted bug has.
#[derive(Debug, thiserror::Error)]
#[error("no planted bug is called '{0}'; `outlast crash --plant list` names them")]
pub struct UnknownPlant(String);

impl FromStr for Plant {
    type Err = UnknownPlant;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::all()
            .chain(Self::controls())
            .find(|plant| plant.to_string().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownPlant(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_is_found_by_its_name() {
        for plant in Plant::all().chain(Plant::controls()) {
            assert_eq!(plant.to_string().parse::<Plant>().unwrap(), plant);
        }
        assert!("no-such".parse::<Plant>().is_err());
    }

    #[test]
    fn every_planted_bug_has_a_number_of_its_own() {
        let mut taken = std::collections::HashSet::from([Plant::code_of(None)]);
        let all = TABLE.iter().map(|row| row.plant);
        let sites = Site::ALL.iter().flat_map(|s| [Plant::SkipFlush(*s), Plant::SkipFence(*s)]);
        for plant in all.chain(sites) {
            assert!(taken.insert(plant.code()), "{plant}");
        }
    }

    #[test]
    fn every_planted_bug_says_what_it_breaks() {
        let mut said = std::collections::HashSet::new();
        for plant in Plant::all().chain(Plant::controls()) {
            let about = plant.describe();
            assert!(about.len() > 20 && about.ends_with(['.', ')']), "{plant}: {about}");
            assert!(!about.contains("  ") && said.insert(about), "{plant}");
        }
        let flush = Plant::SkipFlush(crate::scheme::Site::UndoData);
        let about =
            "This flush is left out. Undo: data in place, before the record is dead (UNDO-2).";
        assert_eq!(flush.describe(), about);
    }
}
