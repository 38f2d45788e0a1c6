//! The verdicts on the paper's claims: which measurement stands for which claim.
//!
//! Means over programs are geometric ones of their times over `ideal`. The paper does not say which it
//! takes.

use outlast_measure::middle;

use super::measured::{Counts, Row, Set};
use super::views::{mean, prior_means, reduction, row, slowdown, slowdowns, varied_works, works};
use super::works::{Origin, Works};
use super::{CARD, CLAIMS, Findings, IDEAL, PICL, PRIOR, Task, area, machine, views};
use crate::papers::claim::{self, Found, Row as Claimed, Rule};
use crate::record::Record;

/// One record for each claim about the requested parts.
pub(super) fn judge(task: &Task, there: &Works, findings: &Findings) -> Vec<Record> {
    let parts: Vec<String> = task.parts.iter().map(|part| part.claims_name()).collect();
    let missing = there.missing.as_ref().map_or(String::new(), |missing| format!("; {missing}"));
    let why = format!("this run did not measure it{missing}");
    claim::judged(CARD.id, &CLAIMS, &parts, |claim| {
        if claim.name().starts_with("table3.") || claim.name().starts_with("proto.") {
            return area::judgement(claim.name(), &findings.area);
        }
        let find = |figure: &Figure, rule| {
            let readings = findings.assumed.iter().map(|(name, other)| (*name, figure(other)));
            let words = "under other readings, on some programs";
            Some(figure(findings)?.noting(&claim::elsewhere(claim, rule, words, 2, readings)))
        };
        claim::by_row(ROWS, claim, find, || why.clone())
    })
}

/// A figure, if this run has it.
type Figure = fn(&Findings) -> Option<Found>;

const TWO_RANGES: Rule =
    Rule::Contradictory("1.5 to 5.0 for eight cores in the abstract, 1.6 to 2.6 in VI-B");

