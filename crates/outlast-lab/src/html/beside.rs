//! Front ends and pools beside the programs that they stand for.

use super::{Section, escape, figure, folded, settings, table};
use crate::beside::{Beside, Part};
use crate::engines::overview::Overview;
use crate::format::{short, significant};
use crate::pivot::Grid;
use crate::plot::{Panel, bars, palette};
use crate::record::{Document, Kind, Metric, Record};

/// A part on the page.
struct View {
    part: Part,
    title: &'static str,
    /// What the figure shows.
    caption: &'static str,
    unit: &'static str,
    /// The other metrics, with their captions.
    tables: &'static [(Metric, &'static str)],
}

const VIEWS: [View; 3] = [
    View {
        part: Part::Sqlite,
        title: "SQLite on a pool beside SQLite's own journals",
        caption: "Durable transactions of one connection per second, files in memory; bars are medians, \
                  whiskers quartiles. Longer is better. <code>off</code> keeps no journal and survives \
                  no crash of a transaction.",
        unit: "tx/s",
        tables: &[
            (Metric::SPEED_OVER_WAL, "Over SQLite's write-ahead log, formed round by round."),
            (Metric::LATENCY_P99, "99th percentile, in nanoseconds."),
        ],
    },
    View {
        part: Part::Redis,
        title: "The server beside the real Redis",
        caption: "Microseconds of the server's CPU for a command, user and kernel; bars are medians, \
                  whiskers quartiles. Shorter is better. Each answer of ours is durable, as with \
                  <code>always</code>; <code>no aof</code> keeps nothing, <code>everysec</code> loses up \
                  to a second.",
        unit: "us",
        tables: &[(
            Metric::COMMANDS,
            "Commands answered per second. Clients share the machine's processors with the server.",
        )],
    },
    View {
        part: Part::Engines,
        title: "Pools beside embedded databases, on this disk",
        caption: "Durable transactions per second, each commit synced as its authors \
                  recommend; bars are medians, whiskers quartiles. Longer is better. The floor is an \
                  append and one <code>fdatasync</code>.",
        unit: "tx/s",
        tables: &[],
    },
];

/// Every part that was measured, after one table that sums them up.
pub(super) fn section(document: &Document) -> Section {
    let beside = &document.beside;
    let mut body = summary(beside);
    for view in &VIEWS {
        body += &view.html(document);
    }
    if !beside.left_out.is_empty() {
        let items: String =
            beside.left_out.iter().map(|why| format!("<li>{}</li>\n", escape(why))).collect();
        body += &format!("<p>Not measured in this run:</p>\n<ul>\n{items}</ul>\n");
    }
    Section { id: "front-ends", title: "Beside SQLite, Redis and embedded databases", body }
}

/// Pools beside embedded databases, in one table; empty where none was measured.
pub(super) fn engines(document: &Document) -> String {
    let overview = Overview::of(document.beside.of(Part::Engines));
    if overview.is_empty() {
        return String::new();
    }
    let cell = |text: String| format!("<td>{}</td>", escape(&text));
    let rows: Vec<Vec<String>> = overview
        .rows
        .iter()
        .map(|row| {
            let title = format!("<th scope=\"row\">{}</th>", escape(&row.title));
            let cells = (0..overview.columns.len()).map(|column| cell(row.spread(column)));
            [title].into_iter().chain(cells).chain([cell(row.ahead())]).collect()
        })
        .collect();
    let heads: Vec<&str> = ["On this disk"]
        .into_iter()
        .chain(overview.columns.iter().copied())
        .chain(["ahead"])
        .collect();
    let caption = format!(
        "Medians of rounds (quartiles), each commit durable as an engine's authors recommend. <i>Ahead</i>: by how \
         much the first is better than the best other. Again: <code>{}</code>",
        escape(&Part::Engines.command(document.seed))
    );
    format!(
        "<section id=\"engines\"><h2>Beside embedded databases</h2>\n{}</section>\n",
        table::rows(&caption, &heads, |_| false, &rows)
    )
}

fn summary(beside: &Beside) -> String {
    let lines = beside.lines();
    if lines.is_empty() {
        return String::new();
    }
    let text = |text: &str| format!("<td class=\"text\">{}</td>", escape(text));
    let value = |record: &Record| {
        let value = record.value.map_or_else(|| "·".to_owned(), short);
        format!("<td>{value}<small>{}</small></td>", escape(&record.unit))
    };
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let ratio = line.ours.value.zip(line.theirs.value).map(|(ours, theirs)| ours / theirs);
            vec![
                format!("<th scope=\"row\">{}</th>", escape(line.work)),
                text(&line.ours.scheme),
                value(line.ours),
                text(&line.theirs.scheme),
                value(line.theirs),
                format!("<td>{}</td>", ratio.map_or_else(|| "·".to_owned(), significant)),
            ]
        })
        .collect();
    let heads = ["Work", "Ours", "is at", "Theirs", "is at", "Ours over theirs"];
    table::rows(
        "Each pair promises as much about a crash. Of <code>tx/s</code> more is better, of \
         <code>us</code> (CPU time of a command) less.",
        &heads,
        |head| matches!(head, "Ours" | "Theirs"),
        &rows,
    )
}

impl View {
    fn html(&self, document: &Document) -> String {
        let grid = |metric: Metric| {
            let chosen = document.beside.of(self.part).filter(move |record| record.is(metric));
            let work = |record: &Record| {
                let work = crate::pivot::work(record);
                work.split_once('/').map_or(work.clone(), |(_, work)| work.to_owned())
            };
            Grid::new(chosen, work, |record| record.scheme.clone())
        };
        let shown = grid(self.part.metric());
        if shown.is_empty() {
            return String::new();
        }
        let colour = |name: &str| {
            let index = shown.columns.iter().position(|column| column == name);
            palette::series(index.unwrap_or(shown.columns.len()))
        };
        let panels: Vec<Panel> = super::native::coloured_panels(&shown, colour);
        let mine = document.beside.of(self.part).filter(|r| r.kind == Kind::Native);
        let caption = format!("{} {}", self.caption, settings(mine));
        let svg = bars(self.title, self.unit, &panels, &[]);
        let mut body = figure(&svg, &caption, &self.part.command(document.seed), document);
        for (metric, caption) in self.tables {
            let colour = |_: usize, name: &str| colour(name);
            let values = grid(*metric);
            body += &table::coloured_grid(caption, "Work", &values, colour, table::median);
        }
        folded(self.title, &body)
    }
}
