//! One case: a damaged pool is checked, opened, used, repaired and used again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use outlast::PoolError;
use outlast::inspect::CheckReport;
use outlast::recover::UnrecoveredPool;

use super::bases::{Area, Base, options, run};
use super::content::State;
use super::draw::Draw;
use super::inflict::{Damage, Kind, inflict};
use super::{Broken, Exempt, Tally, Wrong};
use crate::{Live, bytes_of, live};

/// Transactions that run on what is opened.
const MORE: u64 = 6;

/// What is thought of a pool, the mildest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Sound,
    Repaired,
    Left,
    Refused,
}

pub(super) fn damaged(base: &Base, damages: &[Damage]) -> Vec<u8> {
    let mut image = base.image.clone();
    damages.iter().for_each(|damage| inflict(&mut image, damage));
    image
}

pub(super) fn describe(base: &Base, damages: &[Damage]) -> String {
    let damages: Vec<String> = damages.iter().map(ToString::to_string).collect();
    format!("{}: {}", base.name, damages.join("; "))
}

/// Judges a case.
pub(super) fn case(index: u64, base: &Base, damages: &[Damage]) -> Tally {
    let mut tally = Tally { pools: 1, ..Tally::default() };
    let mut case = Case { base, damages, tally: &mut tally, index };
    let judged = catch_unwind(AssertUnwindSafe(|| case.judge()));
    if let Err(payload) = judged {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        case.broke(Wrong::Panicked, text);
    }
    tally
}

struct Case<'a> {
    base: &'a Base,
    damages: &'a [Damage],
    tally: &'a mut Tally,
    index: u64,
}

