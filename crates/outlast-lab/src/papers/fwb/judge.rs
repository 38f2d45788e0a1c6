//! The verdicts on the paper's claims: which measurement stands for which claim.
//!
//! Gains are met by as much or more, costs by as much or less; what is only described is met
//! within a fifth. Means over programs are geometric. Software logging is that of the project,
//! whose log is written over from its start by every transaction; how things stand against a
//! circular one, as the paper's is, is noted beside.

use super::views::{self, better, group, row, unsafe_base};
use super::{Findings, HWL, LOG_SLOTS, MICRO, Row, Task, log_rate};
use crate::papers::claim::{Claim, Found, Judgement, Rule};
use crate::record::Record;
use outlast_sim::timed::Lost;

/// How far from a described value counts as the same.
const NEAR: Rule = Rule::Near(0.2);
/// What a run needs to differ by to count as faster.
const NOISE: f64 = 0.01;

const NOT_MEASURED: &str = "this run did not measure it";
const SOFTWARE: [&str; 2] = ["redo-clwb", "undo-clwb"];
const RINGS: [&str; 2] = ["redo-clwb:ring", "undo-clwb:ring"];

/// One record for each claim about the requested parts.
pub(super) fn judge(task: &Task, findings: &Findings) -> Vec<Record> {
    let wanted: Vec<String> = task.parts.iter().map(|part| part.claims_name()).collect();
    super::CLAIMS
        .iter()
        .filter(|claim| wanted.iter().any(|part| part == claim.part))
        .map(|claim| judgement(claim, task, findings).record(HWL, claim))
        .collect()
}

fn compared(found: Option<Found>, rule: Rule) -> Judgement {
    match found {
        Some(found) => Judgement::Compared(found, rule),
        None => Judgement::NotTestable(NOT_MEASURED.to_owned()),
    }
}

fn unknown(id: &str) -> Judgement {
    unreachable!("no measurement stands for the claim {id}")
}

/// Groups of rows of one program and number of threads.
fn groups(findings: &Findings, wanted: impl Fn(&Row) -> bool) -> Vec<Vec<&Row>> {
    let first = |row: &&Row| row.measured.scheme.name() == "non-pers" && wanted(row);
    findings.rows.iter().filter(first).map(|row| group(findings, row)).collect()
}

fn is_micro(row: &Row) -> bool {
    MICRO.contains(&row.bench)
}

/// The geometric mean, with its span; `None` of none.
fn geometric(values: &[f64]) -> Option<Found> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    let mean = Found::mean(values)?;
    Some(Found { value: (logs / values.len() as f64).exp(), ..mean })
}

