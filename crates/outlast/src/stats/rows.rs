//! Statistics as rows: one table for text, JSON and Prometheus.

use std::fmt::Write;

use super::{ABORT_CAUSES, Counters, Stats};
use crate::pool::Space;

/// One value of the statistics.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its name: of JSON, and of Prometheus behind `outlast_`.
    pub name: &'static str,
    /// What tells it from others of that name, such as the cause of aborts.
    pub label: Option<(&'static str, &'static str)>,
    /// Its meaning and its unit.
    pub about: &'static str,
    /// Whether it only grows while the pool is open.
    pub kind: Kind,
    /// The value.
    pub value: Value,
}

/// The behaviour of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It grows while the pool is open.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A number of things.
    Whole(u64),
    /// Seconds, or a share.
    Real(f64),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Real(number) => number.fmt(f),
        }
    }
}

use Kind::{Counter, Gauge};
use Value::{Real, Whole};

fn row(name: &'static str, kind: Kind, value: Value, about: &'static str) -> Row {
    Row { name, label: None, about, kind, value }
}

fn space_rows(space: &Space) -> Vec<Row> {
    let bytes = |name, bytes, about| row(name, Gauge, Whole(bytes), about);
    vec![
        bytes("pool_heap_bytes", space.heap_bytes, "bytes of the heap"),
        bytes("pool_used_bytes", space.used_bytes, "bytes of allocated blocks"),
        bytes("pool_free_bytes", space.free_bytes, "bytes of the heap that are not allocated"),
        bytes("pool_largest_free_bytes", space.largest_free_bytes, "bytes of the longest free run"),
        bytes("pool_log_bytes", space.log_bytes, "bytes of the logs of all lanes"),
        bytes("pool_log_used_bytes", space.log_used_bytes, "bytes of the logs with live records"),
        bytes("pool_fence_log_bytes", space.fence_log_bytes, "bytes of the log of fences"),
        bytes(
            "pool_fence_log_used_bytes",
            space.fence_log_used_bytes,
            "bytes of the log of fences that a loss of power would need",
        ),
    ]
}

fn counter_rows(counters: &Counters) -> Vec<Row> {
    let count = |name, value, about| row(name, Counter, Whole(value), about);
    let recovery = &counters.recovery;
    let recovered = |count: usize| Whole(count as u64);
    let mut rows = vec![
        row("lanes_taken", Gauge, Whole(counters.lanes_taken.into()), "lanes that threads have"),
        count("commits", counters.commits, "transactions that stored something and committed"),
        count("commit_records", counters.records, "records of commits; some share one"),
        count(
            "commits_put_off",
            counters.put_off,
            "commits that returned before they were durable",
        ),
        count("conflicts", counters.conflicts, "times that a transaction began again"),
        count("conflict_storms", counters.turns_alone, "times that all waited for one transaction"),
        count("flushed_lines", counters.flushed_lines, "lines whose write-back was asked for"),
        count("streamed_lines", counters.streamed_lines, "lines stored past the caches"),
        count("fences", counters.fences, "fences"),
        count("syncs", counters.syncs, "system calls that made pages durable"),
        count("sweeps", counters.sweeps, "sweeps, which free lines of the logs"),
        row(
            "sweep_seconds",
            Counter,
            Real(counters.sweep_time.as_secs_f64()),
            "time of all sweeps",
        ),
        row(
            "sweep_seconds_max",
            Gauge,
            Real(counters.sweep_time_max.as_secs_f64()),
            "time of the longest sweep",
        ),
        count("growths", counters.growths, "times that the pool has grown"),
        count("grown_bytes", counters.grown_bytes, "bytes that it has grown by"),
        row("recovery_undone", Gauge, recovered(recovery.undone), "records that recovery put back"),
        row("recovery_replayed", Gauge, recovered(recovery.replayed), "commits that it replayed"),
        row("recovery_corrected", Gauge, recovered(recovery.corrected), "lines that it corrected"),
        row(
            "recovery_seconds",
            Gauge,
            Real(counters.recovery_time.as_secs_f64()),
            "time that recovery took at the opening",
        ),
        row(
            "has_failed",
            Gauge,
            Whole(counters.has_failed.into()),
            "1 after a write to the file failed: no transaction commits any more",
        ),
    ];
    let aborts = ABORT_CAUSES.iter().zip(counters.aborts).map(|(cause, value)| Row {
        label: Some(("cause", cause)),
        ..count("aborts", value, "transactions that ended without a commit")
    });
    rows.extend(aborts);
    rows
}

