//! The verdicts on the paper's claims: which measurement stands for which claim, and what meets it.
//!
//! Gains are met by as much or more, costs by as much or less. What a claim only describes (how
//! dirty lines are, what logging costs) is met within a fifth of the value. Throughput and latency
//! are judged on the bare mapping, since the paper emulates persistent memory with plain DRAM, by
//! the competition with the most threads that do not share a core; the slower memory is noted.

use super::checksums::{Action, Grouping, ONE_MATRIX, SEVEN_OBJECTS, objects_of, pattern};
use super::crashes;
use super::evidence::{Evidence, Memory};
use super::flushes::{AGAINST_UNALIGNED, UNALIGNED};
use super::front_ends::{self, ROLLBACK_JOURNAL};
use super::{ARCHAPT, READ_ONLY, REDIS, SQLITE, STORING, Task, WORKLOADS};
use crate::papers::claim::{self, Found, Row, Rule};
use crate::record::{Metric, Record};

/// How far from a described value counts as the same.
const NEAR: Rule = Rule::Near(0.2);

/// A scheme, and the one that it is compared with.
pub(super) type Pair = (&'static str, &'static str);

/// Which schemes stand for "with Archapt", each with what it is built on.
pub(super) const PAIRS: [Pair; 2] = [("undo-archapt", "undo"), ("redo-archapt", "redo")];

/// The schemes that the paper compares with.
const OTHERS: [&str; 5] = ["undo", "redo", "aof", "rollback", "atlas"];

/// One record for each claim about the requested parts.
pub(super) fn judge(task: &Task, records: &[Record]) -> Vec<Record> {
    let evidence = Evidence::new(task, records);
    let mut parts: Vec<String> = task.parts.iter().map(|part| part.claims_name()).collect();
    parts.extend(task.wants_all().then(|| "text".to_owned()));
    claim::judged(ARCHAPT, &super::CLAIMS, &parts, |claim| match claim.part {
        "table4" => crashes::judge(claim.name(), records),
        part => claim::by_row(
            ROWS,
            claim,
            |figure, _| figure(&evidence),
            || match part {
                "clwb" => "this processor lacks one of the two instructions".to_owned(),
                _ => "this run did not measure it".to_owned(),
            },
        ),
    })
}