pub(super) const ROWS: &[Claimed<Figure>] = &[
    ("headline.overhead", Rule::Below, |f| overhead(&f.rows)),
    ("headline.prior.slowdown", TWO_RANGES, |f| prior(&f.rows).map(ranges)),
    ("epoch.reliable", Rule::AtLeast, |f| reliable(&f.by_epoch)),
    ("fig9.prior.max", Rule::AtMost, |f| {
        let works = works(&f.rows, Origin::Program, Set::Taken);
        let of = |scheme| works.iter().map(move |work| (*work, scheme));
        let all = PRIOR.into_iter().flat_map(of).filter_map(|(work, scheme)| {
            Some((slowdown(&f.rows, work, scheme, Set::Taken)?, work, scheme))
        });
        let (value, work, scheme) = all.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let means = told(&prior_means(&f.rows, Origin::Program, Set::Taken));
        Some(Found::of(value).noting(&format!("{work} under {scheme}; means {means}")))
    }),
    ("fig9.sphinx3", Rule::Within, |f| {
        Some(Found::of(percent(slowdown(&f.rows, "sphinx3", PICL, Set::Taken)?)))
    }),
    ("fig10.prior", Rule::Within, |f| prior(&f.rows)),
    ("fig11.journaling", Rule::Within, |f| {
        Found::largest(&of_programs(f, |work| {
            let picl = commits(f, work, PICL).filter(|commits| *commits > 0.0)?;
            Some(commits(f, work, "journaling")? / picl)
        }))
    }),
    ("order.astar", Rule::Holds, |f| {
        let of = |scheme| commits(f, "astar", scheme);
        let (journaling, shadow, picl) = (of("journaling")?, of("shadow")?, of(PICL)?);
        let note =
            format!("commits: journaling {journaling:.1}, shadow {shadow:.1}, {PICL} {picl:.1}");
        Some(Found::of(journaling.min(shadow) - picl).noting(&note))
    }),
    ("fig12.extra_iops", Rule::Within, |f| extra_operations(f)),
    ("order.random_iops.frm", Rule::Holds, |f| {
        let random = |scheme: &str| {
            let of = |work: &'static str| {
                let ideal = row(&f.rows, work, IDEAL, Set::Taken)?.operations().write_back;
                let own = row(&f.rows, work, scheme, Set::Taken)?;
                views::over_write_backs(&f.rows, own)?;
                Some(own.operations().random / ideal)
            };
            Found::mean(&of_programs(f, of)).map(|found| found.value)
        };
        let frm = random("frm")?;
        let others = ["journaling", "shadow", PICL].map(|name| (name, random(name).unwrap_or(0.0)));
        let most = others.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        Some(Found::of(frm - most).noting(&format!("frm {frm:.2}, {}", told(&others))))
    }),
    ("undo.rlm.reads", Rule::AtMost, |f| undo(f, |counts| counts.reads("old lines"))),
    ("undo.rlm.writes", Rule::AtMost, |f| {
        undo(f, |counts| {
            let written = ["evicted", "epoch flush", "flushed", "streamed"];
            counts.counter("undo_entries").unwrap_or(0)
                + written.iter().map(|cause| counts.writes(cause)).sum::<u64>()
        })
    }),
    ("fig13.log_size", Rule::Below, |f| {
        let mut all = logs(f);
        let below = all.iter().filter(|megabytes| **megabytes < 50.0).count();
        let note = format!("the median; {below} of {} below 50 MB", all.len());
        middle(&mut all, |megabytes| *megabytes).map(|median| Found::of(*median).noting(&note))
    }),
    ("fig13.log_size.heavy", Rule::AtMost, |f| Found::largest(&logs(f))),
    ("fig14.shadow", Rule::Within, |f| effective(f, "shadow")),
    ("fig14.journaling", Rule::Below, |f| effective(f, "journaling")),
    ("fig14.picl_log", Rule::AtMost, |f| {
        let gigabytes = long_epochs(f, PICL, |row| row.log_mb(f.divisor) / 1e3);
        let note = "one epoch of 500 M instructions; with a gap of 3 up to five are kept";
        Found::largest(&gigabytes).map(|found| found.noting(note))
    }),
    ("fig15.overhead", Rule::Similar(1.0), |f| {
        let of = |size: &f64| swept(&f.rows, PICL, Set::Llc(*size));
        let mut all: Vec<f64> = machine::LLCS.iter().filter_map(of).collect();
        if !all.is_empty() {
            all.extend(swept_taken(&f.rows, PICL, Set::Llc(machine::LLCS[0])));
        }
        Found::largest(&all.into_iter().map(percent).collect::<Vec<f64>>())
    }),
    ("order.cache_size.thynvm", Rule::Holds, |f| {
        let (first, last) = (machine::LLCS[0], machine::LLCS[machine::LLCS.len() - 1]);
        let growth = |scheme: &str| {
            let of = |size| swept(&f.rows, scheme, Set::Llc(size));
            Some(of(last)? - of(first)?)
        };
        let own = growth("thynvm")?;
        let others: Vec<f64> =
            ["journaling", "shadow", "frm"].into_iter().filter_map(growth).collect();
        let most = others.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let note = format!("thynvm {own:+.2} from {first} to {last} MB, others {others:+.2?}");
        Some(Found::of(own - most).noting(&note))
    }),
    ("fig16.prior_at_128", Rule::Near(0.2), |f| {
        let of = |scheme: &str| swept(&f.rows, scheme, Set::Write(128.0)).map(percent);
        Found::mean(&PRIOR.into_iter().filter_map(of).collect::<Vec<f64>>())
    }),
    ("order.write_latency", Rule::Zero, |f| {
        let worse = |scheme: &str| {
            let of = |latency| swept(&f.rows, scheme, Set::Write(latency));
            let all = machine::WRITES.into_iter().map(of).collect::<Option<Vec<f64>>>()?;
            Some(all.windows(2).filter(|two| two[1] < two[0]).count())
        };
        let all: Vec<usize> = PRIOR.into_iter().filter_map(worse).collect();
        (!all.is_empty()).then(|| Found::of(all.iter().sum::<usize>() as f64))
    }),
    ("fig17.min_bw", Rule::AtMost, |f| bandwidth(&f.rows)),
    ("fig18.gap1", Rule::Near(0.1), |f| Found::mean(&reduction_of(&f.rows, 1))),
    ("fig18.gap8", Rule::Near(0.1), |f| Found::mean(&reduction_of(&f.rows, 8))),
];