impl Stats {
    /// Every value that is known.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = vec![
            row("pool_bytes", Gauge, Whole(self.pool_bytes), "bytes of the pool"),
            row(
                "lanes",
                Gauge,
                Whole(self.lanes.into()),
                "transactions that run at a time, at most",
            ),
        ];
        if let Some(space) = &self.space {
            rows.extend(space_rows(space));
        }
        if let Some(share) = self.fragmentation() {
            let about = "free bytes outside the longest free run, as a share of all";
            rows.push(row("pool_fragmentation_ratio", Gauge, Real(share), about));
        }
        if let Some(counters) = &self.counters {
            rows.extend(counter_rows(counters));
        }
        rows
    }

    /// The values in the text format of Prometheus, each behind `outlast_`.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        let mut last = "";
        for Row { name, label, about, kind, value } in self.rows() {
            if name != last {
                let kind = if kind == Counter { "counter" } else { "gauge" };
                let _ =
                    writeln!(text, "# HELP outlast_{name} {about}\n# TYPE outlast_{name} {kind}");
                last = name;
            }
            let _ = match label {
                Some((key, of)) => writeln!(text, "outlast_{name}{{{key}=\"{of}\"}} {value}"),
                None => writeln!(text, "outlast_{name} {value}"),
            };
        }
        if let Some(domain) = self.domain {
            let about = "the domain, and the scheme of the process that runs the pool";
            let _ =
                writeln!(text, "# HELP outlast_pool_info {about}\n# TYPE outlast_pool_info gauge");
            let scheme = self.counters.and_then(|counters| counters.scheme);
            let scheme = scheme.map_or_else(String::new, |scheme| scheme.to_string());
            let _ =
                writeln!(text, "outlast_pool_info{{domain=\"{domain}\",scheme=\"{scheme}\"}} 1");
        }
        text
    }

    /// The values for people, a line each.
    pub fn to_text(&self) -> String {
        let mut lines: Vec<(&str, String)> = Vec::new();
        if let Some(domain) = self.domain {
            lines.push(("domain", format!("{domain}: {}", domain.promise())));
        }
        lines.push(("size", format!("{} bytes", self.pool_bytes)));
        match &self.space {
            Some(space) => self.space_lines(space, &mut lines),
            None => lines.push(("used", "not known: another process writes the pool".to_owned())),
        }
        match &self.counters {
            Some(counters) => self.counter_lines(counters, &mut lines),
            None => {
                let why = "not known: a pool's work is counted by the process that has it open";
                lines.push(("commits", why.to_owned()));
            }
        }
        lines.into_iter().fold(String::new(), |mut text, (name, value)| {
            let _ = writeln!(text, "{name:<15} {value}");
            text
        })
    }

    fn space_lines(&self, space: &Space, lines: &mut Vec<(&'static str, String)>) {
        let percent = |share: Option<f64>| format!("{:.1} %", 100.0 * share.unwrap_or_default());
        let used = space.used_bytes as f64 / space.heap_bytes.max(1) as f64;
        let of = |part: u64, all: u64, share| format!("{part} of {all} bytes ({})", percent(share));
        lines.push(("used", of(space.used_bytes, space.heap_bytes, Some(used))));
        lines.push(("free", format!("{} bytes", space.free_bytes)));
        lines.push(("largest free", format!("{} bytes", space.largest_free_bytes)));
        let share = percent(self.fragmentation());
        lines.push(("fragmentation", format!("{share} of the free bytes lie elsewhere")));
        lines.push(("log in use", of(space.log_used_bytes, space.log_bytes, self.log_fill())));
        if space.fence_log_bytes > 0 {
            let (used, all) = (space.fence_log_used_bytes, space.fence_log_bytes);
            lines.push(("fences in use", format!("{used} of {all} bytes")));
        }
    }

    fn counter_lines(&self, counters: &Counters, lines: &mut Vec<(&'static str, String)>) {
        let ms = |time: std::time::Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
        if let Some(scheme) = counters.scheme {
            lines.push(("scheme", scheme.to_string()));
        }
        lines.push(("lanes taken", format!("{} of {}", counters.lanes_taken, self.lanes)));
        let Counters { commits, records, put_off, .. } = counters;
        lines.push(("commits", format!("{commits}, {put_off} put off, in {records} records")));
        let each = |count| counters.each(count).map_or("-".to_owned(), |each| format!("{each:.2}"));
        lines.push((
            "a commit takes",
            format!(
                "{} fences, {} lines flushed, {} streamed, {} syncs",
                each(counters.fences),
                each(counters.flushed_lines),
                each(counters.streamed_lines),
                each(counters.syncs),
            ),
        ));
        let storms = counters.turns_alone;
        lines.push(("conflicts", format!("{}, {storms} storms", counters.conflicts)));
        let causes = ABORT_CAUSES.iter().zip(counters.aborts).filter(|(_, count)| *count > 0);
        let causes: Vec<_> = causes.map(|(cause, count)| format!("{cause} {count}")).collect();
        lines.push((
            "aborts",
            match causes.is_empty() {
                true => "0".to_owned(),
                false => format!("{}: {}", counters.aborted(), causes.join(", ")),
            },
        ));
        let (all, longest) = (ms(counters.sweep_time), ms(counters.sweep_time_max));
        lines.push(("sweeps", format!("{} in {all}, the longest {longest}", counters.sweeps)));
        lines.push((
            "growth",
            format!("{} times, by {} bytes", counters.growths, counters.grown_bytes),
        ));
        let recovery = &counters.recovery;
        let (undone, replayed) = (recovery.undone, recovery.replayed);
        let took = ms(counters.recovery_time);
        lines.push(("last recovery", format!("{undone} undone, {replayed} replayed, in {took}")));
        if counters.has_failed {
            lines
                .push(("failed", "a write to the file has failed: open the pool again".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_pmem::Domain;

    fn some() -> Stats {
        let space =
            Space { heap_bytes: 100, free_bytes: 80, largest_free_bytes: 60, ..Space::default() };
        let counters = Counters {
            commits: 4,
            fences: 6,
            aborts: [3, 0, 0, 0, 0, 0, 0, 1],
            ..Counters::default()
        };
        Stats {
            domain: Some(Domain::Page),
            space: Some(space),
            counters: Some(counters),
            ..Stats::default()
        }
    }

    /// Each line is a comment, or a name of letters with labels and one number; each name has its type once.
    #[test]
    fn the_text_of_prometheus_is_well_formed() {
        let text = some().to_prometheus();
        let mut typed = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(matches!(kind, "counter" | "gauge") && !typed.contains(&name), "{line}");
                typed.push(name);
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.rsplit_once(' ').unwrap();
                value.parse::<f64>().unwrap();
                assert!(typed.contains(&name.split('{').next().unwrap()), "{line}");
            }
        }
        assert!(text.contains("outlast_aborts{cause=\"cancelled\"} 3\n"), "{text}");
        assert!(text.contains("outlast_pool_fragmentation_ratio 0.25\n"), "{text}");
        assert!(text.contains("outlast_pool_info{domain=\"page\",scheme=\"\"} 1\n"), "{text}");
    }

    #[test]
    fn the_text_says_what_is_not_known() {
        let text = some().to_text();
        assert!(text.contains("a commit takes  1.50 fences, 0.00 lines flushed"), "{text}");
        assert!(text.contains("aborts          4: cancelled 3, other 1\n"), "{text}");
        assert!(
            text.contains("fragmentation   25.0 % of the free bytes lie elsewhere\n"),
            "{text}"
        );
        let of_file = Stats { counters: None, ..some() }.to_text();
        assert!(of_file.contains("commits         not known"), "{of_file}");
        let in_use = Stats { space: None, counters: None, ..some() }.to_text();
        assert!(in_use.contains("used            not known"), "{in_use}");
    }
}