impl Case<'_> {
    fn judge(&mut self) {
        let image = damaged(self.base, self.damages);
        let checked = check(&image);
        match &checked {
            Ok(report) if report.findings.is_empty() => self.judge_sound(&image),
            Ok(_) => {
                self.tally.found += 1;
                // No result is promised, but the use must not panic.
                let _ = self.use_pool(live(&image));
            }
            Err(_) => {
                self.tally.refused += 1;
                let _ = self.use_pool(live(&image));
            }
        }
        if !self.base.checksums {
            return;
        }
        let verdict = match checked {
            Ok(report) if report.findings.is_empty() => Verdict::Sound,
            _ => self.judge_repair(&image),
        };
        if let Some((_, before)) = self.damages.split_last()
            && self.index.is_multiple_of(3)
        {
            self.compare_with_less(before, verdict);
        }
    }

    /// F2.
    fn judge_sound(&mut self, image: &[u8]) {
        match self.use_pool(live(image)) {
            Ok(()) => self.tally.sound += 1,
            Err(_) if !self.base.checksums => self.tally.unchecked += 1,
            Err(odd) => self.broke_unless_exempt(&odd),
        }
    }

    /// F3.
    fn judge_repair(&mut self, image: &[u8]) -> Verdict {
        let (verdict, medium) = repair(image);
        let Some(medium) = medium else { return verdict };
        if verdict != Verdict::Repaired {
            let _ = self.use_pool(medium);
            return verdict;
        }
        let report = check(&bytes_of(&medium));
        let finding = match &report {
            Ok(report) => report.findings.first().map(ToString::to_string),
            Err(error) => Some(error.to_string()),
        };
        if let Some(finding) = finding {
            let what = format!("repair left nothing, and check finds: {finding}");
            self.broke(Wrong::Overstated, &what);
            return verdict;
        }
        match self.use_pool(medium) {
            Ok(()) => self.tally.repaired += 1,
            Err(mut odd) => {
                if odd.wrong != Wrong::Later {
                    odd.wrong = Wrong::Overstated;
                }
                self.broke_unless_exempt(&odd);
            }
        }
        verdict
    }

    /// F4.
    fn compare_with_less(&mut self, before: &[Damage], verdict: Verdict) {
        let lines = |damage: &Damage| -> Vec<u64> {
            let lines = damage.writes.iter().flat_map(|(at, bytes)| {
                let end = at + bytes.len() as u64;
                (at / 64..end.div_ceil(64)).collect::<Vec<_>>()
            });
            lines.collect()
        };
        let Some(last) = self.damages.last().map(lines) else { return };
        if before.iter().flat_map(lines).any(|line| last.contains(&line)) {
            return;
        }
        let image = damaged(self.base, before);
        let less = match check(&image) {
            Ok(report) if report.findings.is_empty() => Verdict::Sound,
            _ => repair(&image).0,
        };
        // How a pool is given up makes no difference.
        if verdict < less.min(Verdict::Left) {
            let what = format!("{verdict:?}, and without the last damage {less:?}");
            // Without a record, what contradicts it may be sound; F2 and F3 have judged that.
            self.broke_unless_exempt(&Odd { wrong: Wrong::Milder, what, is_earlier: true });
        }
    }

    /// Opens the pool, compares what it holds, and runs some transactions.
    fn use_pool(&self, medium: Live<'_>) -> Result<(), Odd> {
        let silent = |what: String| Odd { wrong: Wrong::Silent, what, is_earlier: false };
        let scheme = self.base.scheme;
        let pool = UnrecoveredPool::open(medium)
            .and_then(|pool| pool.recover())
            .and_then(|pool| pool.start(&options(scheme)))
            .map_err(|error| silent(format!("opening: {error}")))?;
        let (content, right) = (self.base.content, &self.base.right);
        let read = content.read(&pool, &right[0]);
        let holds = |state: &&State| match content.is_followed() {
            true => read.as_ref().is_ok_and(|read| read == *state),
            false => content.read(&pool, state).is_ok_and(|read| read == **state),
        };
        let held = right.iter().find(holds);
        let is_earlier = held.is_none()
            && read.as_ref().is_ok_and(|read| is_of_before(read, right, &self.base.before));
        let result = match (&read, held) {
            (_, Some(_)) => Ok(()),
            (Ok(read), None) => Err(Odd { is_earlier, ..silent(difference(read, right)) }),
            (Err(abort), None) => Err(silent(format!("reading: {abort}"))),
        };
        let mut states = vec![held.or(read.as_ref().ok()).unwrap_or(&right[0]).clone()];
        run(&pool, content, &mut states, MORE, &mut Draw::of(self.index, 77), |_, _| ());
        let known = states.last().expect("a state");
        let read = content.read(&pool, known);
        let report = check(&bytes_of(&pool.close()));
        result?;
        let later = |what: String| Odd { wrong: Wrong::Later, what, is_earlier: false };
        match read {
            Ok(read) if read == *known => {}
            Ok(read) => return Err(later(difference(&read, std::slice::from_ref(known)))),
            Err(abort) => return Err(later(format!("reading: {abort}"))),
        }
        match report {
            Ok(report) => match report.findings.first() {
                Some(finding) => Err(later(format!("check finds: {finding}"))),
                None => Ok(()),
            },
            Err(error) => Err(later(format!("check: {error}"))),
        }
    }

    /// Exempt is what would not be without the damage that nothing in the pool can tell: what is
    /// wrong without it, too, is judged as if it were not there.
    fn broke_unless_exempt(&mut self, odd: &Odd) {
        let is_exempt = |damage: &&Damage| exempt(self.base, damage, odd.is_earlier).is_some();
        let Some(kind) = self.damages.iter().find_map(|d| exempt(self.base, d, odd.is_earlier))
        else {
            return self.broke(odd.wrong, &odd.what);
        };
        let others: Vec<Damage> =
            self.damages.iter().filter(|damage| !is_exempt(damage)).cloned().collect();
        let first = self.broken(odd.wrong, &odd.what);
        self.tally.exempted(kind, 1, first);
        if !others.is_empty() {
            let of_others = case(self.index, self.base, &others);
            self.tally.broken.extend(of_others.broken);
        }
    }

    fn broke(&mut self, wrong: Wrong, what: &str) {
        let broken = self.broken(wrong, what);
        self.tally.broken.push(broken);
    }

    fn broken(&self, wrong: Wrong, what: &str) -> Broken {
        let detail = format!("{}: {what}", describe(self.base, self.damages));
        Broken { index: self.index, wrong, detail }
    }
}

