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
use super::front_ends;
use super::{ARCHAPT, READ_ONLY, REDIS, SQLITE, STORING, Task, WORKLOADS};
use crate::papers::claim::{Claim, Found, Judgement, Rule};
use crate::record::{Metric, Record};

/// How far from a described value counts as the same.
const NEAR: Rule = Rule::Near(0.2);

/// Which schemes stand for "with Archapt", each with what it is built on.
pub(super) const PAIRS: [(&str, &str); 2] = [("undo-archapt", "undo"), ("redo-archapt", "redo")];

/// What the paper compares with.
const OTHERS: [&str; 5] = ["undo", "redo", "aof", "rollback", "atlas"];

/// One record for each claim about the requested parts.
pub(super) fn judge(task: &Task, records: &[Record]) -> Vec<Record> {
    let evidence = Evidence::new(task, records);
    let wanted: Vec<String> = task.parts.iter().map(|part| part.claims_name()).collect();
    let belongs = |claim: &Claim| match claim.part {
        "text" => task.wants_all(),
        part => wanted.iter().any(|name| name == part),
    };
    super::CLAIMS
        .iter()
        .filter(|claim| belongs(claim))
        .map(|claim| judgement(claim, &evidence, records).record(ARCHAPT, claim))
        .collect()
}

fn judgement(claim: &Claim, evidence: &Evidence<'_>, records: &[Record]) -> Judgement {
    let id = crashes::id(claim);
    match claim.part {
        "fig1" => losses(id, evidence),
        "fig2" => shares(id, evidence),
        "fig3" => reuse(id, evidence),
        "table1" | "fig10" => dirtiness(id, evidence),
        "fig6" => checksums(id, evidence),
        "fig7" => throughput(id, evidence),
        "fig8" => latency(id, evidence),
        "fig9" => flushes(id, evidence),
        "clwb" => flush_kinds(evidence),
        "front-ends" => front_ends::judge(id, evidence),
        "text" => text(id, evidence),
        "table4" => crashes::judge(id, records),
        part => unreachable!("{} is in {part}", claim.id),
    }
}

/// Compared where it was measured.
fn compared(found: Option<Found>, rule: Rule, missing: &str) -> Judgement {
    match found {
        Some(found) => Judgement::Compared(found, rule),
        None => Judgement::NotTestable(missing.to_owned()),
    }
}

const NOT_MEASURED: &str = "this run did not measure it";

/// A scheme without which a claim cannot be tested.
fn needs(scheme: &str) -> String {
    match scheme.parse::<outlast::Scheme>() {
        Ok(_) => NOT_MEASURED.to_owned(),
        Err(_) => format!("the scheme {scheme} is not built yet"),
    }
}

fn values(named: &[(&str, f64)]) -> Vec<f64> {
    named.iter().map(|(_, value)| *value).collect()
}

const OVER_TRANSACT: &str = "over Transact, without Redis and SQLite";

fn losses(id: &str, evidence: &Evidence<'_>) -> Judgement {
    let loss = |workloads: &[&'static str], scheme| {
        let metric = Metric::THROUGHPUT_LOSS;
        values(&evidence.natives(Memory::Bare, metric, workloads, scheme, None))
    };
    let both = |workloads| [loss(workloads, "undo"), loss(workloads, "redo")].concat();
    let noted = |found: Option<Found>| {
        let threads = evidence.threads;
        found.map(|found| found.noting(&format!("{threads} threads, {OVER_TRANSACT}")))
    };
    match id {
        "logging.throughput_loss.range" => {
            compared(noted(Found::mean(&both(&WORKLOADS))), Rule::Within, NOT_MEASURED)
        }
        "fig1.loss.ycsb_a" => {
            compared(noted(Found::largest(&both(&["ycsb-a"]))), NEAR, NOT_MEASURED)
        }
        "fig1.loss.linkbench" => {
            compared(noted(Found::largest(&both(&["linkbench-archapt"]))), NEAR, NOT_MEASURED)
        }
        _ => unknown(id),
    }
}