fn percent(slowdown: f64) -> f64 {
    100.0 * (slowdown - 1.0)
}

/// Values with their names, in one line.
fn told(values: &[(&str, f64)]) -> String {
    let each: Vec<String> =
        values.iter().map(|(name, value)| format!("{name} {value:.2}")).collect();
    each.join(", ")
}

/// A value of each program that has it.
fn of_programs(findings: &Findings, of: impl FnMut(&'static str) -> Option<f64>) -> Vec<f64> {
    works(&findings.rows, Origin::Program, Set::Taken).into_iter().filter_map(of).collect()
}

fn commits(findings: &Findings, work: &str, scheme: &str) -> Option<f64> {
    Some(row(&findings.rows, work, scheme, Set::Taken)?.commits(findings.divisor))
}

/// A value of each program under a scheme whose epochs are to be long.
fn long_epochs(findings: &Findings, scheme: &str, of: impl Fn(&Row) -> f64) -> Vec<f64> {
    let works = works(&findings.rows, Origin::Program, Set::Long);
    let rows = works.iter().filter_map(|work| row(&findings.rows, work, scheme, Set::Long));
    rows.map(of).collect()
}

fn reduction_of(rows: &[Row], gap: u64) -> Vec<f64> {
    if works(rows, Origin::Program, Set::Gap(0)).is_empty() {
        return Vec::new();
    }
    reduction(rows, gap)
}

/// PiCL's mean overhead, per cent: of single programs, or of mixes where that is more.
fn overhead(rows: &[Row]) -> Option<Found> {
    let of = |origin| slowdowns(rows, origin, PICL, Set::Taken);
    let (single, mixed) = (of(Origin::Program), of(Origin::Mix));
    let all = [mean(&single), mean(&mixed)].map(|mean| mean.map(percent));
    let value = all.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let under_one = single.iter().filter(|slowdown| percent(**slowdown) < 1.0).count();
    let of_mixes = all[1].map_or(String::new(), |mean| format!(", mean of mixes {mean:.2} %"));
    let note = format!(
        "mean of single programs {:.2} %, {under_one} of {} below 1 %{of_mixes}",
        all[0]?,
        single.len()
    );
    Some(Found::of(value).noting(&note))
}

/// Slowdowns of the others on mixes: each scheme's mean.
fn prior(rows: &[Row]) -> Option<Found> {
    let means = prior_means(rows, Origin::Mix, Set::Taken);
    let values: Vec<f64> = means.iter().map(|mean| mean.1).collect();
    Found::mean(&values).map(|found| found.noting(&told(&means)))
}

/// Which of the paper's two ranges is met.
fn ranges(found: Found) -> Found {
    let (low, high) = found.span.unwrap_or((found.value, found.value));
    let met = |from: f64, to: f64| if low >= from && high <= to { "met" } else { "not met" };
    let note = format!("1.5 to 5.0 is {}, 1.6 to 2.6 is {}", met(1.5, 5.0), met(1.6, 2.6));
    found.noting(&note)
}

/// The longest epoch, in milliseconds, that costs no more than the shortest does.
fn reliable(by_epoch: &[(f64, f64)]) -> Option<Found> {
    let first = by_epoch.first()?.1;
    let good = by_epoch.iter().filter(|(_, percent)| *percent <= first + 0.5);
    let each: Vec<String> =
        by_epoch.iter().map(|(ms, percent)| format!("{ms:.0} ms {percent:.2} %")).collect();
    let value = good.map(|(ms, _)| *ms).fold(0.0, f64::max);
    Some(Found::of(value).noting(&format!("overhead by an epoch's length: {}", each.join(", "))))
}

/// Operations beyond the write-backs of `ideal`, over these: of each program the scheme with most.
fn extra_operations(findings: &Findings) -> Option<Found> {
    let schemes = ["journaling", "shadow", "frm"];
    let rows = &findings.rows;
    let extra = |work: &'static str, scheme: &str| {
        Some(views::over_write_backs(rows, row(rows, work, scheme, Set::Taken)?)? - 1.0)
    };
    let most =
        |work| schemes.iter().filter_map(|scheme| extra(work, scheme)).max_by(f64::total_cmp);
    let mean = |scheme| {
        let found = Found::mean(&of_programs(findings, |work| extra(work, scheme)))?;
        Some((scheme, found.value))
    };
    let means: Vec<_> = schemes.into_iter().chain([PICL]).filter_map(mean).collect();
    let note = format!("the mean over programs of the scheme with most; means {}", told(&means));
    Found::mean(&of_programs(findings, most)).map(|found| found.noting(&note))
}