/// What is wrong with a pool that nothing was found wrong with.
struct Odd {
    wrong: Wrong,
    what: String,
    /// It holds what it held some transactions ago.
    is_earlier: bool,
}

/// Whether what is wrong is as it was some transactions ago: keys, or parts of values, which transactions
/// of several lanes may have changed.
fn is_of_before(read: &State, right: &[State], before: &[State]) -> bool {
    right.iter().any(|right| {
        let mut keys =
            right.keys().chain(read.keys()).filter(|key| read.get(*key) != right.get(*key));
        keys.all(|key| {
            let values = || before.iter().map(|state| state.get(key));
            values().any(|value| value == read.get(key))
                || read.get(key).is_some_and(|read| is_mixed(read, right.get(key), values()))
        })
    })
}

/// Whether each byte of a value is that of the right one, or of one before, all of its length.
fn is_mixed<'a>(
    read: &[u8],
    right: Option<&'a Vec<u8>>,
    before: impl Iterator<Item = Option<&'a Vec<u8>>>,
) -> bool {
    let values = right.into_iter().chain(before.flatten());
    let values: Vec<_> = values.filter(|value| value.len() == read.len()).collect();
    (0..read.len()).all(|nth| values.iter().any(|value| value[nth] == read[nth]))
}

/// Words outside all matrices, which only their seals prove.
const SEALED: [Area; 6] =
    [Area::Header, Area::Floor, Area::Root, Area::Size, Area::LaneHeader, Area::Directory];

/// What makes a damage exempt from F2 to F4.
fn exempt(base: &Base, damage: &Damage, is_earlier: bool) -> Option<Exempt> {
    let lines = || {
        let writes = damage.writes.iter();
        writes.flat_map(|(at, bytes)| (at / 64 * 64..at + bytes.len() as u64).step_by(64))
    };
    let hits = |areas: &[Area]| {
        lines().any(|line| base.area_of(line).is_some_and(|area| areas.contains(&area)))
    };
    match damage.kind {
        Kind::StalePage => Some(Exempt::StalePage),
        Kind::StaleLine if hits(&[Area::Directory]) && !base.content.is_followed() => {
            Some(Exempt::StaleDirectory)
        }
        // Where a word stands alone in its line, a CRC-8 of the line that fits is one of the word.
        Kind::Resealed | Kind::Colliding if hits(&SEALED) => Some(Exempt::Resealed),
        _ if is_earlier && lines().any(|line| base.is_log(line)) => Some(Exempt::UnwrittenLog),
        _ => None,
    }
}

/// As `outlast pool check`: the file is not touched, a live log is recovered on a copy.
pub(super) fn check(image: &[u8]) -> Result<CheckReport, PoolError> {
    let pool = UnrecoveredPool::open(live(image))?;
    match pool.info()?.live_records.unwrap_or_default() {
        0 => Ok(pool.read_only()?.check()),
        _ => Ok(pool.recover()?.check()),
    }
}

/// As `outlast pool repair`, with the medium where there is a pool in it.
fn repair(image: &[u8]) -> (Verdict, Option<Live<'static>>) {
    let recovered = UnrecoveredPool::open(live(image)).and_then(|p| p.recover());
    let Ok(pool) = recovered else { return (Verdict::Refused, None) };
    match pool.repair() {
        Ok(report) if report.left.is_empty() => (Verdict::Repaired, Some(pool.into_medium())),
        _ => (Verdict::Left, Some(pool.into_medium())),
    }
}

/// The first few keys in which a state differs from the one that it is nearest to.
fn difference(read: &State, right: &[State]) -> String {
    let differing = |right: &State| -> Vec<String> {
        let keys = right.keys().chain(read.keys().filter(|key| !right.contains_key(*key)));
        let differ = keys.filter(|key| read.get(*key) != right.get(*key));
        differ.map(|key| String::from_utf8_lossy(key).escape_debug().to_string()).collect()
    };
    let nearest = right.iter().map(differing).min_by_key(Vec::len).unwrap_or_default();
    let all = right.first().map_or(0, State::len);
    let shown = nearest.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    format!("{} of {all} are wrong: {shown}", nearest.len())
}