/// A figure, if this run has it.
type Figure = fn(&Evidence<'_>) -> Option<Found>;

const TABLE_1: Rule = Rule::Contradictory(
    "the cells of Table I average 48.2 %, the text says 49 %, the weights are not given",
);
const MAX: Rule = Rule::Contradictory(
    "at most 42 % in the abstract, at most 32 % over undo in the evaluation, which calls that the \
     largest",
);
const EACH_FLUSHED: Rule = Rule::Contradictory(
    "elsewhere each checksum is flushed as soon as it is created, which is more often; measured \
     with each flushed once, the spare line not counted",
);

/// Archapt against other schemes.
const OVER_AOF: &[Pair] = &[("undo-archapt", "aof")];
const OVER_ROLLBACK: &[Pair] = &[("undo-archapt", "rollback")];
const OVER_JOURNAL: &[Pair] = &[("undo-archapt", ROLLBACK_JOURNAL)];
const SUMS: &[Pair] =
    &[("undo-archapt+sums", "undo-archapt"), ("redo-archapt+sums", "redo-archapt")];

const GAIN: Metric = Metric::THROUGHPUT_GAIN;
const SAVED: Metric = Metric::LATENCY_P99_SAVED;

pub(super) const ROWS: &[Row<Figure>] = &[
    ("logging.throughput_loss.range", Rule::Within, |e| {
        Found::mean(&losses(e, &WORKLOADS)).map(|found| lost(e, found))
    }),
    ("fig1.loss.ycsb_a", NEAR, |e| {
        Found::largest(&losses(e, &["ycsb-a"])).map(|found| lost(e, found))
    }),
    ("fig1.loss.linkbench", NEAR, |e| {
        Found::largest(&losses(e, &["linkbench-archapt"])).map(|found| lost(e, found))
    }),
    ("logging.flush_share.range", Rule::Within, |e| share(e, &["undo", "redo"])),
    ("logging.flush_share.undo.avg", NEAR, |e| share(e, &["undo"])),
    ("logging.flush_share.redo.avg", NEAR, |e| share(e, &["redo"])),
    ("fig2.persist_share.undo", Rule::Within, |e| share(e, &["undo"])),
    ("fig2.persist_share.redo", Rule::Within, |e| share(e, &["redo"])),
    ("fig3.reuse.once_or_twice", NEAR, |e| {
        let others = WORKLOADS.iter().filter(|name| **name != "ycsb-e");
        let uses: Vec<f64> = others.filter_map(|name| e.uses(name, 1, 2)).collect();
        Found::mean(&uses).map(|found| found.noting("uses are transactions"))
    }),
    ("fig3.reuse.ycsb_e", NEAR, |e| e.uses("ycsb-e", 2, u32::MAX).map(Found::of)),
    ("dirtiness.avg.undo", TABLE_1, |e| Found::mean(&percent(&dirtiness(e, UNALIGNED)))),
    ("dirtiness.avg.redo", TABLE_1, |e| Found::mean(&percent(&dirtiness(e, "redo")))),
    ("table1.dirtiness.redis_tpcc", NEAR, |e| cell(e, "tpcc")),
    ("table1.dirtiness.sqlite_tpcc", NEAR, |e| cell(e, "tpcc")),
    ("table1.dirtiness.redis_ycsb_a", NEAR, |e| cell(e, "ycsb-a")),
    ("table1.dirtiness.redis_ycsb_b", NEAR, |e| cell(e, "ycsb-b")),
    ("table1.dirtiness.redis_ycsb_d", NEAR, |e| cell(e, "ycsb-d")),
    ("table1.dirtiness.redis_ycsb_e", NEAR, |e| cell(e, "ycsb-e")),
    ("table1.dirtiness.redis_ycsb_f", NEAR, |e| cell(e, "ycsb-f")),
    ("table1.dirtiness.sqlite_linkbench", NEAR, |e| cell(e, "linkbench-archapt")),
    ("table1.dirtiness.sqlite_ycsb", NEAR, |e| cell(e, "oltp-ycsb")),
    ("table1.dirtiness.bound", Rule::Below, |e| {
        let all = [dirtiness(e, UNALIGNED), dirtiness(e, "redo")].concat();
        Found::largest(&all).map(|found| found.noting(REDO))
    }),
    ("fig10.dirtiness.gain", Rule::AtLeast, |e| {
        let gain = |(with, without): Pair| {
            // Undo logging as the paper has it before Archapt, where it is about what lies beside what.
            let without = if without == "undo" { UNALIGNED } else { without };
            let on = |name: &&'static str| {
                let share = |scheme| e.counted(Metric::DIRTINESS, name, scheme);
                Some(100.0 * (share(with)? - share(without)?))
            };
            Found::mean(&STORING.iter().filter_map(on).collect::<Vec<f64>>())
        };
        let redo = gain(PAIRS[1]).map_or(0.0, |found| found.value);
        Some(gain(PAIRS[0])?.noting(&format!(
            "undo-archapt over undo on the unaligned layout, in points; redo-archapt over {REDO} \
             {redo:.1}"
        )))
    }),
    ("fig10.ycsb_e.before", NEAR, |e| points(e, "ycsb-e", UNALIGNED).map(Found::of)),
    ("fig10.ycsb_e.gain", Rule::AtLeast, |e| {
        let before = points(e, "ycsb-e", UNALIGNED)?;
        let after = points(e, "ycsb-e", "undo-archapt")?;
        Some(Found::of(after - before).noting(&format!("{before:.1} % to {after:.1} %")))
    }),
    ("fig6.create.128", Rule::AtLeast, |e| sums(e, Action::Create, 128, 1.0)),
    ("fig6.create.2048", Rule::AtLeast, |e| sums(e, Action::Create, 2048, 1.0)),
    ("fig6.update.2048", Rule::AtLeast, |e| sums(e, Action::Update, 2048, 1.0)),
    ("fig6.update.128", Rule::Above, |e| sums(e, Action::Update, 128, -1.0)),
    ("matrix.flushes.checksums", EACH_FLUSHED, |e| lines(e, ONE_MATRIX, "create")),
    ("matrix.flushes.data.min", Rule::Near(0.0), |e| lines(e, SEVEN_OBJECTS, "flush")),
    ("matrix.flushes.data.max", Rule::Near(0.0), |e| lines(e, ONE_MATRIX, "flush")),
    ("headline.throughput.avg", Rule::AtLeast, |e| gains(e, GAIN, &PAIRS, &WORKLOADS, Found::mean)),
    ("headline.throughput.max", MAX, |e| gains(e, GAIN, &PAIRS, &WORKLOADS, Found::largest)),
    ("throughput.vs_undo.avg", Rule::AtLeast, |e| {
        gains(e, GAIN, &PAIRS[..1], &WORKLOADS, Found::mean)
    }),
    ("throughput.vs_redo.avg", Rule::AtLeast, |e| {
        gains(e, GAIN, &PAIRS[1..], &WORKLOADS, Found::mean)
    }),
    ("throughput.vs_undo.max", MAX, |e| gains(e, GAIN, &PAIRS[..1], &WORKLOADS, Found::largest)),
    ("throughput.vs_aof.avg", Rule::AtLeast, |e| gains(e, GAIN, OVER_AOF, &REDIS, Found::mean)),
    ("throughput.vs_rollback.avg", Rule::AtLeast, |e| {
        gains(e, GAIN, OVER_ROLLBACK, &SQLITE, Found::mean)
    }),
    ("throughput.vs_aof.max", Rule::AtLeast, |e| gains(e, GAIN, OVER_AOF, &REDIS, Found::largest)),
    ("throughput.vs_rollback.max", Rule::AtLeast, |e| {
        gains(e, GAIN, OVER_ROLLBACK, &SQLITE, Found::largest)
    }),
    ("throughput.ycsb_c.loss", Rule::AtMost, |e| {
        let pairs: Vec<_> =
            PAIRS.iter().flat_map(|(own, _)| OTHERS.map(|other| (*own, other))).collect();
        gains(e, GAIN, &pairs, &[READ_ONLY], |gains| Found::largest(&negated(gains)))
    }),
    ("atlas.vs_pmdk", NEAR, |e| gains(e, GAIN, &[("atlas", "undo")], &WORKLOADS, mean_loss)),
    ("atlas.vs_archapt", NEAR, |e| {
        let found = gains(e, GAIN, &[("undo-archapt", "atlas")], &WORKLOADS, Found::mean)?;
        Some(found.noting("read as the throughput of undo-archapt above atlas"))
    }),
    ("order.throughput", Rule::Holds, |e| {
        let all = PAIRS.iter().flat_map(|(own, _)| OTHERS.map(|other| (own, other)));
        let all = all.flat_map(|(own, other)| {
            let gains = e.natives(Memory::Bare, GAIN, &STORING, own, Some(other));
            gains.into_iter().map(move |(name, gain)| (gain, own, other, name))
        });
        let (gain, own, other, name) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Found::of(gain).noting(&format!("least {own} over {other} on {name}")))
    }),
    ("p99.vs_undo", Rule::AtLeast, |e| gains(e, SAVED, &PAIRS[..1], &WORKLOADS, Found::mean)),
    ("p99.vs_redo", Rule::AtLeast, |e| gains(e, SAVED, &PAIRS[1..], &WORKLOADS, Found::mean)),
    ("p99.vs_aof", Rule::AtLeast, |e| gains(e, SAVED, OVER_AOF, &REDIS, Found::mean)),
    ("p99.vs_rollback", Rule::AtLeast, |e| gains(e, SAVED, OVER_ROLLBACK, &SQLITE, Found::mean)),
    ("p99.atlas.vs_pmdk", NEAR, |e| gains(e, SAVED, &[("atlas", "undo")], &WORKLOADS, mean_loss)),
    ("p99.atlas.vs_archapt", NEAR, |e| {
        gains(e, SAVED, &[("atlas", "undo-archapt")], &WORKLOADS, mean_loss)
    }),
    ("headline.flush_reduction", Rule::AtLeast, flush_reduction),
    ("order.flush_reduction.ycsb_e", Rule::Holds, least_on_scans),
    ("order.coalescing.sqlite", Rule::Holds, |e| {
        let mean = |workloads: &[&'static str]| {
            Some(Found::mean(&e.counts(Metric::COALESCING_SAVED, workloads, "undo"))?.value)
        };
        let (redis, sqlite) = (mean(&REDIS)?, mean(&SQLITE)?);
        Some(Found::of(redis - sqlite).noting(&format!(
            "undo on the coalesced against the unaligned layout: {redis:.1} % and {sqlite:.1} % \
             fewer flushes"
        )))
    }),
    ("order.flushes.undo", Rule::Holds, |e| {
        let fewer = |workloads: &[&'static str], other| {
            let ratios = flush_ratios(e, workloads, other);
            let percent: Vec<f64> = ratios.into_iter().map(|ratio| 100.0 * (1.0 - ratio)).collect();
            Some(Found::mean(&percent)?.value)
        };
        let (aof, rollback) = (fewer(&REDIS, "aof")?, fewer(&SQLITE, "rollback")?);
        let note = format!("{aof:.1} % fewer than aof, {rollback:.1} % fewer than rollback");
        Some(Found::of(aof.min(rollback)).noting(&note))
    }),
    ("order.flushes.undo_redo", Rule::Similar(20.0), |e| {
        let ratios = flush_ratios(e, &STORING, "redo");
        Found::mean(&ratios.into_iter().map(|ratio| 100.0 * (ratio - 1.0)).collect::<Vec<f64>>())
    }),
    ("clwb_vs_clflushopt", Rule::Below, flush_kinds),
    ("front_ends.throughput.avg", Rule::AtLeast, |e| front_ends::found(e, GAIN, &PAIRS)),
    ("front_ends.throughput.vs_undo", Rule::AtLeast, |e| front_ends::found(e, GAIN, &PAIRS[..1])),
    ("front_ends.throughput.vs_redo", Rule::AtLeast, |e| front_ends::found(e, GAIN, &PAIRS[1..])),
    ("front_ends.throughput.vs_journal", Rule::AtLeast, |e| {
        front_ends::found(e, GAIN, OVER_JOURNAL)
    }),
    ("front_ends.p99.vs_undo", Rule::AtLeast, |e| front_ends::found(e, SAVED, &PAIRS[..1])),
    ("front_ends.p99.vs_redo", Rule::AtLeast, |e| front_ends::found(e, SAVED, &PAIRS[1..])),
    ("front_ends.p99.vs_journal", Rule::AtLeast, |e| front_ends::found(e, SAVED, OVER_JOURNAL)),
    ("memory.footprint", Rule::Within, |e| {
        let bytes = e.counts(Metric::HISTORY_BYTES, &STORING, "undo-archapt");
        let megabytes: Vec<f64> = bytes.iter().map(|bytes| e.cache_divisor * bytes / 1e6).collect();
        let note = "queue and table for every line of a cache of the paper's size; by default one \
                    page in 256 is looked at";
        Found::largest(&megabytes).map(|found| found.noting(note))
    }),
    ("checksum.throughput_loss", Rule::Below, |e| gains(e, GAIN, SUMS, &WORKLOADS, mean_loss)),
];

