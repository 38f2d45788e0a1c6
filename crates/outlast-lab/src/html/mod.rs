//! The report page: one file, opened from disk, with no network and no script.
//!
//! The report's page opens with its answer ([`Answer`]): a few sentences, one figure, the numbers
//! that decide. Contents follow, then figures and tables, each with the conditions under which it
//! was measured; long tables and claims are folded. A section whose values were not measured is
//! left out, and the page says which. The page is made from a [`Document`] and nothing else, so it
//! can be made again from `results.json`.

mod crash;
mod native;
mod paper;
mod table;
mod verdicts;

use crate::answer::Answer;
use crate::format;
use crate::papers::{self, Paper};
use crate::record::Document;

pub(crate) use crash::count_cell;
pub(crate) use table::rows as table_rows;

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// One part of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    /// Empty where nothing was measured.
    body: String,
}

/// The page of a paper's figures measured again.
pub fn paper(paper: &dyn Paper, document: &Document) -> String {
    let mut sections = vec![verdicts::claims(document, "Claims")];
    sections.extend(paper::sections(paper, document));
    assemble(document, &format!("{} again", paper.title()), "", &sections)
}

/// The whole page.
pub fn page(document: &Document) -> String {
    let (papers, own) = papers::split(document);
    let mut sections = vec![
        native::throughput(&own),
        native::cost(&own),
        native::parts(&own),
        native::medium(&own),
        native::latency(&own),
        native::floor(&own),
        native::distance(&own),
        crash::campaigns(&own),
        crash::planted(&own),
        verdicts::claims(&own, "Own goals"),
    ];
    sections.extend(papers.iter().map(|(paper, mine)| paper::in_report(*paper, mine)));
    assemble(document, "Outlast report", &answer(document), &sections)
}

/// What the report found, before anything else.
fn answer(document: &Document) -> String {
    let answer = Answer::of(document);
    if answer.sentences.is_empty() {
        return String::new();
    }
    let sentence = |text: &String| format!("<li>{}</li>\n", with_code(text));
    let sentences: String = answer.sentences.iter().map(sentence).collect();
    let mut html = format!("<ul class=\"answer\">\n{sentences}</ul>\n");
    let caption = "Geometric mean over the works that all of these schemes ran; in brackets what \
                   a scheme guarantees about a crash.";
    if !answer.speeds.is_empty() {
        html += &figure(&answer.figure(), caption, document);
    }
    html
}

/// Text in which code words stand between backquotes, as HTML.
fn with_code(text: &str) -> String {
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    text.split('`').enumerate().map(part).collect()
}

/// Links to the sections.
fn contents(sections: &[Section]) -> String {
    let shown = sections.iter().filter(|section| !section.body.is_empty());
    let mut links: Vec<(&str, &str)> = Vec::new();
    for section in shown {
        if links.iter().all(|(id, _)| *id != section.id) {
            links.push((section.id, section.title));
        }
    }
    links.push(("conditions", "Conditions"));
    let links: String = links
        .iter()
        .map(|(id, title)| format!("<li><a href=\"#{id}\">{title}</a></li>\n"))
        .collect();
    format!("<nav aria-label=\"Contents\"><ul>\n{links}</ul></nav>\n")
}

/// Something that is shown when it is asked for.
fn folded(summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary>\n{body}</details>\n")
}

/// A page of these sections behind its opening; empty ones are named at its end.
fn assemble(document: &Document, title: &str, opening: &str, sections: &[Section]) -> String {
    let mut body = header(document, title);
    body += opening;
    body += &verdicts::tiles(document);
    body += &contents(sections);
    let mut opened: Vec<&str> = Vec::new();
    for section in sections.iter().filter(|section| !section.body.is_empty()) {
        // A paper's figure may have several parts: the contents lead to the first.
        let id = match opened.contains(&section.id) {
            true => String::new(),
            false => format!(" id=\"{}\"", section.id),
        };
        opened.push(section.id);
        body += &format!("<section{id}><h2>{}</h2>\n", section.title);
        body += &section.body;
        body += "</section>\n";
    }
    let absent: Vec<_> =
        sections.iter().filter(|section| section.body.is_empty()).map(|s| s.title).collect();
    body += &conditions(document, &absent);
    whole(title, &body)
}