fn over<'f>(groups: &[Vec<&'f Row>], of: impl Fn(&[&'f Row]) -> Option<f64>) -> Vec<f64> {
    groups.iter().filter_map(|group| of(group)).collect()
}

fn throughput(row: &Row) -> f64 {
    row.measured.throughput()
}

fn gain(group: &[&Row], of: &str, against: [&str; 2]) -> Option<f64> {
    Some(throughput(row(group, of)?) / throughput(better(group, against)?))
}

/// Of the better software logging and of `fwb`: cycles lost waiting for what is to be durable, and
/// writes; and how `fwb` stands against other software logs and as a buffered one.
fn reasons(groups: &[Vec<&Row>]) -> String {
    let share = |row: &Row, causes: &[Lost]| {
        let stats = &row.measured.stats;
        let cores = stats.cores.iter();
        let lost: u64 = cores.flat_map(|core| causes.iter().map(|c| core.lost.of(*c))).sum();
        100.0 * lost as f64 / (stats.cycles * u64::from(row.threads)).max(1) as f64
    };
    // A commit of `fwb` waits for its record where a fence would for its flushes.
    let waits = [Lost::Flush, Lost::Fence, Lost::Log, Lost::StoreBuffer];
    let software = over(groups, |group| Some(share(better(group, SOFTWARE)?, &waits)));
    let hardware = over(groups, |group| Some(share(row(group, "fwb")?, &waits)));
    let writes = |scheme| over(groups, move |group| Some(row(group, scheme)?.measured.writes()));
    let rings = over(groups, |group| gain(group, "fwb", RINGS));
    let buffered = over(groups, |group| gain(group, "fwb:buffered", SOFTWARE));
    let ideal = over(groups, |group| gain(group, "non-pers", SOFTWARE));
    let mean = |values: &[f64]| Found::mean(values).map_or(0.0, |found| found.value);
    let ratio = |values: &[f64]| geometric(values).map_or(0.0, |found| found.value);
    let both = over(groups, |group| gain(group, "fwb", ["undo-redo-clwb"; 2]));
    format!(
        "non-pers itself is {:.2} x the better software logging, which waits for fences, stores \
         and its log in {:.0} % of its cycles, fwb in {:.0} %; writes a transaction: fwb {:.1}, \
         redo-clwb {:.1}, non-pers {:.1}; against software with circular logs {:.2} x, with both \
         values {:.2} x; fwb whose commit is only issued, as the paper's is, {:.2} x",
        ratio(&ideal),
        mean(&software),
        mean(&hardware),
        mean(&writes("fwb")),
        mean(&writes("redo-clwb")),
        mean(&writes("non-pers")),
        ratio(&rings),
        ratio(&both),
        ratio(&buffered),
    )
}

/// How `fwb` stands where a record holds words of one line alone, which is the paper's reading, beside
/// records of any two words.
fn one_line(groups: &[Vec<&Row>], findings: &Findings) -> Option<String> {
    let of = |group: &[&Row]| {
        let is_it = |row: &&Row| row.bench == group[0].bench && row.threads == group[0].threads;
        findings.one_line.iter().find(is_it)
    };
    let mean = |values: &[f64]| Found::mean(values).map(|found| found.value);
    let any = mean(&over(groups, |group| Some(views::logged(&row(group, "fwb")?.measured))))?;
    let one = mean(&over(groups, |group| Some(views::logged(&of(group)?.measured))))?;
    let gain = geometric(&over(groups, |group| {
        Some(throughput(of(group)?) / throughput(better(group, SOFTWARE)?))
    }))?;
    let saved = geometric(&over(groups, |group| {
        Some(views::logged(&row(group, "fwb")?.measured) / views::logged(&of(group)?.measured))
    }))?;
    let (least, most) = saved.span.unwrap_or((saved.value, saved.value));
    Some(format!(
        "log lines a transaction {any:.2}, two words of any lines to a record; with words of one line \
         alone, which is the paper's reading, {one:.2}, and fwb is {:.2} x the better software logging; \
         the first over the second {least:.2} to {most:.2}",
        gain.value
    ))
}

fn judgement(claim: &Claim, task: &Task, findings: &Findings) -> Judgement {
    let id = claim.id.strip_prefix("hwl.").unwrap_or(claim.id);
    match claim.part {
        "fig6" => speed(id, findings),
        "fig7" => instructions(id, findings),
        "fig8" => energy(id, findings),
        "fig10" => whisper(id, findings),
        "fig11" => sensitivity(id, task, findings),
        part => Judgement::NotTestable(format!("nothing measures {id} of {part}")),
    }
}

fn speed(id: &str, findings: &Findings) -> Judgement {
    let with = |threads: u16| groups(findings, |row| is_micro(row) && row.threads == threads);
    let micro = groups(findings, is_micro);
    let gains = |groups: &[Vec<&Row>]| over(groups, |g| gain(g, "fwb", SOFTWARE));
    let mean_gain = |threads| {
        let groups = with(threads);
        let found = geometric(&gains(&groups))?.noting(&reasons(&groups));
        Some(found.noting(&one_line(&groups, findings)?))
    };
    match id {
        "fwb.throughput.1t" => compared(mean_gain(1), Rule::AtLeast),
        "fwb.throughput.8t" => compared(mean_gain(8), Rule::AtLeast),
        "software.throughput_loss.max" => {
            let lost = |group: &[&Row], slow: Option<&Row>| {
                let ideal = throughput(row(group, "non-pers")?);
                Some(100.0 * (1.0 - throughput(slow?) / ideal))
            };
            let mut losses = over(&micro, |group| lost(group, unsafe_base(group)));
            for scheme in SOFTWARE {
                losses.extend(over(&micro, |group| lost(group, row(group, scheme))));
            }
            compared(Found::largest(&losses), NEAR)
        }
        "order.throughput.fwb_hwl" => {
            let gains = over(&micro, |g| gain(g, "fwb", ["hwl"; 2]));
            compared(geometric(&gains).map(above_one), Rule::Holds)
        }
        "order.throughput.hwl_sw" => {
            let gains = over(&micro, |group| gain(group, "hwl", SOFTWARE));
            let found = geometric(&gains).map(above_one);
            compared(found.map(|found| found.noting(&reasons(&micro))), Rule::Holds)
        }
        "order.gain.ssca2_btree" => {
            let (complex, simple): (Vec<_>, Vec<_>) = micro
                .into_iter()
                .partition(|g| g[0].bench.starts_with("ssca2") || g[0].bench.starts_with("btree"));
            let found = geometric(&gains(&simple)).zip(geometric(&gains(&complex)));
            let found = found.map(|(simple, complex)| {
                let note = format!("{:.2} x against {:.2} x", complex.value, simple.value);
                Found::of(simple.value - complex.value).noting(&note)
            });
            compared(found, Rule::Holds)
        }
        _ => unknown(id),
    }
}

fn above_one(found: Found) -> Found {
    let span = found.span.map(|(low, high)| (low - 1.0, high - 1.0));
    Found { value: found.value - 1.0, span, note: found.note }
}

fn instructions(id: &str, findings: &Findings) -> Judgement {
    let micro = groups(findings, is_micro);
    let ratio = |scheme| {
        over(&micro, move |group| {
            let count = |scheme| Some(row(group, scheme)?.measured.stats.instructions() as f64);
            Some(count(scheme)? / count("non-pers")?)
        })
    };
    match id {
        "software.instructions.max" => {
            let all = ["unsafe-undo", "unsafe-redo"].into_iter().chain(SOFTWARE);
            let all: Vec<f64> = all.flat_map(ratio).collect();
            let both = ratio("undo-redo-clwb");
            let both = Found::largest(&both).map_or(0.0, |found| found.value);
            let note = format!("software undo+redo {both:.2} x");
            compared(Found::largest(&all).map(|found| found.noting(&note)), NEAR)
        }
        "fwb.instructions" => {
            let found = geometric(&ratio("fwb"));
            const NOTE: &str = "begin and commit, whose instructions are an estimate, and nothing \
                                else";
            let found = found.map(|found| Found::of(100.0 * (found.value - 1.0)).noting(NOTE));
            compared(found, Rule::AtMost)
        }
        "undo.instructions" => {
            let found = Found::mean(&ratio("undo-clwb"));
            compared(found.map(|found| found.noting("mean over programs")), Rule::Above)
        }
        _ => unknown(id),
    }
}

/// Compared where the machine counts the memory's energy.
fn compared_energy(found: Option<Found>, rule: Rule, groups: &[Vec<&Row>]) -> Judgement {
    let counted = groups.iter().flatten().any(|row| row.energy.is_some());
    match found {
        None if !groups.is_empty() && !counted => {
            Judgement::NotTestable("the machine does not count the memory's energy".to_owned())
        }
        found => compared(found, rule),
    }
}

fn energy_over(group: &[&Row], of: &str, against: &str) -> Option<f64> {
    Some(row(group, of)?.energy? / row(group, against)?.energy?)
}

fn energy(id: &str, findings: &Findings) -> Judgement {
    let micro = groups(findings, is_micro);
    let over_ideal = |scheme| over(&micro, move |g| energy_over(g, scheme, "non-pers"));
    let percent = |ratio: &f64| 100.0 * (ratio - 1.0);
    match id {
        "software.energy_overhead.max" => {
            let all = ["unsafe-undo", "unsafe-redo"].into_iter().chain(SOFTWARE);
            let all: Vec<f64> = all.flat_map(over_ideal).map(|ratio| percent(&ratio)).collect();
            compared_energy(Found::largest(&all), NEAR, &micro)
        }
        "fwb.memory_energy_overhead" => {
            let found = geometric(&over_ideal("fwb"));
            let software = geometric(&over_ideal("redo-clwb"));
            let note = software.map_or(String::new(), |software| {
                format!("redo-clwb {:.0} %", percent(&software.value))
            });
            let found = found.map(|found| Found::of(percent(&found.value)).noting(&note));
            compared_energy(found, Rule::AtMost, &micro)
        }
        "fwb.processor_overhead" => Judgement::NotTestable(
            "the sentence lacks its noun, and a simple activity model is all there is of processors"
                .to_owned(),
        ),
        _ => unknown(id),
    }
}

fn whisper(id: &str, findings: &Findings) -> Judgement {
    let set = groups(findings, |row| !is_micro(row));
    let gains = over(&set, |group| gain(group, "fwb", SOFTWARE));
    const OURS: &str = "the set is ours, in WHISPER's manner, and so are its sizes";
    let noted = |found: Option<Found>| found.map(|found| found.noting(OURS));
    match id {
        "whisper.throughput.max" => {
            let found = noted(Found::largest(&gains));
            compared(found.map(|found| found.noting(&reasons(&set))), Rule::AtLeast)
        }
        "whisper.vs_nonpers" => {
            let shares = over(&set, |g| gain(g, "fwb", ["non-pers"; 2]));
            let found = geometric(&shares).map(|found| Found::of(100.0 * found.value));
            compared(noted(found), Rule::AtLeast)
        }
        "whisper.energy.max" => {
            let saved: Vec<f64> = SOFTWARE
                .into_iter()
                .flat_map(|scheme| over(&set, move |g| energy_over(g, scheme, "fwb")))
                .collect();
            compared_energy(noted(Found::largest(&saved)), Rule::AtLeast, &set)
        }
        "order.whisper" => {
            let threads = set.first().map_or(0, |group| group[0].threads);
            let micro = groups(findings, |row| is_micro(row) && row.threads == threads);
            let micro = over(&micro, |group| gain(group, "fwb", SOFTWARE));
            let found = geometric(&gains).zip(geometric(&micro)).map(|(set, micro)| {
                let note = format!("{:.2} x against {:.2} x", set.value, micro.value);
                Found::of(set.value - micro.value).noting(&note)
            });
            compared(noted(found), Rule::Holds)
        }
        _ => unknown(id),
    }
}

fn sensitivity(id: &str, task: &Task, findings: &Findings) -> Judgement {
    let points = |what: &str| -> Vec<(f64, f64)> {
        let mine = findings.points.iter().filter(|point| point.what == what);
        mine.map(|point| (point.value, point.throughput)).collect()
    };
    let buffer = points(views::BUFFER);
    let at = |entries: f64| buffer.iter().find(|(n, _)| *n == entries).map(|(_, speed)| *speed);
    let better = |entries| Some(100.0 * (at(entries)? / at(1.0)? - 1.0));
    const BASE: &str = "against a buffer of one entry, in which nothing coalesces";
    match id {
        "logbuf.8.throughput" => {
            compared(better(8.0).map(|gain| Found::of(gain).noting(BASE)), Rule::AtLeast)
        }
        "logbuf.15.throughput" => {
            compared(better(15.0).map(|gain| Found::of(gain).noting(BASE)), Rule::AtLeast)
        }
        "logbuf.saturation" => {
            let most = buffer.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
            let first = buffer.iter().find(|(_, speed)| *speed >= most * (1.0 - NOISE));
            let note = "the smallest buffer within 1 % of the best";
            compared(first.map(|(entries, _)| Found::of(*entries).noting(note)), Rule::AtLeast)
        }
        "order.logbuf" => {
            let worse = buffer.windows(2).filter(|pair| pair[1].1 < pair[0].1 * (1.0 - NOISE));
            let found = (!buffer.is_empty()).then(|| Found::of(worse.count() as f64));
            compared(found, Rule::Zero)
        }
        "logbuf.bound" => match findings.by_latency {
            Some((0, images)) => Judgement::NotTestable(format!(
                "15 entries without a check of order lost nothing in {images} images, which \
                 proves nothing"
            )),
            Some((guilty, images)) => {
                let note = format!(
                    "entries of a buffer that keeps order by its size alone: with 15 entries \
                     {guilty} of {images} images are torn or lose something (HWL-5)"
                );
                Judgement::Compared(Found::of(0.0).noting(&note), Rule::AtLeast)
            }
            None => Judgement::NotTestable(NOT_MEASURED.to_owned()),
        },
        "fwb.period" => {
            // Lines have to be in memory within two scans, before the log comes round.
            let rates = findings
                .rows
                .iter()
                .filter(|row| is_micro(row) && row.measured.scheme.name() == "fwb");
            let rate = rates
                .map(|row| log_rate(&row.measured))
                .chain(findings.points.iter().map(|point| point.log_rate))
                .fold(0.0, f64::max);
            let period = (rate > 0.0).then(|| LOG_SLOTS as f64 / rate / 2.0);
            let note = "half of the time in which the fastest log measured goes round 4 MB; \
                        where it is shorter, scans start earlier here";
            compared(period.map(|cycles| Found::of(cycles).noting(note)), Rule::AtLeast)
        }
        "fwb.scan_overhead" => {
            let speed = |what| points(what).first().map(|(_, speed)| *speed);
            let cost = |slow: f64, fast: f64| 100.0 * (1.0 - slow / fast);
            let usual = at(15.0);
            let found = usual.zip(speed(views::FREE_TAGS)).map(|(usual, free)| {
                let by_clock = speed(views::NO_EARLY).zip(speed(views::NO_SCAN));
                let by_clock = by_clock.map_or(0.0, |(slow, fast)| cost(slow, fast));
                let all = speed(views::NO_SCAN).map_or(0.0, |fast| cost(usual, fast));
                let note = format!(
                    "hash, a tag a cycle, beside scans that read tags in no time; with what scans \
                     force out {by_clock:.1} % by the clock alone, {all:.1} % as a log divided by \
                     {} needs them",
                    task.divisor
                );
                Found::of(cost(usual, free)).noting(&note)
            });
            compared(found, Rule::AtMost)
        }
        _ => unknown(id),
    }
}
