//! What was claimed and what came out, before anything else.

use super::{Section, escape, table};
use crate::format::{grouped, short};
use crate::pivot::work;
use crate::record::{Document, Kind, Metric, Record, Verdict};

/// The few numbers that decide.
pub(super) fn tiles(document: &Document) -> String {
    let mut tiles = String::from("<div class=\"tiles\">\n");
    let claims: Vec<Verdict> = claims_of(document).filter_map(|claim| claim.verdict).collect();
    let judged =
        claims.iter().filter(|v| matches!(v, Verdict::Reached | Verdict::NotReached)).count();
    let reached = claims.iter().filter(|v| **v == Verdict::Reached).count();
    if judged > 0 {
        tiles += &tile(reached == judged, &format!("{reached} of {judged}"), "claims reached");
    }
    if let Some(points) = sum(document, Metric::CRASH_POINTS) {
        let wrong =
            Metric::HARM.into_iter().filter_map(|metric| sum(document, metric)).sum::<u64>();
        let text = format!("lost, torn or beyond repair after {} crashes", grouped(points));
        tiles += &tile(wrong == 0, &grouped(wrong), &text);
    }
    if let Some((killed, total)) =
        sum(document, Metric::PLANTED_KILLED).zip(sum(document, Metric::PLANTED_TOTAL))
    {
        tiles += &tile(killed == total, &format!("{killed} of {total}"), "planted bugs caught");
    }
    if let Some(flagged) = sum(document, Metric::CONTROL_FLAGGED) {
        tiles += &tile(flagged == 0, &grouped(flagged), "sound controls flagged");
    }
    if let Some(images) = sum(document, Metric::IMAGES_VERIFIED) {
        let text = "crash images recovered and judged";
        tiles += &format!("<div class=\"tile\"><b>{}</b>{text}</div>\n", short(images as f64));
    }
    tiles + "</div>\n"
}

fn tile(good: bool, number: &str, text: &str) -> String {
    let class = if good { "good" } else { "bad" };
    format!("<div class=\"tile {class}\"><b>{number}</b>{text}</div>\n")
}

/// The sum of a metric over all crash records that stand for a whole campaign.
fn sum(document: &Document, metric: Metric) -> Option<u64> {
    let mut values = document
        .records
        .iter()
        .filter(|r| r.kind == Kind::Crash && r.is(metric))
        .filter(|r| r.plant.is_none() || metric == Metric::CONTROL_FLAGGED)
        .filter_map(|r| r.value)
        .peekable();
    values.peek()?;
    Some(values.sum::<f64>() as u64)
}

/// Every claim, the ones not reached first.
pub(super) fn claims(document: &Document) -> Section {
    let mut claims: Vec<&Record> = claims_of(document).collect();
    claims.sort_by_key(|claim| Verdict::urgency(claim.verdict));
    let rows: Vec<_> = claims.iter().map(|claim| row(claim)).collect();
    let heads = ["Verdict", "Claim", "Of", "Workload", "Scheme", "Claimed", "Measured", "Reason"];
    let words = |head: &str| !matches!(head, "Claimed" | "Measured");
    let caption = "What was not reached comes first.";
    let body =
        if rows.is_empty() { String::new() } else { table::rows(caption, &heads, words, &rows) };
    Section { id: "claims", title: "Goals and claims", body }
}

fn claims_of(document: &Document) -> impl Iterator<Item = &Record> {
    document.records.iter().filter(|record| record.kind == Kind::Claim)
}

fn row(claim: &Record) -> Vec<String> {
    let text = |text: &str| format!("<td class=\"text\">{}</td>", escape(text));
    let (_, measured) = table::median(claim);
    vec![
        format!("<td class=\"text\">{}</td>", chip(claim.verdict)),
        text(claim.claim.as_deref().unwrap_or(&claim.metric)),
        text(claim.paper.as_deref().unwrap_or("")),
        text(&work(claim)),
        text(&claim.scheme),
        format!("<td>{}</td>", claim.paper_value.map_or_else(|| "·".to_owned(), short)),
        format!("<td>{measured}</td>"),
        text(claim.reason.as_deref().unwrap_or("")),
    ]
}

/// A verdict in words, with a sign for those who don't see colours.
fn chip(verdict: Option<Verdict>) -> String {
    let (class, text) = match verdict {
        Some(Verdict::Reached) => ("reached", "✓ reached"),
        Some(Verdict::NotReached) => ("not_reached", "✗ not reached"),
        Some(Verdict::Contradictory) => ("contradictory", "! contradictory"),
        Some(Verdict::NotTestable) => ("not_testable", "– not testable"),
        None => ("not_testable", "– not judged"),
    };
    format!("<span class=\"chip {class}\">{text}</span>")
}