fn shares(id: &str, evidence: &Evidence<'_>) -> Judgement {
    let share = |scheme| values(&evidence.all(Metric::PERSISTENCE_SHARE, scheme));
    let (schemes, rule) = match id {
        "logging.flush_share.range" => (vec!["undo", "redo"], Rule::Within),
        "logging.flush_share.undo.avg" => (vec!["undo"], NEAR),
        "logging.flush_share.redo.avg" => (vec!["redo"], NEAR),
        "fig2.persist_share.undo" => (vec!["undo"], Rule::Within),
        "fig2.persist_share.redo" => (vec!["redo"], Rule::Within),
        _ => return unknown(id),
    };
    let all: Vec<f64> = schemes.into_iter().flat_map(share).collect();
    let found = Found::mean(&all).map(|found| {
        found.noting("one thread; without workloads where logging costs less than 3 %")
    });
    compared(found, rule, NOT_MEASURED)
}

fn reuse(id: &str, evidence: &Evidence<'_>) -> Judgement {
    let others: Vec<f64> = WORKLOADS
        .iter()
        .filter(|name| **name != "ycsb-e")
        .filter_map(|name| evidence.uses(name, 1, 2))
        .collect();
    match id {
        "fig3.reuse.once_or_twice" => {
            let found = Found::mean(&others).map(|found| found.noting("uses are transactions"));
            compared(found, NEAR, NOT_MEASURED)
        }
        "fig3.reuse.ycsb_e" => {
            let found = evidence.uses("ycsb-e", 2, u32::MAX).map(Found::of);
            compared(found, NEAR, NOT_MEASURED)
        }
        _ => unknown(id),
    }
}

/// Undo logging as the paper has it before Archapt, where it is about what lies beside what.
fn without_archapt(scheme: &str) -> &str {
    if scheme == "undo" { UNALIGNED } else { scheme }
}

fn dirtiness(id: &str, evidence: &Evidence<'_>) -> Judgement {
    const TABLE_1: &str = "the cells of Table I average 48.2 %, the text says 49 %, the weights \
                           are not given";
    const REDO: &str = "redo on the aligned layout";
    let of = |scheme: &str| evidence.counts(Metric::DIRTINESS, &STORING, scheme);
    let percent =
        |scheme: &str| -> Vec<f64> { of(scheme).iter().map(|share| 100.0 * share).collect() };
    let points = |workload, scheme| {
        let share = evidence.counted(Metric::DIRTINESS, workload, scheme)?;
        Some(Found::of(100.0 * share))
    };
    let cell = |workload| {
        let share = |scheme| evidence.counted(Metric::DIRTINESS, workload, scheme);
        let beside = |name: &str, scheme| {
            share(scheme).map(|share| format!("{name} {share:.2}, ")).unwrap_or_default()
        };
        let found = share(UNALIGNED).map(|unaligned| {
            let others = beside("aligned", "undo") + &beside("redo, aligned,", "redo");
            Found::of(unaligned).noting(&format!(
                "heap lines of undo on the unaligned layout; {others}{OVER_TRANSACT}"
            ))
        });
        compared(found, NEAR, NOT_MEASURED)
    };
    match id {
        "dirtiness.avg.undo" => Judgement::Contradictory(Found::mean(&percent(UNALIGNED)), TABLE_1),
        "dirtiness.avg.redo" => Judgement::Contradictory(Found::mean(&percent("redo")), TABLE_1),
        "table1.dirtiness.redis_tpcc" | "table1.dirtiness.sqlite_tpcc" => cell("tpcc"),
        "table1.dirtiness.redis_ycsb_a" => cell("ycsb-a"),
        "table1.dirtiness.redis_ycsb_b" => cell("ycsb-b"),
        "table1.dirtiness.redis_ycsb_d" => cell("ycsb-d"),
        "table1.dirtiness.redis_ycsb_e" => cell("ycsb-e"),
        "table1.dirtiness.redis_ycsb_f" => cell("ycsb-f"),
        "table1.dirtiness.sqlite_linkbench" => cell("linkbench-archapt"),
        "table1.dirtiness.sqlite_ycsb" => cell("oltp-ycsb"),
        "table1.dirtiness.bound" => {
            let found = Found::largest(&[of(UNALIGNED), of("redo")].concat());
            compared(found.map(|found| found.noting(REDO)), Rule::Below, NOT_MEASURED)
        }
        "fig10.dirtiness.gain" => {
            let gain = |(with, without): (&str, &str)| -> Vec<f64> {
                let on = |name: &&'static str| {
                    let share = |scheme| evidence.counted(Metric::DIRTINESS, name, scheme);
                    Some(100.0 * (share(with)? - share(without_archapt(without))?))
                };
                STORING.iter().filter_map(on).collect()
            };
            let redo = Found::mean(&gain(PAIRS[1])).map_or(0.0, |found| found.value);
            let found = Found::mean(&gain(PAIRS[0])).map(|found| {
                found.noting(&format!(
                    "undo-archapt over undo on the unaligned layout, in points; redo-archapt over \
                     {REDO} {redo:.1}"
                ))
            });
            compared(found, Rule::AtLeast, NOT_MEASURED)
        }
        "fig10.ycsb_e.before" => compared(points("ycsb-e", UNALIGNED), NEAR, NOT_MEASURED),
        "fig10.ycsb_e.gain" => {
            let both = points("ycsb-e", UNALIGNED).zip(points("ycsb-e", "undo-archapt"));
            let found = both.map(|(before, after)| {
                let (before, after) = (before.value, after.value);
                Found::of(after - before).noting(&format!("{before:.1} % to {after:.1} %"))
            });
            compared(found, Rule::AtLeast, NOT_MEASURED)
        }
        _ => unknown(id),
    }
}