/// Of `frm`, something for each line that leaves the caches: the largest of all programs.
fn undo(findings: &Findings, of: impl Fn(&Counts) -> u64) -> Option<Found> {
    let each = of_programs(findings, |work| {
        let counts = &row(&findings.rows, work, "frm", Set::Taken)?.counts;
        let entries = counts.counter("undo_entries").filter(|entries| *entries > 1000)?;
        // An entry's read may lie before the window and its write in it.
        Some((of(counts) as f64 / entries as f64 * 100.0).round() / 100.0)
    });
    let note = "what is under way at either end of a run counts on one side; rounded to hundredths";
    Found::largest(&each).map(|found| found.noting(note))
}

/// Megabytes of the log of eight epochs, program by program.
fn logs(findings: &Findings) -> Vec<f64> {
    of_programs(findings, |work| {
        let row = row(&findings.rows, work, PICL, Set::Taken)?;
        Some(row.log_mb(findings.divisor) * findings.of_eight_epochs())
    })
}

/// Instructions of epochs that are to be long, of the programs whose epochs end early.
fn effective(findings: &Findings, scheme: &str) -> Option<Found> {
    let all = long_epochs(findings, scheme, |row| row.effective_epoch(findings.divisor));
    let early: Vec<f64> =
        all.iter().copied().filter(|length| *length < super::LONG_EPOCH as f64).collect();
    let note = format!("of the {} programs of {} whose epochs end early", early.len(), all.len());
    Found::mean(&early).map(|found| found.noting(&note))
}

/// The mean time over `ideal` of the mixes for which something was varied.
fn swept(rows: &[Row], scheme: &str, set: Set) -> Option<f64> {
    let works = works(rows, Origin::Mix, set);
    let all: Vec<f64> = works.iter().filter_map(|work| slowdown(rows, work, scheme, set)).collect();
    mean(&all)
}

/// The same of the same mixes without that.
fn swept_taken(rows: &[Row], scheme: &str, varied: Set) -> Option<f64> {
    let all: Vec<f64> = varied_works(rows, varied)
        .iter()
        .filter_map(|work| slowdown(rows, work, scheme, Set::Taken))
        .collect();
    mean(&all)
}

/// The smallest bandwidth at which PiCL's overhead is that at the usual one, within a hundredth.
fn bandwidth(rows: &[Row]) -> Option<Found> {
    let usual = swept_taken(rows, PICL, Set::Link(machine::LINKS[0]))?;
    let of = |link: &f64| Some((*link, swept(rows, PICL, Set::Link(*link))?));
    let mut all: Vec<(f64, f64)> = machine::LINKS.iter().filter_map(of).collect();
    if all.is_empty() {
        return None;
    }
    all.push((12.8, usual));
    let each: Vec<String> =
        all.iter().map(|(link, time)| format!("{link} GB/s {time:.3}")).collect();
    let enough = all.iter().find(|(_, time)| *time <= usual + 0.01)?.0;
    let note = "the smallest of those that ran; time over ideal with the same link";
    Some(Found::of(enough).noting(note).noting(&each.join(", ")))
}
