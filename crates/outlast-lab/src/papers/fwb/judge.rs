//! The verdicts on the paper's claims: which measurement stands for which claim.
//!
//! Gains are met by as much or more, costs by as much or less; what is only described is met
//! within a fifth. Means over programs are geometric. Software logging is that of the project,
//! whose log is written over from its start by every transaction; how things stand against a
//! circular one, as the paper's is, is noted beside.

use super::views::{self, better, group, row, unsafe_base};
use super::{Findings, HWL, LOG_SLOTS, MICRO, Row, Task, log_rate};
use crate::papers::claim::{self, Claim, Found, Row as Claimed, Rule};
use crate::record::Record;
use outlast_sim::timed::Lost;

/// How far from a described value counts as the same.
const NEAR: Rule = Rule::Near(0.2);
/// The share by which a run has to differ to count as faster.
const NOISE: f64 = 0.01;

const SOFTWARE: [&str; 2] = ["redo-clwb", "undo-clwb"];
const ALL_SOFTWARE: [&str; 4] = ["unsafe-undo", "unsafe-redo", "redo-clwb", "undo-clwb"];
const RINGS: [&str; 2] = ["redo-clwb:ring", "undo-clwb:ring"];

/// One record for each claim about the requested parts.
pub(super) fn judge(task: &Task, findings: &Findings) -> Vec<Record> {
    let parts: Vec<String> = task.parts.iter().map(|part| part.claims_name()).collect();
    claim::judged(HWL, &super::CLAIMS, &parts, |claim| {
        claim::by_row(ROWS, claim, |figure, _| figure(findings), || missing(claim, findings))
    })
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

/// A figure, if this run has it.
type Figure = fn(&Findings) -> Option<Found>;

/// The sizes of the set are the project's, since the paper gives none.
const OURS: &str = "the set is ours, in WHISPER's manner, and so are its sizes";
/// The log buffer that gains are related to.
const BASE: &str = "against a buffer of one entry, in which nothing coalesces";

pub(super) const ROWS: &[Claimed<Figure>] = &[
    ("fwb.throughput.1t", Rule::AtLeast, |f| mean_gain(f, 1)),
    ("fwb.throughput.8t", Rule::AtLeast, |f| mean_gain(f, 8)),
    ("software.throughput_loss.max", NEAR, |f| {
        let micro = groups(f, is_micro);
        let lost = |group: &[&Row], slow: Option<&Row>| {
            let ideal = throughput(row(group, "non-pers")?);
            Some(100.0 * (1.0 - throughput(slow?) / ideal))
        };
        let mut losses = over(&micro, |group| lost(group, unsafe_base(group)));
        for scheme in SOFTWARE {
            losses.extend(over(&micro, |group| lost(group, row(group, scheme))));
        }
        Found::largest(&losses)
    }),
    ("order.throughput.fwb_hwl", Rule::Holds, |f| {
        let gains = over(&groups(f, is_micro), |group| gain(group, "fwb", ["hwl"; 2]));
        geometric(&gains).map(above_one)
    }),
    ("order.throughput.hwl_sw", Rule::Holds, |f| {
        let micro = groups(f, is_micro);
        let found = geometric(&over(&micro, |group| gain(group, "hwl", SOFTWARE)));
        found.map(|found| above_one(found).noting(&reasons(&micro)))
    }),
    ("order.gain.ssca2_btree", Rule::Holds, |f| {
        let (complex, simple): (Vec<_>, Vec<_>) = groups(f, is_micro)
            .into_iter()
            .partition(|g| g[0].bench.starts_with("ssca2") || g[0].bench.starts_with("btree"));
        further(&simple, &complex, |simple, complex| (complex, simple))
    }),
    ("software.instructions.max", NEAR, |f| {
        let all: Vec<f64> =
            ALL_SOFTWARE.iter().flat_map(|scheme| instructions(f, scheme)).collect();
        let both = Found::largest(&instructions(f, "undo-redo-clwb"));
        let note = format!("software undo+redo {:.2} x", both.map_or(0.0, |found| found.value));
        Found::largest(&all).map(|found| found.noting(&note))
    }),
    ("fwb.instructions", Rule::AtMost, |f| {
        let note = "begin and commit, whose instructions are an estimate, and nothing else";
        let found = geometric(&instructions(f, "fwb"))?;
        Some(Found::of(percent(found.value)).noting(note))
    }),
    ("undo.instructions", Rule::Above, |f| {
        Found::mean(&instructions(f, "undo-clwb")).map(|found| found.noting("mean over programs"))
    }),
    ("software.energy_overhead.max", NEAR, |f| {
        let all = ALL_SOFTWARE.iter().flat_map(|scheme| energy(f, scheme)).map(percent);
        Found::largest(&all.collect::<Vec<f64>>())
    }),
    ("fwb.memory_energy_overhead", Rule::AtMost, |f| {
        let software = geometric(&energy(f, "redo-clwb"));
        let note = software
            .map_or(String::new(), |found| format!("redo-clwb {:.0} %", percent(found.value)));
        let found = geometric(&energy(f, "fwb"))?;
        Some(Found::of(percent(found.value)).noting(&note))
    }),
    ("fwb.processor_overhead", Rule::AtMost, |_| None),
    ("whisper.throughput.max", Rule::AtLeast, |f| {
        let set = groups(f, |row| !is_micro(row));
        let found = Found::largest(&over(&set, |group| gain(group, "fwb", SOFTWARE)))?;
        Some(found.noting(OURS).noting(&reasons(&set)))
    }),
    ("whisper.vs_nonpers", Rule::AtLeast, |f| {
        let set = groups(f, |row| !is_micro(row));
        let shares = over(&set, |group| gain(group, "fwb", ["non-pers"; 2]));
        Some(Found::of(100.0 * geometric(&shares)?.value).noting(OURS))
    }),
    ("whisper.energy.max", Rule::AtLeast, |f| {
        let set = groups(f, |row| !is_micro(row));
        let saved = |scheme| over(&set, move |group| energy_over(group, scheme, "fwb"));
        let saved: Vec<f64> = SOFTWARE.into_iter().flat_map(saved).collect();
        Some(Found::largest(&saved)?.noting(OURS))
    }),
    ("order.whisper", Rule::Holds, |f| {
        let set = groups(f, |row| !is_micro(row));
        let threads = set.first().map_or(0, |group| group[0].threads);
        let micro = groups(f, |row| is_micro(row) && row.threads == threads);
        Some(further(&set, &micro, |set, micro| (set, micro))?.noting(OURS))
    }),
    ("logbuf.8.throughput", Rule::AtLeast, |f| buffered(f, 8.0)),
    ("logbuf.15.throughput", Rule::AtLeast, |f| buffered(f, 15.0)),
    ("logbuf.saturation", Rule::AtLeast, |f| {
        let buffer = points(f, views::BUFFER);
        let most = buffer.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
        let first = buffer.iter().find(|(_, speed)| *speed >= most * (1.0 - NOISE))?;
        Some(Found::of(first.0).noting("the smallest buffer within 1 % of the best"))
    }),
    ("order.logbuf", Rule::Zero, |f| {
        let buffer = points(f, views::BUFFER);
        let worse = buffer.windows(2).filter(|pair| pair[1].1 < pair[0].1 * (1.0 - NOISE));
        (!buffer.is_empty()).then(|| Found::of(worse.count() as f64))
    }),
    ("logbuf.bound", Rule::AtLeast, |f| {
        let (guilty, images) = f.by_latency.filter(|(guilty, _)| *guilty > 0)?;
        let note = format!(
            "entries of a buffer that keeps order by its size alone: with 15 entries {guilty} of \
             {images} images are torn or lose something (HWL-5)"
        );
        Some(Found::of(0.0).noting(&note))
    }),
    ("fwb.period", Rule::AtLeast, |f| {
        // Lines have to be in memory within two scans, before the log comes round.
        let is_fwb = |row: &&Row| is_micro(row) && row.measured.scheme.name() == "fwb";
        let rates = f.rows.iter().filter(is_fwb).map(|row| log_rate(&row.measured));
        let rate = rates.chain(f.points.iter().map(|point| point.log_rate)).fold(0.0, f64::max);
        let note = "half of the time in which the fastest log measured goes round 4 MB; where it is \
                    shorter, scans start earlier here";
        (rate > 0.0).then(|| Found::of(LOG_SLOTS as f64 / rate / 2.0).noting(note))
    }),
    ("fwb.scan_overhead", Rule::AtMost, |f| {
        let speed = |what| points(f, what).first().map(|(_, speed)| *speed);
        let cost = |slow: f64, fast: f64| 100.0 * (1.0 - slow / fast);
        let (usual, free) = (buffer_at(f, 15.0)?, speed(views::FREE_TAGS)?);
        let by_clock = speed(views::NO_EARLY).zip(speed(views::NO_SCAN));
        let by_clock = by_clock.map_or(0.0, |(slow, fast)| cost(slow, fast));
        let all = speed(views::NO_SCAN).map_or(0.0, |fast| cost(usual, fast));
        let note = format!(
            "hash, a tag a cycle, beside scans that read tags in no time; with what scans force out \
             {by_clock:.1} % by the clock alone, {all:.1} % as a log divided by {} needs them",
            f.divisor
        );
        Some(Found::of(cost(usual, free)).noting(&note))
    }),
];

/// The reason why this run has no figure for a claim.
fn missing(claim: &Claim, findings: &Findings) -> String {
    let counts_no_energy =
        || !findings.rows.is_empty() && findings.rows.iter().all(|row| row.energy.is_none());
    match (claim.name(), findings.by_latency) {
        ("fwb.processor_overhead", _) => {
            "the sentence lacks its noun, and a simple activity model is all there is of processors"
                .to_owned()
        }
        ("logbuf.bound", Some((_, images))) => format!(
            "15 entries without a check of order lost nothing in {images} images, which proves \
             nothing"
        ),
        (name, _) if name.contains("energy") && counts_no_energy() => {
            "the machine does not count the memory's energy".to_owned()
        }
        _ => "this run did not measure it".to_owned(),
    }
}

/// The mean gain of `fwb` over the better software logging, by threads.
fn mean_gain(findings: &Findings, threads: u16) -> Option<Found> {
    let groups = groups(findings, |row| is_micro(row) && row.threads == threads);
    let found = geometric(&over(&groups, |group| gain(group, "fwb", SOFTWARE)))?;
    Some(found.noting(&reasons(&groups)).noting(&one_line(&groups, findings)?))
}

/// By how much the gain of `fwb` on some programs exceeds that on others; `told` says which is told first.
fn further(
    programs: &[Vec<&Row>],
    others: &[Vec<&Row>],
    told: fn(f64, f64) -> (f64, f64),
) -> Option<Found> {
    let of = |groups| Some(geometric(&over(groups, |group| gain(group, "fwb", SOFTWARE)))?.value);
    let (own, other) = (of(programs)?, of(others)?);
    let (first, second) = told(own, other);
    Some(Found::of(own - other).noting(&format!("{first:.2} x against {second:.2} x")))
}

fn above_one(found: Found) -> Found {
    let span = found.span.map(|(low, high)| (low - 1.0, high - 1.0));
    Found { value: found.value - 1.0, span, note: found.note }
}

fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

/// Instructions of a scheme over those of `non-pers`.
fn instructions(findings: &Findings, scheme: &str) -> Vec<f64> {
    over(&groups(findings, is_micro), |group| {
        let count = |scheme| Some(row(group, scheme)?.measured.stats.instructions() as f64);
        Some(count(scheme)? / count("non-pers")?)
    })
}

/// The memory's energy under a scheme over that of `non-pers`.
fn energy(findings: &Findings, scheme: &str) -> Vec<f64> {
    over(&groups(findings, is_micro), |group| energy_over(group, scheme, "non-pers"))
}

fn energy_over(group: &[&Row], of: &str, against: &str) -> Option<f64> {
    Some(row(group, of)?.energy? / row(group, against)?.energy?)
}

/// Values of one parameter, each with its throughput.
fn points(findings: &Findings, what: &str) -> Vec<(f64, f64)> {
    let mine = findings.points.iter().filter(|point| point.what == what);
    mine.map(|point| (point.value, point.throughput)).collect()
}

/// Throughput with a log buffer of this many entries.
fn buffer_at(findings: &Findings, entries: f64) -> Option<f64> {
    let buffer = points(findings, views::BUFFER);
    buffer.iter().find(|(n, _)| *n == entries).map(|(_, speed)| *speed)
}

fn buffered(findings: &Findings, entries: f64) -> Option<Found> {
    let ratio = buffer_at(findings, entries)? / buffer_at(findings, 1.0)?;
    Some(Found::of(percent(ratio)).noting(BASE))
}
