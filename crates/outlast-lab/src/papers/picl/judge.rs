//! The verdicts on the paper's claims: which measurement stands for which claim.
//!
//! Means over programs are geometric ones of their times over `ideal`. The paper does not say which it
//! takes.

use outlast_measure::middle;

use super::measured::{Row, Set};
use super::views::{mean, prior_means, reduction, row, slowdown, slowdowns, varied_works, works};
use super::works::{Origin, Works};
use super::{CARD, CLAIMS, Findings, IDEAL, PICL, PRIOR, Task, area, machine, views};
use crate::papers::claim::{Claim, Found, Judgement, Rule};
use crate::record::Record;

const NOT_MEASURED: &str = "this run did not measure it";

/// One record for each claim about the requested parts.
pub(super) fn judge(task: &Task, there: &Works, findings: &Findings) -> Vec<Record> {
    let wanted: Vec<String> = task.parts.iter().map(|part| part.claims_name()).collect();
    let claims = CLAIMS.iter().filter(|claim| wanted.iter().any(|part| part == claim.part));
    let why = match &there.missing {
        Some(missing) => format!("{NOT_MEASURED}; {missing}"),
        None => NOT_MEASURED.to_owned(),
    };
    claims.map(|claim| judgement(claim, &why, findings).record(CARD.id, claim)).collect()
}

fn judgement(claim: &Claim, why: &str, findings: &Findings) -> Judgement {
    let id = claim.id.trim_start_matches("picl.");
    if id.starts_with("table3.") || id.starts_with("proto.") {
        return area::judgement(id, &findings.area);
    }
    let (found, rule) = measured(id, findings);
    let found = found.map(|found| found.noting(&elsewhere(claim, findings)));
    match (rule, found) {
        (Asked::Rule(rule), found) => compared(found, rule, why),
        (Asked::Contradictory(text), found) => Judgement::Contradictory(found, text),
    }
}

fn compared(found: Option<Found>, rule: Rule, why: &str) -> Judgement {
    match found {
        Some(found) => Judgement::Compared(found, rule),
        None => Judgement::NotTestable(why.to_owned()),
    }
}