const OVER_TRANSACT: &str = "over Transact, without Redis and SQLite";
const REDO: &str = "redo on the aligned layout";

/// Throughput lost by logging on some workloads, under undo and redo.
fn losses(evidence: &Evidence<'_>, workloads: &[&'static str]) -> Vec<f64> {
    let metric = Metric::THROUGHPUT_LOSS;
    let of = |scheme| evidence.natives(Memory::Bare, metric, workloads, scheme, None);
    ["undo", "redo"].into_iter().flat_map(of).map(|(_, loss)| loss).collect()
}

fn lost(evidence: &Evidence<'_>, found: Found) -> Found {
    found.noting(&format!("{} threads, {OVER_TRANSACT}", evidence.threads))
}

/// The share of logging and flushing in a transaction's time.
fn share(evidence: &Evidence<'_>, schemes: &[&str]) -> Option<Found> {
    let of = |scheme: &&str| evidence.all(Metric::PERSISTENCE_SHARE, scheme);
    let all: Vec<f64> = schemes.iter().flat_map(of).map(|(_, share)| share).collect();
    let note = "one thread; without workloads where logging costs less than 3 %";
    Found::mean(&all).map(|found| found.noting(note))
}

fn dirtiness(evidence: &Evidence<'_>, scheme: &str) -> Vec<f64> {
    evidence.counts(Metric::DIRTINESS, &STORING, scheme)
}

