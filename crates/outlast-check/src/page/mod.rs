//! The page of a check (`--html`): one file, opened from disk, with no network.
//!
//! It has the findings, a time line of the run's calls with lanes of threads, and a crash explorer: pick
//! a moment and a model, drop and keep units of persistence, and see the directory that a crash leaves.
//! Findings and time line can be read without a script; `page.js` makes states from `data` by the same
//! rules as [`crate::order`].

mod data;
mod timeline;

use crate::files::{Case, Report};
use crate::run::CallId;

/// Text as HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A finding's place in the run: the step before which power fails, the units lost, and both calls.
#[derive(Debug)]
struct Crash {
    model: usize,
    event: usize,
    lost: Vec<usize>,
    lost_call: CallId,
    kept_call: Option<CallId>,
}

/// The place of a case in the report's own run; none if it is one of a recovery or a failing call.
fn crash(report: &Report, case: &Case) -> Option<Crash> {
    let finding = &case.finding;
    if finding.first_crash.is_some() || finding.fault.is_some() {
        return None;
    }
    let (_, place) = finding.state.split_once('@')?;
    let (event, units) = place.split_once('-')?;
    let event: usize = event.parse().ok()?;
    let lost: Vec<usize> = units.split(',').filter_map(|unit| unit.parse().ok()).collect();
    let model = finding.example.model;
    let lost_call = report.ordered.get(model)?.units.get(*lost.first()?)?.call;
    let kept_call = finding.kept.as_ref().and_then(|kept| {
        let after = report.run.calls.iter().enumerate().skip(lost_call as usize);
        let mut same = after.filter(|(_, call)| call.text == kept.text && call.tid == kept.tid);
        same.next().map(|(index, _)| index as CallId)
    });
    Some(Crash { model, event, lost, lost_call, kept_call })
}

/// The whole page.
#[must_use]
pub fn html(report: &Report) -> String {
    let crashes: Vec<Option<Crash>> = report.cases.iter().map(|case| crash(report, case)).collect();
    let first = crashes.iter().flatten().next();
    let data = data::of(report, &crashes);
    // Within a script no '<' may stand that could end it.
    let data = data.to_string().replace('<', "\\u003c");
    let mut body = header(report);
    body += &findings(report, &crashes);
    body += &format!(
        "<section id=\"timeline\"><h2>Time line</h2>\n{}</section>\n",
        timeline::html(report, first)
    );
    body += include_str!("explorer.html");
    body += &mutants(report);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>outlast check: {}</title>\n<style>\n\
         {}</style></head>\n<body>\n<a class=\"skip\" href=\"#main\">To the content</a>\n<main \
         id=\"main\">\n{body}</main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>\n{}</script>\n</body></html>\n",
        escape(&report.program()),
        include_str!("style.css"),
        include_str!("page.js"),
    )
}

fn header(report: &Report) -> String {
    let (changes, syncs, acked) = report.run.counts();
    let coverage = &report.coverage;
    let names: Vec<&str> = report.plan.models.iter().map(|model| model.name).collect();
    let verdict = match (report.cases.len(), report.run.blind.is_empty()) {
        (0, true) => ("good", "sound".to_owned()),
        (0, false) => ("warn", "not measured".to_owned()),
        (1, _) => ("bad", "1 fault".to_owned()),
        (count, _) => ("bad", format!("{count} faults")),
    };
    let tile = |class: &str, number: &str, text: &str| {
        format!("<div class=\"tile {class}\"><b>{number}</b>{text}</div>\n")
    };
    let cut = if coverage.cut_short { "; the time was over before all were tried" } else { "" };
    let mut html = format!(
        "<h1>What a loss of power leaves</h1>\n<p class=\"soft\"><code>{}</code> · {} · seed {} · \
         Outlast {}</p>\n<div class=\"tiles\">\n{}{}{}{}</div>\n",
        escape(&report.program()),
        escape(&report.run.ended.to_string()),
        report.plan.seed,
        env!("CARGO_PKG_VERSION"),
        tile(verdict.0, &verdict.1, &format!("under {}", names.join(", "))),
        tile("", &changes.to_string(), &format!("changes, {syncs} syncs")),
        tile("", &acked.to_string(), "acknowledgements"),
        tile(
            "",
            &coverage.distinct.to_string(),
            &format!(
                "distinct states of {} tried at {} moments{cut}",
                coverage.states, coverage.moments
            )
        ),
    );
    for blind in &report.run.blind {
        html += &format!("<p class=\"verdict\">Not measured: {}.</p>\n", escape(blind));
    }
    html
}