/// What is asked of a value.
#[derive(Clone, Copy)]
enum Asked {
    Rule(Rule),
    Contradictory(&'static str),
}

/// The same value under other readings of what the paper leaves open.
fn elsewhere(claim: &Claim, findings: &Findings) -> String {
    let under = findings.assumed.iter().filter_map(|(name, findings)| {
        let (found, rule) = measured(claim.id.trim_start_matches("picl."), findings);
        let found = found?;
        let met = match rule {
            Asked::Rule(rule) if rule.holds(claim, &found) => ", which meets it",
            _ => "",
        };
        Some(format!("{name} {:.2}{met}", found.value))
    });
    let under: Vec<String> = under.collect();
    if under.is_empty() {
        return String::new();
    }
    format!("under other readings, on some programs: {}", under.join(", "))
}

/// What stands for a claim, if this run has it, and what it has to meet.
fn measured(id: &str, findings: &Findings) -> (Option<Found>, Asked) {
    let rows = &findings.rows;
    let (found, rule) = match id {
        "headline.overhead" => (overhead(rows), Rule::Below),
        "headline.prior.slowdown" => {
            let text = "1.5 to 5.0 for eight cores in the abstract, 1.6 to 2.6 in VI-B";
            return (prior(rows).map(ranges), Asked::Contradictory(text));
        }
        "epoch.reliable" => (reliable(&findings.by_epoch), Rule::AtLeast),
        "fig9.prior.max" => {
            let all = PRIOR.iter().flat_map(|scheme| {
                let of = |work: &&'static str| {
                    Some((slowdown(rows, work, scheme, Set::Taken)?, *work, *scheme))
                };
                works(rows, Origin::Program, Set::Taken).iter().filter_map(of).collect::<Vec<_>>()
            });
            let worst = all.max_by(|a, b| a.0.total_cmp(&b.0));
            let found = worst.map(|(value, work, scheme)| {
                let means = prior_means(rows, Origin::Program, Set::Taken);
                let means: Vec<String> =
                    means.iter().map(|(scheme, mean)| format!("{scheme} {mean:.2}")).collect();
                let note = format!("{work} under {scheme}; means {}", means.join(", "));
                Found::of(value).noting(&note)
            });
            (found, Rule::AtMost)
        }
        "fig9.sphinx3" => {
            let found = slowdown(rows, "sphinx3", PICL, Set::Taken);
            (found.map(|slowdown| Found::of(100.0 * (slowdown - 1.0))), Rule::Within)
        }
        "fig10.prior" => (prior(rows), Rule::Within),
        "fig11.journaling" => {
            let of = |work: &&'static str| {
                let commits =
                    |scheme| Some(row(rows, work, scheme, Set::Taken)?.commits(findings.divisor));
                Some(commits("journaling")? / commits(PICL).filter(|commits| *commits > 0.0)?)
            };
            let all: Vec<f64> =
                works(rows, Origin::Program, Set::Taken).iter().filter_map(of).collect();
            (Found::largest(&all), Rule::Within)
        }
        "order.astar" => {
            let commits =
                |scheme| Some(row(rows, "astar", scheme, Set::Taken)?.commits(findings.divisor));
            let found = commits("journaling").zip(commits("shadow")).zip(commits(PICL));
            let found = found.map(|((journaling, shadow), picl)| {
                let of = |name, value| format!("{name} {value:.1}");
                let [j, s, p] =
                    [of("journaling", journaling), of("shadow", shadow), of(PICL, picl)];
                let note = format!("commits: {j}, {s}, {p}");
                Found::of(journaling.min(shadow) - picl).noting(&note)
            });
            (found, Rule::Holds)
        }
        "fig12.extra_iops" => (extra_operations(rows), Rule::Within),
        "order.random_iops.frm" => {
            let random = |scheme: &str| {
                let of = |work: &&'static str| {
                    let ideal = row(rows, work, IDEAL, Set::Taken)?.operations().write_back;
                    let own = row(rows, work, scheme, Set::Taken)?;
                    views::over_write_backs(rows, own)?;
                    Some(own.operations().random / ideal)
                };
                let all: Vec<f64> =
                    works(rows, Origin::Program, Set::Taken).iter().filter_map(of).collect();
                Found::mean(&all).map(|found| found.value)
            };
            let others = ["journaling", "shadow", PICL].map(random);
            let found = random("frm").map(|frm| {
                let most = others.iter().flatten().copied().fold(0.0, f64::max);
                let each = ["journaling", "shadow", PICL].iter().zip(&others);
                let each: Vec<String> = each
                    .map(|(name, value)| format!("{name} {:.2}", value.unwrap_or(0.0)))
                    .collect();
                Found::of(frm - most).noting(&format!("frm {frm:.2}, {}", each.join(", ")))
            });
            (found, Rule::Holds)
        }
        "undo.rlm.reads" => (undo(rows, |counts| counts.reads("old lines")), Rule::AtMost),
        "undo.rlm.writes" => {
            let of = |counts: &super::measured::Counts| {
                counts.counter("undo_entries").unwrap_or(0)
                    + counts.writes("evicted")
                    + counts.writes("epoch flush")
                    + counts.writes("flushed")
                    + counts.writes("streamed")
            };
            (undo(rows, of), Rule::AtMost)
        }
        "fig13.log_size" => (logs(findings).map(|all| all.0), Rule::Below),
        "fig13.log_size.heavy" => (logs(findings).map(|all| all.1), Rule::AtMost),
        "fig14.shadow" => (effective(findings, "shadow"), Rule::Within),
        "fig14.journaling" => (effective(findings, "journaling"), Rule::Below),
        "fig14.picl_log" => {
            let gigabytes: Vec<f64> = works(rows, Origin::Program, Set::Long)
                .iter()
                .filter_map(|work| row(rows, work, PICL, Set::Long))
                .map(|row| row.log_mb(findings.divisor) / 1e3)
                .collect();
            let note = "one epoch of 500 M instructions; with a gap of 3 up to five are kept";
            (Found::largest(&gigabytes).map(|found| found.noting(note)), Rule::AtMost)
        }
        "fig15.overhead" => {
            let of = |size: &f64| swept(rows, PICL, Set::Llc(*size));
            let mut all: Vec<f64> = machine::LLCS.iter().filter_map(of).collect();
            if !all.is_empty() {
                all.extend(swept_taken(rows, PICL, Set::Llc(machine::LLCS[0])));
            }
            let percent: Vec<f64> = all.iter().map(|slowdown| 100.0 * (slowdown - 1.0)).collect();
            (Found::largest(&percent), Rule::Similar(1.0))
        }
        "order.cache_size.thynvm" => {
            let (first, last) = (machine::LLCS[0], machine::LLCS[machine::LLCS.len() - 1]);
            let growth = |scheme: &str| {
                Some(swept(rows, scheme, Set::Llc(last))? - swept(rows, scheme, Set::Llc(first))?)
            };
            let others: Vec<f64> = ["journaling", "shadow", "frm"]
                .iter()
                .filter_map(|scheme| growth(scheme))
                .collect();
            let most = others.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let found = growth("thynvm").map(|own| {
                let note =
                    format!("thynvm {own:+.2} from {first} to {last} MB, others {others:+.2?}");
                Found::of(own - most).noting(&note)
            });
            (found, Rule::Holds)
        }
        "fig16.prior_at_128" => {
            let of = |scheme: &&str| Some(100.0 * (swept(rows, scheme, Set::Write(128.0))? - 1.0));
            let all: Vec<f64> = PRIOR.iter().filter_map(of).collect();
            (Found::mean(&all), Rule::Near(0.2))
        }
        "order.write_latency" => {
            let sets = machine::WRITES.map(Set::Write);
            let worse = |scheme: &&str| {
                let all: Vec<f64> =
                    sets.iter().filter_map(|set| swept(rows, scheme, *set)).collect();
                (all.len() == sets.len())
                    .then(|| all.windows(2).filter(|two| two[1] < two[0]).count())
            };
            let all: Vec<usize> = PRIOR.iter().filter_map(worse).collect();
            let found = (!all.is_empty()).then(|| Found::of(all.iter().sum::<usize>() as f64));
            (found, Rule::Zero)
        }
        "fig17.min_bw" => (bandwidth(rows), Rule::AtMost),
        "fig18.gap1" => (Found::mean(&reduction_of(rows, 1)), Rule::Near(0.1)),
        "fig18.gap8" => (Found::mean(&reduction_of(rows, 8)), Rule::Near(0.1)),
        id => unreachable!("no measurement stands for the claim {id}"),
    };
    (found, Asked::Rule(rule))
}