fn percent(shares: &[f64]) -> Vec<f64> {
    shares.iter().map(|share| 100.0 * share).collect()
}

fn points(evidence: &Evidence<'_>, workload: &str, scheme: &str) -> Option<f64> {
    Some(100.0 * evidence.counted(Metric::DIRTINESS, workload, scheme)?)
}

/// A cell of Table I.
fn cell(evidence: &Evidence<'_>, workload: &str) -> Option<Found> {
    let share = |scheme| evidence.counted(Metric::DIRTINESS, workload, scheme);
    let beside = |name: &str, scheme| {
        share(scheme).map(|share| format!("{name} {share:.2}, ")).unwrap_or_default()
    };
    let others = beside("aligned", "undo") + &beside("redo, aligned,", "redo");
    Some(
        Found::of(share(UNALIGNED)?).noting(&format!(
            "heap lines of undo on the unaligned layout; {others}{OVER_TRANSACT}"
        )),
    )
}

/// Lines flushed for a matrix.
fn lines(evidence: &Evidence<'_>, workload: &str, scheme: &str) -> Option<Found> {
    evidence.counted(Metric::OBJECT_LINES, workload, scheme).map(Found::of)
}

/// Time saved by checksums of objects, of a page together, against flushing them; or added, by the sign.
fn sums(evidence: &Evidence<'_>, action: Action, bytes: u64, sign: f64) -> Option<Found> {
    let workload = objects_of(bytes);
    let of = |memory, metric, action, grouping| {
        evidence.native(memory, metric, &workload, &pattern(action, grouping), None)?.value
    };
    let saved = |memory, action, grouping| of(memory, Metric::OBJECT_TIME_SAVED, action, grouping);
    let lines = |action| of(Memory::Bare, Metric::OBJECT_LINES, action, Grouping::ByPage);
    let mut notes = vec!["objects of a page together".to_owned()];
    for grouping in [Grouping::Batched, Grouping::OneByOne] {
        if let Some(other) = saved(Memory::Bare, action, grouping) {
            notes.push(format!("{} {:.0} %", pattern(action, grouping), sign * other));
        }
    }
    if let Some((own, flushed)) = lines(action).zip(lines(Action::Flush)) {
        notes.push(format!("{own:.1} lines flushed for each {flushed:.0}"));
    }
    let floor = |memory| saved(memory, Action::Floor, Grouping::ByPage).map(|floor| sign * floor);
    if let Some(floor) = floor(Memory::Bare) {
        notes.push(format!(
            "{floor:.0} % to read the objects and write the lines of checksums alone"
        ));
    }
    if let Some(slow) = saved(Memory::Slow, action, Grouping::ByPage) {
        let alone = floor(Memory::Slow).map(|floor| format!(" ({floor:.0} % alone)"));
        let (alone, ns) = (alone.unwrap_or_default(), evidence.write_latency_ns);
        notes.push(format!("{:.0} %{alone} with {ns} ns added per line", sign * slow));
    }
    let by_page = saved(Memory::Bare, action, Grouping::ByPage)?;
    Some(Found::of(sign * by_page).noting(&notes.join("; ")))
}

