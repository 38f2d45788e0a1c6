//! The report's first screen on a terminal: its answer in at most [`LINES_MAX`] lines. The page has
//! the rest.

use std::fmt::Write as _;

use crate::answer::{Advice, Answer, Speed};
use crate::beside::{Beside, Part};
use crate::engines::overview::Overview;
use crate::format::{short, significant};
use crate::pivot::Grid;
use crate::record::{Document, Kind, Metric, Record, Verdict};
use crate::table::{TextTable, crashes, verdict_line};

/// What fits on a large terminal.
pub const LINES_MAX: usize = 60;
/// Text wraps here, and bars end here.
const COLUMNS: usize = 100;
const BAR_COLUMNS: f64 = 40.0;
/// More rows of a kind are counted and left to the page.
const SCHEMES_MAX: usize = 10;
const MISSED_MAX: usize = 6;
const FRONT_ENDS_MAX: usize = 4;

/// The first screen.
pub fn screen(document: &Document) -> String {
    let answer = Answer::of(document);
    let mut text = format!(
        "Outlast {}, seed {}\n{}\n",
        document.outlast,
        document.seed,
        document.machine.summary()
    );
    let plain: Vec<String> = answer.sentences.iter().map(|text| text.replace('`', "")).collect();
    for sentence in &plain {
        let bullets = textwrap::Options::new(COLUMNS).initial_indent("• ").subsequent_indent("  ");
        let _ = write!(text, "\n{}", textwrap::fill(sentence, bullets));
    }
    text.push('\n');
    text += &advised(&answer.advice);
    if !answer.speeds.is_empty() {
        let _ = write!(text, "\n{}\n{}", answer.caption(), chart(&answer.speeds));
    }
    text += &front_ends(&document.beside);
    let engines = Overview::of(document.beside.of(Part::Engines)).medians();
    if !engines.is_empty() {
        let _ = write!(text, "\nBeside embedded databases, on this disk\n{engines}");
    }
    let (_, own) = crate::papers::split(document);
    let durable: Vec<Record> =
        own.records.iter().filter(|record| record.kind == Kind::Crash).cloned().collect();
    let judged = crashes(&durable);
    if !judged.is_empty() {
        let _ = write!(text, "\nCrashes, recovered and judged\n{judged}");
    }
    text + &missed(&document.records)
}

/// Which scheme for which situation.
fn advised(all: &[Advice]) -> String {
    let mut text = String::new();
    for Advice { situation, choose, because } in all {
        let line = format!("{situation}: {choose}, {because}").replace('`', "");
        let lines = textwrap::wrap(&line, COLUMNS - 4);
        let cut = if lines.len() > 1 { " …" } else { "" };
        let _ = writeln!(text, "  {}{cut}", lines.first().map_or("", |line| line));
    }
    if text.is_empty() { text } else { format!("\nWhat to choose, by this run\n{text}") }
}

/// The first figures of a phase, in a few lines, while the rest is still measured.
pub fn first(records: &[Record]) -> Vec<String> {
    let one = records.iter().find(|r| r.is(Metric::FLOOR) && r.lines == Some(1));
    let floor = one.and_then(|record| {
        let value = record.value?;
        Some(format!("first figures: one line and a fence take {value:.0} ns ({})", record.scheme))
    });
    let grid = Grid::of_metric(records, Kind::Native, Metric::THROUGHPUT);
    let fastest = |row: &String| {
        let own = grid.columns.iter().filter(|name| name.parse::<outlast::Scheme>().is_ok());
        let durable = own.filter(|name| **name != outlast::Scheme::None.name());
        let speeds = durable.filter_map(|name| Some((grid.value(row, name)?, name)));
        let (value, name) = speeds.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(format!("{row}: {name} is fastest, {} tx/s", short(value)))
    };
    floor.into_iter().chain(grid.rows.iter().filter_map(fastest)).collect()
}

/// A bar a scheme, with what it guarantees.
fn chart(speeds: &[Speed]) -> String {
    let longest = speeds.iter().map(|speed| speed.mean).fold(f64::MIN_POSITIVE, f64::max);
    let mut table = TextTable::default();
    for speed in &speeds[..speeds.len().min(SCHEMES_MAX)] {
        let bar = "█".repeat((speed.mean / longest * BAR_COLUMNS).round().max(1.0) as usize);
        let bar = format!("{bar:<0$}", BAR_COLUMNS as usize);
        table.row([speed.scheme.clone(), speed.guarantee.clone(), significant(speed.mean), bar]);
    }
    table.render() + &more(speeds.len(), SCHEMES_MAX, "schemes")
}