fn reduction_of(rows: &[Row], gap: u64) -> Vec<f64> {
    if works(rows, Origin::Program, Set::Gap(0)).is_empty() {
        return Vec::new();
    }
    reduction(rows, gap)
}

/// PiCL's mean overhead, per cent: of single programs, or of mixes where that is more.
fn overhead(rows: &[Row]) -> Option<Found> {
    let percent = |mean: f64| 100.0 * (mean - 1.0);
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
    let each: Vec<String> = means.iter().map(|(name, mean)| format!("{name} {mean:.2}")).collect();
    Found::mean(&values).map(|found| found.noting(&each.join(", ")))
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
fn extra_operations(rows: &[Row]) -> Option<Found> {
    let schemes = ["journaling", "shadow", "frm"];
    let extra = |work: &&'static str, scheme: &str| {
        Some(views::over_write_backs(rows, row(rows, work, scheme, Set::Taken)?)? - 1.0)
    };
    let works = works(rows, Origin::Program, Set::Taken);
    let most = |work: &&'static str| {
        schemes.iter().filter_map(|scheme| extra(work, scheme)).max_by(f64::total_cmp)
    };
    let all: Vec<f64> = works.iter().filter_map(most).collect();
    let each: Vec<String> = [&schemes[..], &[PICL]]
        .concat()
        .iter()
        .filter_map(|scheme| {
            let all: Vec<f64> = works.iter().filter_map(|work| extra(work, scheme)).collect();
            Some(format!("{scheme} {:.2}", Found::mean(&all)?.value))
        })
        .collect();
    let note = format!("the mean over programs of the scheme with most; means {}", each.join(", "));
    Found::mean(&all).map(|found| found.noting(&note))
}

/// Of `frm`, something for each line that leaves the caches: the largest of all programs.
fn undo(rows: &[Row], of: impl Fn(&super::measured::Counts) -> u64) -> Option<Found> {
    let each = works(rows, Origin::Program, Set::Taken);
    let each =
        each.iter().filter_map(|work| row(rows, work, "frm", Set::Taken)).filter_map(|row| {
            let entries = row.counts.counter("undo_entries").filter(|entries| *entries > 1000)?;
            Some((of(&row.counts) as f64 / entries as f64 * 1000.0).round() / 1000.0)
        });
    let note = "what is under way at either end of a run counts on one side; rounded to hundredths";
    // An entry's read may lie before the window and its write in it.
    let each: Vec<f64> = each.map(|value| (value * 100.0).round() / 100.0).collect();
    Found::largest(&each).map(|found| found.noting(note))
}

/// The log of eight epochs: the median of the programs, and the largest.
fn logs(findings: &Findings) -> Option<(Found, Found)> {
    let rows = &findings.rows;
    let mut all: Vec<f64> = works(rows, Origin::Program, Set::Taken)
        .iter()
        .filter_map(|work| row(rows, work, PICL, Set::Taken))
        .map(|row| row.log_mb(findings.divisor) * findings.of_eight_epochs())
        .collect();
    let below = all.iter().filter(|megabytes| **megabytes < 50.0).count();
    let median = *middle(&mut all, |megabytes| *megabytes)?;
    let note = format!("the median; {below} of {} below 50 MB", all.len());
    Some((Found::of(median).noting(&note), Found::largest(&all)?))
}

/// Instructions of epochs that are to be long, of the programs whose epochs end early.
fn effective(findings: &Findings, scheme: &str) -> Option<Found> {
    let rows = &findings.rows;
    let all: Vec<f64> = works(rows, Origin::Program, Set::Long)
        .iter()
        .filter_map(|work| row(rows, work, scheme, Set::Long))
        .map(|row| row.effective_epoch(findings.divisor))
        .collect();
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