/// A summary of the gains of schemes over others on the bare memory, with that on the slower one noted.
fn gains(
    evidence: &Evidence<'_>,
    metric: Metric,
    pairs: &[Pair],
    workloads: &[&'static str],
    summary: impl Fn(&[f64]) -> Option<Found>,
) -> Option<Found> {
    let on = |memory| {
        let of = |(own, over): &Pair| evidence.natives(memory, metric, workloads, own, Some(over));
        summary(&pairs.iter().flat_map(of).map(|(_, gain)| gain).collect::<Vec<f64>>())
    };
    let found = lost(evidence, on(Memory::Bare)?);
    let ns = evidence.write_latency_ns;
    let slow =
        on(Memory::Slow).map(|slow| format!("{:.1} with {ns} ns added per line", slow.value));
    Some(found.noting(&slow.unwrap_or_default()))
}

fn negated(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| -value).collect()
}

fn mean_loss(gains: &[f64]) -> Option<Found> {
    Found::mean(&negated(gains))
}

/// Flushes of undo over those of another scheme.
fn flush_ratios(evidence: &Evidence<'_>, workloads: &[&'static str], other: &str) -> Vec<f64> {
    let ratio = |name: &&'static str| {
        let other = evidence.flushes(name, other).filter(|other| *other > 0.0)?;
        Some(evidence.flushes(name, "undo")? / other)
    };
    workloads.iter().filter_map(ratio).collect()
}