/// Front ends beside the programs that they stand for, a line a work; what was left out is on the page.
fn front_ends(beside: &Beside) -> String {
    let mut lines = beside.lines();
    // Databases have a table of their own.
    lines.retain(|line| !line.work.starts_with(Part::Engines.name()));
    if lines.is_empty() {
        return String::new();
    }
    let mut table = TextTable::default();
    for line in &lines[..lines.len().min(FRONT_ENDS_MAX)] {
        let at = |record: &Record| {
            let value = record.value.map(|value| format!("{} {}", short(value), record.unit));
            format!("{} {}", record.scheme, value.unwrap_or_default())
        };
        let ratio = line.ours.value.zip(line.theirs.value).map(|(ours, theirs)| ours / theirs);
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{} ×", significant(ratio)));
        table.row([line.work.to_owned(), at(line.ours), ratio, at(line.theirs)]);
    }
    let more = more(lines.len(), FRONT_ENDS_MAX, "works");
    format!("\nFront ends (tx/s: more is better; us of CPU: less)\n{}{more}", table.render())
}

/// What was not reached, own goals first.
fn missed(records: &[Record]) -> String {
    let missed = |record: &&Record| record.verdict == Some(Verdict::NotReached);
    let mut missed: Vec<&Record> = records.iter().filter(missed).collect();
    missed.sort_by_key(|claim| !crate::answer::is_own(claim));
    if missed.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nNot reached\n");
    for claim in &missed[..missed.len().min(MISSED_MAX)] {
        let whole = verdict_line(claim);
        let lines = textwrap::wrap(&whole, COLUMNS - 2);
        let cut = if lines.len() > 1 { " …" } else { "" };
        let _ = writeln!(text, "  {}{cut}", lines.first().map_or("", |line| line));
    }
    text + &more(missed.len(), MISSED_MAX, "of them")
}

fn more(all: usize, shown: usize, what: &str) -> String {
    match all.checked_sub(shown) {
        None | Some(0) => String::new(),
        Some(left) => format!("  and {left} more {what} on the page\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::tests::made_up;

    #[test]
    fn the_first_screen_answers_and_fits() {
        let mut document = made_up();
        document.beside = crate::beside::tests::made_up();
        let text = screen(&document);
        for line in [
            "  sqlite/update           pool swift 60.0 k tx/s   2.00 ×       wal 30.0 k tx/s\n",
            "• Durable and fastest on this machine: redo, 1.8",
            "\nWhat to choose, by this run\n  a program's own structures, throughput: redo, 1.8",
            "  an application over SQLite: pool swift, 2.00 × (update) to 2.00 × (ycsb-a) the",
            "  clients of Redis: outlast swift, 1.33 × as many commands a second of CPU as redis always",
            "Throughput, × pmdk (mean of 6 works)\n  none          none   2.",
            "\nCrashes, recovered and judged\n",
            "\nNot reached\n  ✗ sps1, redo: cost of redo ≤ 0.45 × the better peer's: 0.520\n",
        ] {
            assert!(text.contains(line), "{line:?} is missing in\n{text}");
        }
        // However much is measured and missed.
        for index in 0..30 {
            let scheme = format!("scheme-{index}");
            for workload in ["ycsb-a", "ycsb-f", "sps1", "sps8", "hash", "btree"] {
                let metric = Metric::THROUGHPUT;
                let value = 1e6 + f64::from(index);
                document.records.push(Record::new(Kind::Native, workload, &scheme, metric, value));
            }
            let claim =
                Record::claim("archapt", "much more ".repeat(30).trim(), "w", "s", Metric::IPC);
            document.records.push(claim.judged(2.0, 1.0, false, "a reason"));
        }
        let text = screen(&document);
        assert!(text.lines().count() <= LINES_MAX, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS + 2), "{text}");
        assert!(text.contains("and 25 more schemes on the page"), "{text}");
        assert!(text.contains("and 26 more of them on the page"), "{text}");
    }

    #[test]
    fn a_run_without_results_has_an_empty_screen() {
        let mut document = made_up();
        document.records.clear();
        assert_eq!(screen(&document).trim_end().lines().count(), 2);
    }
}
