//! Which scheme for which situation, each with the figure of this run that speaks for it and the program
//! that it stands beside. A situation that was not measured has no line.

use outlast::Scheme;

use super::{GUARANTEES, Speed, is_peer};
use crate::beside::Part;
use crate::compare::of_guarantee;
use crate::format::{short, significant};
use crate::native::PEERS;
use crate::pivot::Grid;
use crate::record::{Document, Kind, Metric, Record};

/// A choice; code words stand between backquotes.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// What the program or the machine has to do.
    pub situation: String,
    /// The scheme to choose.
    pub choose: String,
    /// The figure of this run, beside the other program where it is there.
    pub because: String,
}

/// All that this run can advise.
pub(super) fn of(document: &Document, own: &[Record], speeds: &[Speed], base: &str) -> Vec<Advice> {
    let mut all = Vec::new();
    all.extend(throughput(speeds, base));
    all.extend(latency(own));
    all.extend(recovery(own));
    all.extend(Part::ALL.into_iter().filter_map(|part| front_end(document, part)));
    all.extend(GUARANTEES.iter().filter_map(|guarantee| hardware(&document.compared, guarantee)));
    all
}

fn advice(situation: &str, choose: &str, because: String) -> Advice {
    let choose = format!("`{choose}`");
    Advice { situation: situation.to_owned(), choose, because }
}

fn throughput(speeds: &[Speed], base: &str) -> Option<Advice> {
    let best = speeds.iter().find(|speed| speed.is_durable() && !is_peer(&speed.scheme))?;
    let beside = match PEERS.contains(&base) {
        true => format!("{} × libpmemobj (`{base}`)", significant(best.mean)),
        false => format!("{} × `{base}`; libpmemobj is not here", significant(best.mean)),
    };
    let because = format!(
        "{beside}, {} ({}) to {} ({})",
        significant(best.lowest.0),
        best.lowest.1,
        significant(best.highest.0),
        best.highest.1
    );
    Some(advice("a program's own structures, throughput", &best.scheme, because))
}

/// The lowest geometric mean of a metric over the works that all durable schemes have.
fn least(own: &[Record], metric: Metric) -> Option<(String, f64, Grid<'_>)> {
    let grid = Grid::of_metric(own, Kind::Native, metric);
    let is_durable = |name: &&String| {
        name.parse::<Scheme>().is_ok_and(|scheme| scheme.guarantee().to_string() == "durable")
    };
    let of = |name: &String| {
        let values: Vec<f64> =
            super::shared_rows(&grid).iter().filter_map(|row| grid.value(row, name)).collect();
        let positive = values.iter().all(|value| *value > 0.0);
        Some((name.clone(), super::geometric_mean(values.into_iter()).filter(|_| positive)?))
    };
    let all = grid.columns.iter().filter(is_durable).filter_map(of);
    let (name, mean) = all.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((name, mean, grid))
}

fn latency(own: &[Record]) -> Option<Advice> {
    let (name, mean, grid) = least(own, Metric::LATENCY_P99)?;
    let peer = PEERS.into_iter().find(|peer| grid.columns.iter().any(|name| name == peer));
    let beside = peer.and_then(|peer| {
        let rows = super::shared_rows(&grid);
        let theirs = super::geometric_mean(rows.iter().filter_map(|row| grid.value(row, peer)))?;
        Some(format!(", libpmemobj (`{peer}`) {} ns", short(theirs)))
    });
    let because = format!("99th percentile {} ns{}", short(mean), beside.unwrap_or_default());
    Some(advice("a program's own structures, latency", &name, because))
}

fn recovery(own: &[Record]) -> Option<Advice> {
    let (name, mean, _) = least(own, Metric::RECOVERY_TIME)?;
    let because = format!("{} ms to open with a full log after a crash", significant(mean));
    Some(advice("a short recovery", &name, because))
}

/// The work at which ours does best and the one at which it does worst, beside the other program.
fn front_end(document: &Document, part: Part) -> Option<Advice> {
    let lines = document.beside.lines();
    let mine = lines.iter().filter(|line| line.work.split('/').next() == Some(part.name()));
    let more_is_better = part.metric().unit != Metric::SERVER_CPU.unit;
    let ratio = |line: &crate::beside::Line<'_>| {
        let (ours, theirs) = (line.ours.value?, line.theirs.value?);
        let better = if more_is_better { ours / theirs } else { theirs / ours };
        let work = line.work.split_once('/').map_or(line.work, |(_, work)| work);
        Some((better, work.to_owned(), line.ours.scheme.clone(), line.theirs.scheme.clone()))
    };
    let mut ratios: Vec<_> = mine.filter_map(ratio).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((least, least_on, ours, theirs), (most, most_on, ..)) = (ratios.first()?, ratios.last()?);
    let (situation, name, what) = match part {
        Part::Sqlite => ("an application over SQLite", "SQLite's", "the throughput of"),
        Part::Redis => ("clients of Redis", "", "as many commands a second of CPU as"),
        Part::Engines => ("an embedded store on a disk", "", "the throughput of"),
    };
    let theirs = format!("{name} `{theirs}`");
    let (least, most) = (significant(*least), significant(*most));
    let because = match ratios.len() {
        1 => format!("{least} × {what} {} ({least_on})", theirs.trim()),
        _ => format!("{least} × ({least_on}) to {most} × ({most_on}) {what} {}", theirs.trim()),
    };
    // What is slower than the program that it would replace is no choice.
    let is_worth = ratios.iter().any(|ratio| ratio.0 >= 1.0);
    let choose = if is_worth { ours.clone() } else { ratios[0].3.clone() };
    Some(advice(situation, &choose, because))
}

fn hardware(compared: &[Record], guarantee: &str) -> Option<Advice> {
    let speeds = of_guarantee(compared, guarantee);
    let (best, scheme) = *speeds.first()?;
    let situation = match guarantee {
        "durable" => "hardware: each acknowledged transaction survives",
        "epoch" => "hardware: unmodified programs, the last epochs may be lost",
        "buffered" => "hardware: the last transactions may be lost",
        _ => "hardware: commands are executed again after a crash",
    };
    let next = speeds.get(1).map(|(next, name)| format!(", next `{name}` {:.0} %", 100.0 * next));
    let because =
        format!("{:.0} % of plain memory's throughput{}", 100.0 * best, next.unwrap_or_default());
    Some(advice(situation, scheme, because))
}