/// The costs that keep a sound variant from the paper's figure.
const SOUND_COSTS: &str = "each line is flushed before its log is dropped, contents of new blocks \
                           above 2,048 bytes before their record; undo here batches, also on the \
                           unaligned layout, which the paper's did not";

fn flush_reduction(evidence: &Evidence<'_>) -> Option<Found> {
    let mean = |metric, scheme, class| {
        let saved = evidence.counts_as(metric, &STORING, scheme, class);
        Found::mean(&saved).map_or(0.0, |found| found.value)
    };
    let of = |scheme, class| {
        let [data, dirty, all, all_dirty] = [
            Metric::DATA_FLUSHES_SAVED,
            Metric::DIRTY_DATA_FLUSHES_SAVED,
            Metric::ALL_FLUSHES_SAVED,
            Metric::ALL_DIRTY_FLUSHES_SAVED,
        ]
        .map(|metric| mean(metric, scheme, class));
        format!("{data:.1}, dirty {dirty:.1}, with the log {all:.1}, dirty {all_dirty:.1}")
    };
    let (own, redo, unaligned) = ("undo-archapt", "redo-archapt", Some(AGAINST_UNALIGNED));
    let against = evidence.counts_as(Metric::DATA_FLUSHES_SAVED, &STORING, own, unaligned);
    let split = |metric| mean(metric, own, Some("data"));
    Some(Found::mean(&against)?.noting(&format!(
        "data as issued, against undo on an unaligned layout: {:.1} by coalescing, {:.1} by \
         skipping; counted otherwise: {}; against undo on the same layout: {}; redo-archapt {} and \
         {}; {SOUND_COSTS}",
        split(Metric::SAVED_BY_COALESCING),
        split(Metric::SAVED_BY_SKIPPING),
        of(own, unaligned),
        of(own, None),
        of(redo, unaligned),
        of(redo, None),
    )))
}

/// How much less is saved on scans than on the workload where least is saved of the others.
fn least_on_scans(evidence: &Evidence<'_>) -> Option<Found> {
    let saved = |name: &str| evidence.counted(Metric::DATA_FLUSHES_SAVED, name, "undo-archapt");
    let scans = saved("ycsb-e")?;
    let others = STORING.into_iter().filter(|name| *name != "ycsb-e");
    let (name, least) = others
        .filter_map(|name| Some((name, saved(name)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let note = format!("{scans:.1} % on ycsb-e, of the others least on {name}: {least:.1} %");
    Some(Found::of(least - scans).noting(&note))
}

/// The largest gain or loss of `clwb` against `clflushopt`.
fn flush_kinds(evidence: &Evidence<'_>) -> Option<Found> {
    let of = |scheme| {
        let gains = evidence.all(Metric::CLWB_GAIN, scheme).into_iter();
        gains.map(move |(name, gain)| (gain, scheme, name))
    };
    let all = ["undo", "redo", "undo-archapt", "redo-archapt"].into_iter().flat_map(of);
    let (gain, scheme, name) = all.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
    Some(Found::of(gain.abs()).noting(&format!("most for {scheme} on {name}: {gain:+.1} %")))
}
