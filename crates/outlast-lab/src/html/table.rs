//! Grids as HTML tables.

use plotters::style::RGBColor;

use super::{escape, folded};
use crate::format::short;
use crate::pivot::Grid;
use crate::plot::palette;
use crate::record::Record;

/// A table of a grid with a column per scheme; `cell` makes what stands in a filled cell, as
/// `(class, HTML)`.
pub(super) fn grid(
    caption: &str,
    corner: &str,
    values: &Grid<'_>,
    cell: impl Fn(&Record) -> (&'static str, String),
) -> String {
    coloured_grid(caption, corner, values, |_, name| palette::scheme(name), cell)
}

/// As [`grid`], with the colour of a column by its index and name.
pub(super) fn coloured_grid(
    caption: &str,
    corner: &str,
    grid: &Grid<'_>,
    colour: impl Fn(usize, &str) -> RGBColor,
    cell: impl Fn(&Record) -> (&'static str, String),
) -> String {
    let mut html = format!("<thead><tr><th scope=\"col\">{corner}</th>");
    for (index, column) in grid.columns.iter().enumerate() {
        html +=
            &format!("<th scope=\"col\">{}{}</th>", swatch(colour(index, column)), escape(column));
    }
    html += "</tr></thead><tbody>\n";
    for row in &grid.rows {
        html += &format!("<tr><th scope=\"row\">{}</th>", escape(row));
        for column in &grid.columns {
            html += &match grid.get(row, column) {
                Some(record) => {
                    let (class, content) = cell(record);
                    format!("<td class=\"{class}\">{content}</td>")
                }
                None => "<td class=\"blank\">·</td>".to_owned(),
            };
        }
        html += "</tr>\n";
    }
    whole(caption, &html, grid.rows.len())
}

/// A table of ready cells; `words` tells which columns hold words and not numbers.
pub(crate) fn rows(
    caption: &str,
    heads: &[&str],
    words: impl Fn(&str) -> bool,
    rows: &[Vec<String>],
) -> String {
    let head = |head: &&str| {
        let class = if words(head) { " class=\"text\"" } else { "" };
        format!("<th scope=\"col\"{class}>{head}</th>")
    };
    let heads: String = heads.iter().map(head).collect();
    let mut html = format!("<thead><tr>{heads}</tr></thead><tbody>\n");
    for row in rows {
        html += &format!("<tr>{}</tr>\n", row.concat());
    }
    whole(caption, &html, rows.len())
}

/// The median, and the quartiles below it where there are any.
pub(super) fn median(record: &Record) -> (&'static str, String) {
    let value = record.value.map_or_else(|| "·".to_owned(), short);
    let spread = record
        .p25
        .zip(record.p75)
        .map(|(low, high)| format!("<small>{} – {}</small>", short(low), short(high)));
    ("", value + &spread.unwrap_or_default())
}

fn swatch(colour: RGBColor) -> String {
    format!("<span class=\"swatch\" style=\"background:{}\"></span>", palette::css(colour))
}

/// A table with more rows is folded.
const ROWS_SHOWN_MAX: usize = 6;

/// Head and rows with what stands around them. A long table has its caption on the fold; one
/// without a caption is folded by the caller.
fn whole(caption: &str, html: &str, rows: usize) -> String {
    let table = |caption: &str| {
        format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table, scrolls where \
             there is no room\"><table>{caption}\n{html}</tbody></table></div>\n"
        )
    };
    match caption {
        "" => table(""),
        _ if rows > ROWS_SHOWN_MAX => folded(&format!("{caption} {rows} rows"), &table("")),
        _ => table(&format!("<caption>{caption}</caption>")),
    }
}
