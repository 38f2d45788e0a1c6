//! What was claimed and what came out, before anything else.

use super::{Section, escape, folded, table};
use crate::answer;
use crate::format::{grouped, short};
use crate::pivot::work;
use crate::record::{Document, Kind, Metric, Record, Verdict};

/// The few numbers that decide.
pub(super) fn tiles(document: &Document) -> String {
    let mut tiles = String::from("<div class=\"tiles\">\n");
    for (own, text) in [(true, "own goals reached"), (false, "claims of papers reached")] {
        let claims = claims_of(document).filter(|claim| answer::is_own(claim) == own);
        let verdicts: Vec<Verdict> = claims.filter_map(|claim| claim.verdict).collect();
        let count = |wanted| verdicts.iter().filter(|v| **v == wanted).count();
        let (reached, missed) = (count(Verdict::Reached), count(Verdict::NotReached));
        if reached + missed > 0 {
            tiles += &tile(missed == 0, &format!("{reached} of {}", reached + missed), text);
        }
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

fn sum(document: &Document, metric: Metric) -> Option<u64> {
    answer::total(document.records.iter(), metric)
}

/// Every claim, folded: those not reached, then the others.
pub(super) fn claims(document: &Document, title: &'static str) -> Section {
    let mut claims: Vec<&Record> = claims_of(document).collect();
    claims.sort_by_key(|claim| Verdict::urgency(claim.verdict));
    let (missed, others): (Vec<&Record>, Vec<&Record>) =
        claims.iter().partition(|claim| claim.verdict == Some(Verdict::NotReached));
    let part = |claims: &[&Record], what: &str| {
        let rows: Vec<_> = claims.iter().map(|claim| row(claim)).collect();
        let summary = format!("{}: {}", what, claims.len());
        match rows.is_empty() {
            true => String::new(),
            false => folded(&summary, &table::rows("", &HEADS, is_words, &rows)),
        }
    };
    let body = part(&missed, "Not reached") + &part(&others, "Reached, or not to be tested here");
    Section { id: "claims", title, body }
}

/// How many of these have which verdict.
pub(super) fn counts(claims: &[&Record]) -> String {
    let count = |verdict, what: &str| {
        let count = claims.iter().filter(|r| r.verdict == Some(verdict)).count();
        (count > 0).then(|| format!("{count} {what}"))
    };
    let parts = [
        count(Verdict::Reached, "reached"),
        count(Verdict::NotReached, "not reached"),
        count(Verdict::Contradictory, "contradictory"),
        count(Verdict::NotTestable, "not testable"),
    ];
    format!(
        "{} claims: {}",
        claims.len(),
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    )
}

/// Claims of one figure, folded beneath it; those not reached first.
pub(super) fn folded_claims(claims: &[&Record]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut claims = claims.to_vec();
    claims.sort_by_key(|claim| Verdict::urgency(claim.verdict));
    let rows: Vec<_> = claims.iter().map(|claim| row(claim)).collect();
    folded("Its claims", &table::rows("", &HEADS, is_words, &rows))
}

const HEADS: [&str; 8] =
    ["Verdict", "Claim", "Of", "Workload", "Scheme", "Claimed", "Measured", "Reason"];

fn is_words(head: &str) -> bool {
    !matches!(head, "Claimed" | "Measured")
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
