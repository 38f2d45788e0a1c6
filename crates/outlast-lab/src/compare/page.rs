//! The comparison as one page: a table to sort and to filter, opened from disk without a network.

use super::rows::{Better, COLUMNS, Column, Row, ranked};
use crate::format::short;
use crate::html::{document_page, escape};
use crate::native::Size;
use crate::plot::palette;
use crate::record::Document;

/// The page of a comparison.
pub fn page(document: &Document, left_out: &[String]) -> String {
    let rows = Row::all(&document.records);
    let columns: Vec<&Column> =
        COLUMNS.iter().filter(|column| rows.iter().any(|row| column.of(row).is_some())).collect();
    let mut body = opening(document, &rows, left_out);
    body += &tables("h2", &document.command, rows, &columns);
    body += &legend(&columns);
    document_page(document, "Schemes compared", &body)
}

/// The command of the report's comparison: how much it ran stands in its records.
fn command(document: &Document) -> String {
    let counted = document.compared.iter().find_map(|record| record.transactions);
    let size = [Size::Full, Size::Quick].into_iter();
    let is_it = |size: &Size| counted == Some(super::report::transactions(*size));
    super::report::command(size.clone().find(is_it).unwrap_or(Size::Quick), document.seed)
}

/// The table of a report: every scheme on one program, the strongest guarantees first and of those the
/// fastest.
pub(crate) fn by_guarantee(document: &Document) -> String {
    let rows = Row::all(&document.compared);
    let shown = |column: &&Column| column.terminal.is_some();
    let has = |column: &&Column| rows.iter().any(|row| column.of(row).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(shown).filter(has).collect();
    let config = rows.first().map_or("", |row| row.config);
    let work = document.compared.iter().find(|r| r.kind == crate::record::Kind::Sim);
    let work = work.map_or(String::new(), |record| record.work().to_string());
    format!(
        "<p>{} schemes ran <b>{}</b> on {}. <i>Seen</i> is the strongest guarantee that the oracle \
         found kept, in a small campaign of the same program that crashed behind every entry of the \
         journal. The best of each column is marked. Schemes that promise nothing, wrote no line or \
         had no epoch persist stand apart, with the reason.</p>\n{}{}",
        rows.len(),
        escape(&work),
        escape(config),
        tables("h4", &command(document), rows, &columns),
        legend(&columns),
    )
}

/// Schemes with a rank, then the others, each with the reason.
fn tables(heading: &str, command: &str, rows: Vec<Row<'_>>, columns: &[&Column]) -> String {
    let (ranked, others) = ranked(rows);
    let (others, reasons): (Vec<_>, Vec<_>) = others.into_iter().unzip();
    let mut html = table("compare", command, (&ranked, &[]), columns);
    if !others.is_empty() {
        html += &format!("<{heading}>Not ranked</{heading}>\n");
        html += &table("not-ranked", command, (&others, &reasons), columns);
    }
    html
}

/// A row a scheme, a column a figure. Rows without a rank have a reason each.
fn table(
    id: &str,
    command: &str,
    (rows, reasons): (&[Row<'_>], &[&str]),
    columns: &[&Column],
) -> String {
    let words = if reasons.is_empty() { "gives up" } else { "reason" };
    let mut body = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Schemes compared, scrolls \
         where there is no room\"><table id=\"{id}\" class=\"schemes\">\n<thead><tr>\
         <th scope=\"col\" class=\"text\">scheme</th>\
         <th scope=\"col\" class=\"text\">claims</th>\
         <th scope=\"col\" class=\"text\">seen</th>\
         <th scope=\"col\" class=\"text\">{words}</th>"
    );
    for column in columns {
        let unit = match column.unit {
            "" => String::new(),
            unit => format!("<small>{unit}</small>"),
        };
        let (title, about) = (column.title, column.about);
        body += &format!("<th scope=\"col\" title=\"{about}\">{title}{unit}</th>");
    }
    body += "<th scope=\"col\" class=\"text\">again</th></tr></thead>\n<tbody>\n";
    let best = |column: &&Column| if reasons.is_empty() { best_of(column, rows) } else { None };
    let best: Vec<Option<f64>> = columns.iter().map(best).collect();
    for (number, row) in rows.iter().enumerate() {
        let words = reasons.get(number).copied().unwrap_or_else(|| row.gives_up());
        body += &of_row(command, (row, words), columns, &best);
    }
    body += "</tbody></table></div>\n";
    body
}

/// What was compared, in sentences.
fn opening(document: &Document, rows: &[Row<'_>], left_out: &[String]) -> String {
    let works: Vec<String> = document
        .records
        .iter()
        .filter(|record| record.kind == crate::record::Kind::Sim)
        .map(|record| record.work().to_string())
        .collect();
    let mut html = String::new();
    if let Some(work) = works.first() {
        html += &format!(
            "<p>{} schemes ran <b>{}</b>: the same recorded operations under each, a fifth of them \
             before counting began. Recoveries of five crashes of the run were executed. What the \
             oracle saw is from a campaign of its own: the same program with 80 transactions on \
             caches of a few lines, crashed behind every entry of the journal and in every \
             recovery.</p>\n",
            rows.len(),
            escape(work)
        );
    }
    let values = |row: &Row<'_>| row.value(crate::record::Metric::THROUGHPUT);
    let kept = rows.iter().filter(|row| {
        row.unranked().is_none() && row.seen().is_some_and(|(seen, _)| seen == "durable")
    });
    if let Some(fastest) = kept.max_by(|a, b| values(a).total_cmp_or_less(values(b))) {
        let share = fastest.value(crate::record::Metric::SPEED_OVER_PLAIN);
        let share = share.map_or(String::new(), |share| {
            format!(", {} times the throughput of plain memory", short(share))
        });
        html += &format!(
            "<p>Fastest of those that the oracle saw lose nothing: <b>{}</b>{share}.</p>\n",
            escape(fastest.scheme)
        );
    }
    if !left_out.is_empty() {
        let items: String =
            left_out.iter().map(|why| format!("<li>{}</li>", escape(why))).collect();
        html += &format!("<p>Left out:</p>\n<ul>{items}</ul>\n");
    }
    html
}

/// Comparing figures that may be absent.
trait OrLess {
    fn total_cmp_or_less(self, other: Self) -> std::cmp::Ordering;
}

impl OrLess for Option<f64> {
    fn total_cmp_or_less(self, other: Self) -> std::cmp::Ordering {
        self.unwrap_or(f64::NEG_INFINITY).total_cmp(&other.unwrap_or(f64::NEG_INFINITY))
    }
}

fn best_of(column: &Column, rows: &[Row<'_>]) -> Option<f64> {
    let values = rows.iter().filter_map(|row| column.of(row));
    match column.better {
        Better::More => values.max_by(f64::total_cmp),
        Better::Less => values.min_by(f64::total_cmp),
        Better::Neither => None,
    }
}

fn of_row(
    command: &str,
    (row, words): (&Row<'_>, &str),
    columns: &[&Column],
    best: &[Option<f64>],
) -> String {
    let chosen = row
        .config
        .split_once(", scheme.")
        .map_or(String::new(), |(_, chosen)| format!("<small>scheme.{}</small>", escape(chosen)));
    let (seen, images) = row.seen().map_or(("", 0.0), |seen| seen);
    let class = match (row.claimed, seen) {
        ("none", _) | (_, "") => "",
        (claimed, seen) if seen == claimed || seen == "durable" => "good",
        _ => "bad",
    };
    let colour = palette::css(palette::scheme(row.scheme));
    let mut html = format!(
        "<tr data-seen=\"{seen}\"><th scope=\"row\" title=\"{}\"><span class=\"swatch\" \
         style=\"background:{colour}\"></span>{}{chosen}</th><td class=\"text\">{}</td>\
         <td class=\"text {}\" title=\"{images:.0} images recovered and judged\">{seen}</td>\
         <td class=\"text gives\">{}</td>",
        escape(row.config),
        escape(row.scheme),
        row.claimed,
        class,
        escape(words),
    );
    for (column, best) in columns.iter().zip(best) {
        html += &match column.of(row) {
            None => "<td class=\"blank\">·</td>".to_owned(),
            Some(value) => {
                let parts: Vec<String> = column
                    .parts(row)
                    .into_iter()
                    .map(|(cause, value)| format!("{}: {}", escape(cause), short(value)))
                    .collect();
                let is_best = Some(value) == *best;
                let class = if is_best { " class=\"good\"" } else { "" };
                let hover = match parts.is_empty() {
                    true => String::new(),
                    false => format!(" title=\"{}\"", parts.join("&#10;")),
                };
                format!("<td{class} data-value=\"{value}\"{hover}>{}</td>", short(value))
            }
        };
    }
    let command = escape(&again(command, row.scheme));
    html += &format!("<td class=\"text\"><code>{command}</code></td></tr>\n");
    html
}

/// The command that made the page, for one scheme.
fn again(command: &str, scheme: &str) -> String {
    let mut words = command.split(' ');
    let mut kept: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--scheme" | "--out" => drop(words.next()),
            _ if word.starts_with("--scheme=") || word.starts_with("--out=") => {}
            _ => kept.push(word),
        }
    }
    format!("{} --scheme {scheme}", kept.join(" "))
}

fn legend(columns: &[&Column]) -> String {
    let items: String = columns
        .iter()
        .map(|column| format!("<dt>{}</dt><dd>{}</dd>\n", column.title, column.about))
        .collect();
    format!(
        "<details><summary>What the columns are</summary>\n<dl>{items}\
         <dt>claims, seen</dt><dd>The guarantee that the scheme promises, and the strongest that the \
         oracle found kept.</dd></dl></details>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_command_is_that_of_the_page_for_its_scheme() {
        let page = "outlast compare hash --scheme fwb,hwl --keys 200 --out x";
        assert_eq!(again(page, "fwb"), "outlast compare hash --keys 200 --scheme fwb");
        assert_eq!(again("outlast compare sps", "hwl"), "outlast compare sps --scheme hwl");
    }
}