fn checksums(id: &str, evidence: &Evidence<'_>) -> Judgement {
    let saved = |memory, action, grouping, bytes| {
        let (workload, scheme) = (objects_of(bytes), pattern(action, grouping));
        evidence.native(memory, Metric::OBJECT_TIME_SAVED, &workload, &scheme, None)?.value
    };
    let lines = |action, bytes| {
        let (workload, scheme) = (objects_of(bytes), pattern(action, Grouping::ByPage));
        evidence.native(Memory::Bare, Metric::OBJECT_LINES, &workload, &scheme, None)?.value
    };
    let compare = |action, bytes, rule, sign: f64| {
        let found = saved(Memory::Bare, action, Grouping::ByPage, bytes).map(|by_page| {
            let mut notes = vec!["objects of a page together".to_owned()];
            for grouping in [Grouping::Batched, Grouping::OneByOne] {
                if let Some(other) = saved(Memory::Bare, action, grouping, bytes) {
                    notes.push(format!("{} {:.0} %", pattern(action, grouping), sign * other));
                }
            }
            if let Some((own, flushed)) = lines(action, bytes).zip(lines(Action::Flush, bytes)) {
                notes.push(format!("{own:.1} lines flushed for each {flushed:.0}"));
            }
            if let Some(floor) = saved(Memory::Bare, Action::Floor, Grouping::ByPage, bytes) {
                notes.push(format!(
                    "{:.0} % to read the objects and write the lines of checksums alone",
                    sign * floor
                ));
            }
            if let Some(slow) = saved(Memory::Slow, action, Grouping::ByPage, bytes) {
                let ns = evidence.write_latency_ns;
                let floor = saved(Memory::Slow, Action::Floor, Grouping::ByPage, bytes);
                let alone = floor.map(|floor| format!(" ({:.0} % alone)", sign * floor));
                let alone = alone.unwrap_or_default();
                notes.push(format!("{:.0} %{alone} with {ns} ns added per line", sign * slow));
            }
            Found::of(sign * by_page).noting(&notes.join("; "))
        });
        compared(found, rule, NOT_MEASURED)
    };
    let counted =
        |workload, scheme| evidence.counted(Metric::OBJECT_LINES, workload, scheme).map(Found::of);
    match id {
        "fig6.create.128" => compare(Action::Create, 128, Rule::AtLeast, 1.0),
        "fig6.create.2048" => compare(Action::Create, 2048, Rule::AtLeast, 1.0),
        "fig6.update.2048" => compare(Action::Update, 2048, Rule::AtLeast, 1.0),
        "fig6.update.128" => compare(Action::Update, 128, Rule::Above, -1.0),
        "matrix.flushes.checksums" => Judgement::Contradictory(
            counted(ONE_MATRIX, "create"),
            "elsewhere each checksum is flushed as soon as it is created, which is more often; \
             measured with each flushed once, the spare line not counted",
        ),
        "matrix.flushes.data.min" => {
            compared(counted(SEVEN_OBJECTS, "flush"), Rule::Near(0.0), NOT_MEASURED)
        }
        "matrix.flushes.data.max" => {
            compared(counted(ONE_MATRIX, "flush"), Rule::Near(0.0), NOT_MEASURED)
        }
        _ => unknown(id),
    }
}