/// A page of a document that has one part.
pub(crate) fn document_page(document: &Document, title: &str, body: &str) -> String {
    whole(title, &format!("{}{body}{}", header(document, title), conditions(document, &[])))
}

fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{}</style></head>\n<body>\n{body}</body></html>\n",
        include_str!("style.css")
    )
}

fn header(document: &Document, title: &str) -> String {
    format!(
        "<h1>{title}</h1>\n<p class=\"soft\"><code>{}</code> · seed {}{} · Outlast {}<br>{}</p>\n",
        escape(&document.command),
        document.seed,
        commit(document),
        escape(&document.outlast),
        escape(&document.machine.summary()),
    )
}

fn commit(document: &Document) -> String {
    document.commit.as_ref().map(|hash| format!(" · commit {}", escape(hash))).unwrap_or_default()
}

/// What stands under every figure: enough to tell two figures of two runs apart.
pub(crate) fn figure(svg: &str, caption: &str, document: &Document) -> String {
    format!(
        "<figure>{svg}<figcaption>{} Seed {}{}.</figcaption></figure>\n",
        caption,
        document.seed,
        commit(document),
    )
}

/// The settings of the chosen records as a sentence: domain, configuration, rounds.
fn settings<'a>(records: impl Iterator<Item = &'a crate::record::Record>) -> String {
    let mut facts: Vec<String> = Vec::new();
    let mut add = |fact: String| {
        if !facts.contains(&fact) {
            facts.push(fact);
        }
    };
    for record in records {
        record.domain.iter().for_each(|domain| add(format!("domain {}", escape(domain))));
        record.config.iter().for_each(|config| add(escape(config)));
        record.rounds.iter().for_each(|rounds| add(format!("{rounds} interleaved rounds")));
    }
    if facts.is_empty() { String::new() } else { format!("Conditions: {}.", facts.join("; ")) }
}

fn conditions(document: &Document, absent: &[&str]) -> String {
    let machine = &document.machine;
    let mut rows = vec![
        ("Processor", machine.cpu_model.clone()),
        ("Logical cores", machine.cores.to_string()),
        ("Line flush", machine.flush_instruction.clone()),
        ("MOVDIR64B", if machine.movdir64b { "yes" } else { "no" }.to_owned()),
        ("System", machine.kernel.clone()),
        ("Command", document.command.clone()),
        ("Seed", document.seed.to_string()),
    ];
    if machine.memory_bytes > 0 {
        rows.push(("Memory", format::bytes(machine.memory_bytes)));
    }
    for cache in &machine.caches {
        let ways = if cache.ways > 0 { format!(", {} ways", cache.ways) } else { String::new() };
        rows.push((
            "Cache",
            format!("L{} {} {}{ways}", cache.level, cache.kind, format::bytes(cache.size_bytes)),
        ));
    }
    if let Some(hash) = &document.commit {
        rows.push(("Commit", hash.clone()));
    }
    let mut html = String::from("<section id=\"conditions\"><h2>Conditions</h2>\n");
    if !absent.is_empty() {
        html += &format!("<p>Not measured in this run: {}.</p>\n", absent.join("; "));
    }
    html += "<div class=\"scroll\"><table><tbody>\n";
    for (name, value) in rows {
        html += &format!("<tr><th>{name}</th><td class=\"text\">{}</td></tr>\n", escape(&value));
    }
    html += "</tbody></table></div>\n<p class=\"soft\">All values are in <code>results.json</code> \
             beside this page, one record each.</p></section>\n";
    html
}

#[cfg(test)]
pub(crate) mod tests;