fn findings(report: &Report, crashes: &[Option<Crash>]) -> String {
    if report.cases.is_empty() {
        return String::new();
    }
    let mut html = String::from("<section id=\"findings\"><h2>Findings</h2>\n");
    for (index, (case, crash)) in report.cases.iter().zip(crashes).enumerate() {
        html += &finding(report, case, crash.is_some().then_some(index));
    }
    html + "</section>\n"
}

fn finding(report: &Report, case: &Case, shown: Option<usize>) -> String {
    let finding = &case.finding;
    let mut rows = String::new();
    let mut row = |name: &str, text: &str| {
        rows += &format!("<dt>{name}</dt><dd>{text}</dd>\n");
    };
    let call = |call: &crate::run::Call| {
        let place = match call.place.as_str() {
            "" => String::new(),
            place => format!("<br><small>{}</small>", escape(place)),
        };
        format!("<code>{}</code>{place}", escape(&call.text))
    };
    let units = finding.lost_units.len();
    let more =
        if units > 1 { format!(" <small>and {} more</small>", units - 1) } else { String::new() };
    let lost = finding.lost_units.first().map_or("", String::as_str);
    row("Lost", &format!("<span class=\"key lost\"></span><code>{}</code>{more}", escape(lost)));
    if let Some(kept) = &finding.kept {
        row("Kept behind it", &format!("<span class=\"key kept\"></span>{}", call(kept)));
    }
    if let Some(fault) = &finding.fault {
        row("A call failed", &format!("<code>{}</code>", escape(fault)));
    }
    if let Some(first) = &finding.first_crash {
        row("In recovery from", &format!("<code>{}</code>", escape(first)));
    }
    row("Transactions", &format!("{} begun, {} acknowledged", finding.issued, finding.acked));
    row("Allowed by", &escape(&finding.models.join(", ")));
    row("Remedy", &escape(finding.class.remedy()));
    let states = if finding.count == 1 {
        "1 failing state".to_owned()
    } else {
        format!("{} failing states", finding.count)
    };
    row(
        "State",
        &format!("<code>{}</code> <small>{states} of this kind</small>", escape(&finding.state)),
    );
    if let Some(command) = report.replay(case) {
        row("Replay", &format!("<code>{}</code>", escape(&command)));
    }
    let button = match shown {
        Some(index) => format!(
            "<p class=\"tools\"><button type=\"button\" class=\"show\" data-finding=\"{index}\" hidden>Show \
             this crash</button></p>\n"
        ),
        None => String::new(),
    };
    format!(
        "<article class=\"finding\"><h3><span class=\"chip bad\">{}</span> {}</h3>\n<dl>\n{rows}</dl>\n\
         {button}</article>\n",
        finding.class.name(),
        escape(&finding.wrong)
    )
}

/// The check's verdict without each sync.
fn mutants(report: &Report) -> String {
    if report.mutants.is_empty() {
        return String::new();
    }
    let row = |mutant: &crate::files::Mutant| {
        let (class, told) = match &mutant.killed {
            Some(wrong) => ("good", escape(wrong)),
            None => {
                ("bad", "nothing fails: redundant in this run, or the check is blind".to_owned())
            }
        };
        format!(
            "<tr><th scope=\"row\"><code>{}</code></th><td class=\"text {class}\">{told}</td></tr>\n",
            escape(&mutant.call)
        )
    };
    let rows: String = report.mutants.iter().map(row).collect();
    format!(
        "<section id=\"mutants\"><h2>Without each sync</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\
         <thead><tr><th scope=\"col\">Left out</th><th scope=\"col\" class=\"text\">The check says</th>\
         </tr></thead>\n<tbody>{rows}</tbody></table></div></section>\n"
    )
}