/// What a scheme gains over another on some workloads, on both kinds of memory.
struct Gains {
    bare: Vec<(&'static str, f64)>,
    slow: Vec<(&'static str, f64)>,
    note: String,
}

impl Gains {
    fn of(
        evidence: &Evidence<'_>,
        metric: Metric,
        pairs: &[(&str, &str)],
        workloads: &[&'static str],
    ) -> Self {
        let on = |memory| {
            let gains = |(scheme, over): &(&str, &str)| {
                evidence.natives(memory, metric, workloads, scheme, Some(over))
            };
            pairs.iter().flat_map(gains).collect()
        };
        let threads = evidence.threads;
        let note = format!("{threads} threads, {OVER_TRANSACT}");
        Self { bare: on(Memory::Bare), slow: on(Memory::Slow), note }
    }

    /// A summary of the bare memory's, with that of the slower one noted.
    fn found(
        &self,
        evidence: &Evidence<'_>,
        summary: impl Fn(&[f64]) -> Option<Found>,
    ) -> Option<Found> {
        let found = summary(&values(&self.bare))?.noting(&self.note);
        Some(match summary(&values(&self.slow)) {
            Some(slow) => found.noting(&format!(
                "{:.1} with {} ns added per line",
                slow.value, evidence.write_latency_ns
            )),
            None => found,
        })
    }
}

fn negated(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| -value).collect()
}

fn throughput(id: &str, evidence: &Evidence<'_>) -> Judgement {
    let gains = |pairs: &[(&str, &str)], workloads: &[&'static str]| {
        Gains::of(evidence, Metric::THROUGHPUT_GAIN, pairs, workloads)
    };
    let average = |pairs: &[(&str, &str)], workloads: &[&'static str]| {
        let found = gains(pairs, workloads).found(evidence, Found::mean);
        compared(found, Rule::AtLeast, &needs(pairs[0].1))
    };
    let best = |pairs: &[(&str, &str)], workloads: &[&'static str]| {
        gains(pairs, workloads).found(evidence, Found::largest)
    };
    const MAX: &str = "at most 42 % in the abstract, at most 32 % over undo in the evaluation, \
                       which calls that the largest";
    match id {
        "headline.throughput.avg" => average(&PAIRS, &WORKLOADS),
        "headline.throughput.max" => Judgement::Contradictory(best(&PAIRS, &WORKLOADS), MAX),
        "throughput.vs_undo.avg" => average(&PAIRS[..1], &WORKLOADS),
        "throughput.vs_redo.avg" => average(&PAIRS[1..], &WORKLOADS),
        "throughput.vs_undo.max" => Judgement::Contradictory(best(&PAIRS[..1], &WORKLOADS), MAX),
        "throughput.vs_aof.avg" => average(&[("undo-archapt", "aof")], &REDIS),
        "throughput.vs_rollback.avg" => average(&[("undo-archapt", "rollback")], &SQLITE),
        "throughput.vs_aof.max" => {
            compared(best(&[("undo-archapt", "aof")], &REDIS), Rule::AtLeast, &needs("aof"))
        }
        "throughput.vs_rollback.max" => {
            let found = best(&[("undo-archapt", "rollback")], &SQLITE);
            compared(found, Rule::AtLeast, &needs("rollback"))
        }
        "throughput.ycsb_c.loss" => {
            let pairs: Vec<_> =
                PAIRS.iter().flat_map(|(own, _)| OTHERS.map(|other| (*own, other))).collect();
            let losses = |gains: &[f64]| Found::largest(&negated(gains));
            let found = gains(&pairs, &[READ_ONLY]).found(evidence, losses);
            compared(found, Rule::AtMost, NOT_MEASURED)
        }
        "atlas.vs_pmdk" => {
            let losses = |gains: &[f64]| Found::mean(&negated(gains));
            let found = gains(&[("atlas", "undo")], &WORKLOADS).found(evidence, losses);
            compared(found, NEAR, &needs("atlas"))
        }
        "atlas.vs_archapt" => {
            let found = gains(&[("undo-archapt", "atlas")], &WORKLOADS)
                .found(evidence, Found::mean)
                .map(|found| found.noting("read as the throughput of undo-archapt above atlas"));
            compared(found, NEAR, &needs("atlas"))
        }
        "order.throughput" => compared(ahead(evidence), Rule::Holds, NOT_MEASURED),
        _ => unknown(id),
    }
}

/// By how much the schemes with Archapt are ahead of all others where they are least so.
fn ahead(evidence: &Evidence<'_>) -> Option<Found> {
    let mut worst: Option<(f64, String)> = None;
    for ((own, _), other) in PAIRS.iter().flat_map(|pair| OTHERS.map(|other| (pair, other))) {
        let metric = Metric::THROUGHPUT_GAIN;
        for (name, gain) in evidence.natives(Memory::Bare, metric, &STORING, own, Some(other)) {
            if worst.as_ref().is_none_or(|(least, _)| gain < *least) {
                worst = Some((gain, format!("least {own} over {other} on {name}")));
            }
        }
    }
    worst.map(|(gain, note)| Found::of(gain).noting(&note))
}

fn latency(id: &str, evidence: &Evidence<'_>) -> Judgement {
    let saved = |pair: (&str, &str), workloads: &[&'static str]| {
        Gains::of(evidence, Metric::LATENCY_P99_SAVED, &[pair], workloads)
    };
    let against = |pair: (&str, &str), workloads: &[&'static str]| {
        let found = saved(pair, workloads).found(evidence, Found::mean);
        compared(found, Rule::AtLeast, &needs(pair.1))
    };
    let more = |gains: &[f64]| Found::mean(&negated(gains));
    match id {
        "p99.vs_undo" => against(PAIRS[0], &WORKLOADS),
        "p99.vs_redo" => against(PAIRS[1], &WORKLOADS),
        "p99.vs_aof" => against(("undo-archapt", "aof"), &REDIS),
        "p99.vs_rollback" => against(("undo-archapt", "rollback"), &SQLITE),
        "p99.atlas.vs_pmdk" => {
            let found = saved(("atlas", "undo"), &WORKLOADS).found(evidence, more);
            compared(found, NEAR, &needs("atlas"))
        }
        "p99.atlas.vs_archapt" => {
            let found = saved(("atlas", "undo-archapt"), &WORKLOADS).found(evidence, more);
            compared(found, NEAR, &needs("atlas"))
        }
        _ => unknown(id),
    }
}

/// What keeps a sound variant from the paper's figure.
const SOUND_COSTS: &str = "each line is flushed before its log is dropped, contents of new blocks \
                           above 2,048 bytes before their record; undo here batches, also on the \
                           unaligned layout, which the paper's did not";

fn flushes(id: &str, evidence: &Evidence<'_>) -> Judgement {
    let mean = |metric, scheme, class| {
        let saved = evidence.counts_as(metric, &STORING, scheme, class);
        Found::mean(&saved).map_or(0.0, |found| found.value)
    };
    match id {
        "headline.flush_reduction" => {
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
            let saved = Metric::DATA_FLUSHES_SAVED;
            let against = evidence.counts_as(saved, &STORING, own, unaligned);
            let split = |metric| mean(metric, own, Some("data"));
            let found = Found::mean(&against).map(|found| {
                found.noting(&format!(
                    "data as issued, against undo on an unaligned layout: {:.1} by coalescing, \
                     {:.1} by skipping; counted otherwise: {}; against undo on the same layout: \
                     {}; redo-archapt {} and {}; {SOUND_COSTS}",
                    split(Metric::SAVED_BY_COALESCING),
                    split(Metric::SAVED_BY_SKIPPING),
                    of(own, unaligned),
                    of(own, None),
                    of(redo, unaligned),
                    of(redo, None),
                ))
            });
            compared(found, Rule::AtLeast, NOT_MEASURED)
        }
        "order.flush_reduction.ycsb_e" => {
            compared(least_on_scans(evidence), Rule::Holds, NOT_MEASURED)
        }
        "order.coalescing.sqlite" => {
            let mean = |workloads: &[&'static str]| {
                Found::mean(&evidence.counts(Metric::COALESCING_SAVED, workloads, "undo"))
            };
            let found = mean(&REDIS).zip(mean(&SQLITE)).map(|(redis, sqlite)| {
                Found::of(redis.value - sqlite.value).noting(&format!(
                    "undo on the coalesced against the unaligned layout: {:.1} % and {:.1} % fewer \
                     flushes",
                    redis.value, sqlite.value
                ))
            });
            compared(found, Rule::Holds, NOT_MEASURED)
        }
        "order.flushes.undo" => {
            let fewer = |workloads: &[&'static str], other| -> Vec<f64> {
                let percent = |name: &&'static str| {
                    let (undo, other) =
                        (evidence.flushes(name, "undo")?, evidence.flushes(name, other)?);
                    (other > 0.0).then(|| 100.0 * (1.0 - undo / other))
                };
                workloads.iter().filter_map(percent).collect()
            };
            let (aof, rollback) = (fewer(&REDIS, "aof"), fewer(&SQLITE, "rollback"));
            let missing = if aof.is_empty() { needs("aof") } else { needs("rollback") };
            let found = Found::mean(&aof).zip(Found::mean(&rollback)).map(|(aof, rollback)| {
                Found::of(aof.value.min(rollback.value)).noting(&format!(
                    "{:.1} % fewer than aof, {:.1} % fewer than rollback",
                    aof.value, rollback.value
                ))
            });
            compared(found, Rule::Holds, &missing)
        }
        "order.flushes.undo_redo" => {
            let more: Vec<f64> = STORING
                .iter()
                .filter_map(|name| {
                    let redo = evidence.flushes(name, "redo").filter(|redo| *redo > 0.0)?;
                    Some(100.0 * (evidence.flushes(name, "undo")? / redo - 1.0))
                })
                .collect();
            compared(Found::mean(&more), Rule::Similar(20.0), NOT_MEASURED)
        }
        _ => unknown(id),
    }
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

fn flush_kinds(evidence: &Evidence<'_>) -> Judgement {
    let mut worst: Option<(f64, String)> = None;
    for scheme in ["undo", "redo", "undo-archapt", "redo-archapt"] {
        for (name, gain) in evidence.all(Metric::CLWB_GAIN, scheme) {
            if worst.as_ref().is_none_or(|(most, _)| gain.abs() > most.abs()) {
                worst = Some((gain, format!("most for {scheme} on {name}: {gain:+.1} %")));
            }
        }
    }
    let found = worst.map(|(gain, note)| Found::of(gain.abs()).noting(&note));
    compared(found, Rule::Below, "this processor lacks one of the two instructions")
}

fn text(id: &str, evidence: &Evidence<'_>) -> Judgement {
    match id {
        "memory.footprint" => {
            let bytes = evidence.counts(Metric::HISTORY_BYTES, &STORING, "undo-archapt");
            let megabytes: Vec<f64> =
                bytes.iter().map(|bytes| evidence.cache_divisor * bytes / 1e6).collect();
            let note = "queue and table for every line of a cache of the paper's size; by \
                        default one page in 256 is looked at";
            let found = Found::largest(&megabytes).map(|found| found.noting(note));
            compared(found, Rule::Within, NOT_MEASURED)
        }
        "checksum.throughput_loss" => {
            let pairs =
                [("undo-archapt+sums", "undo-archapt"), ("redo-archapt+sums", "redo-archapt")];
            let losses = |gains: &[f64]| Found::mean(&negated(gains));
            let gains = Gains::of(evidence, Metric::THROUGHPUT_GAIN, &pairs, &WORKLOADS);
            compared(gains.found(evidence, losses), Rule::Below, NOT_MEASURED)
        }
        _ => unknown(id),
    }
}

fn unknown(id: &str) -> Judgement {
    unreachable!("no measurement stands for the claim {id}")
}
