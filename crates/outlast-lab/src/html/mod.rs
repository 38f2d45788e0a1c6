//! The report page: one file, opened from disk, with no network.
//!
//! The report's page opens with its answer ([`Answer`]): a few sentences, one figure, the numbers
//! that decide. Contents follow, then the story, chapter by chapter (`story`); figures and tables
//! say what was compared and how to repeat it, and detail is folded. A section whose values were
//! not measured is left out, and the page says which. The page is made from a [`Document`] and
//! nothing else, so it can be made again from `results.json`.
//!
//! Everything can be read without a script. `page.js` adds what paper cannot: tables that sort and
//! filter, figures that zoom and switch series, and one explained crash at a time.

mod beside;
mod crash;
mod explorer;
mod native;
mod paper;
mod power;
mod story;
mod table;
mod terms;
mod verdicts;

use crate::answer::{Advice, Answer};
use crate::format;
use crate::papers::Paper;
use crate::record::{Document, Metric};

pub(crate) use crash::count_cell;
pub(crate) use table::rows as table_rows;

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// How values come about.
const METHOD: &str = "<p>Subjects that are compared run in turns of the same round on the same \
    memory, so that what disturbs one disturbs all; medians and quartiles are over rounds. Crashes \
    run the production code on memory that records every store, flush and fence; each image is \
    recovered by the production code and judged by an oracle that shares no code with it. Hardware \
    schemes run on a timed machine, a function of its configuration, its program and the seed.</p>\n";

/// One part of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    /// Empty where nothing was measured.
    body: String,
}

/// A chapter of the page.
struct Chapter {
    id: &'static str,
    title: &'static str,
    /// What it answers.
    about: String,
    /// What it opens with, and what is folded.
    sections: Vec<Section>,
    /// How many of the sections stand open.
    open: usize,
}

/// The page of a paper's figures measured again.
pub fn paper(paper: &dyn Paper, document: &Document) -> String {
    let mut sections = vec![verdicts::claims(document, "Claims")];
    sections.extend(paper::sections(paper, document));
    let chapter = Chapter {
        id: "figures",
        title: "Figures and claims",
        about: String::new(),
        open: sections.len(),
        sections: merged(sections),
    };
    assemble(document, &format!("{} again", paper.title()), "", &[chapter])
}

/// Sections of one figure as one.
fn merged(sections: Vec<Section>) -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    for section in sections {
        match all.iter_mut().find(|other| other.id == section.id) {
            Some(other) if section.title != other.title && !section.body.is_empty() => {
                other.body += &format!("<h4>{}</h4>\n{}", section.title, section.body);
            }
            Some(other) => other.body += &section.body,
            None => all.push(section),
        }
    }
    all
}

/// The page of a document that explains crashes.
pub fn explained(document: &Document) -> String {
    let explorer::Shown { title, body } = explorer::alone(&document.explained);
    document_page(document, &title, &body)
}

/// The whole page: its answer, then the story.
pub fn page(document: &Document) -> String {
    let opening = answer(document) + &beside::engines(document);
    assemble(document, "Outlast report", &opening, &story::chapters(document))
}

/// What the report found, before anything else.
fn answer(document: &Document) -> String {
    let answer = Answer::of(document);
    if answer.sentences.is_empty() {
        return String::new();
    }
    let advice = advice(&answer.advice);
    let sentence = |text: &String| format!("<li>{}</li>\n", with_code(text));
    let sentences: String = answer.sentences.iter().map(sentence).collect();
    let mut html = format!("<ul class=\"answer\">\n{sentences}</ul>\n");
    if !answer.speeds.is_empty() {
        let caption = format!(
            "Throughput over that of <code>{}</code>, transactions per second over transactions \
             per second: the geometric mean over the {} works that all of these schemes ran; in \
             brackets what a scheme guarantees about a crash.",
            escape(&answer.base),
            answer.works
        );
        let command = native::command(document, Metric::THROUGHPUT);
        html += &figure(&answer.figure(), &caption, &command, document);
    }
    format!("{advice}<div class=\"opening\">\n{html}</div>\n")
}

/// Which scheme for which situation.
fn advice(all: &[Advice]) -> String {
    let row = |advice: &Advice| {
        let Advice { situation, choose, because } = advice;
        vec![
            format!("<th scope=\"row\">{}</th>", escape(situation)),
            format!("<td class=\"text\">{}</td>", with_code(choose)),
            format!("<td class=\"text\">{}</td>", with_code(because)),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!(
            "<section id=\"advice\"><h2>What to choose, by this run</h2>\n{}</section>\n",
            table::rows("", &["Situation", "Choose", "Because"], |_| true, &rows)
        ),
    }
}

/// Text in which code words stand between backquotes, as HTML.
fn with_code(text: &str) -> String {
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    text.split('`').enumerate().map(part).collect()
}

/// Links to the chapters and what they hold.
fn contents(chapters: &[Chapter]) -> String {
    let link = |id: &str, title: &str| format!("<a href=\"#{id}\">{title}</a>");
    let mut items = String::new();
    for chapter in chapters.iter().filter(|chapter| chapter.is_measured()) {
        let shown = chapter.sections.iter().filter(|section| !section.body.is_empty());
        let inner: Vec<String> = shown.map(|section| link(section.id, section.title)).collect();
        items += &format!(
            "<li>{}<br><small>{}</small></li>\n",
            link(chapter.id, chapter.title),
            inner.join(" · ")
        );
    }
    items += &format!("<li>{}</li>\n", link("method", "Method"));
    format!("<nav aria-label=\"Contents\"><ul>\n{items}</ul></nav>\n")
}

impl Chapter {
    fn is_measured(&self) -> bool {
        self.sections.iter().any(|section| !section.body.is_empty())
    }

    fn html(&self) -> String {
        let mut html =
            format!("<section id=\"{}\"><h2>{}</h2>\n{}", self.id, self.title, self.about);
        let shown = self.sections.iter().filter(|section| !section.body.is_empty());
        for (number, Section { id, title, body }) in shown.enumerate() {
            html += &match number < self.open {
                true => format!("<section id=\"{id}\"><h3>{title}</h3>\n{body}</section>\n"),
                false => format!(
                    "<details id=\"{id}\"><summary><h3>{title}</h3></summary>\n{body}</details>\n"
                ),
            };
        }
        html + "</section>\n"
    }
}

/// Something that is shown when it is asked for.
fn folded(summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary>\n{body}</details>\n")
}

/// A page of these chapters behind its opening; empty sections are named at its end.
fn assemble(document: &Document, title: &str, opening: &str, chapters: &[Chapter]) -> String {
    let mut body = header(document, title);
    body += opening;
    body += &verdicts::tiles(document);
    body += &contents(chapters);
    for chapter in chapters.iter().filter(|chapter| chapter.is_measured()) {
        body += &chapter.html();
    }
    let sections = chapters.iter().flat_map(|chapter| &chapter.sections);
    let absent: Vec<_> =
        sections.filter(|section| section.body.is_empty()).map(|s| s.title).collect();
    body += &method(document, &absent);
    whole(title, &body)
}

/// A page of a document that has one part.
pub(crate) fn document_page(document: &Document, title: &str, body: &str) -> String {
    whole(title, &format!("{}{body}{}", header(document, title), method(document, &[])))
}

fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{}</style></head>\n<body>\n<a class=\"skip\" \
         href=\"#main\">To the content</a>\n<main id=\"main\">\n{}</main>\n<script>\n{}</script>\n\
         </body></html>\n",
        include_str!("style.css"),
        terms::explained(body),
        include_str!("page.js"),
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

/// A figure with what stands under it: what was compared, and the command that repeats it.
pub(crate) fn figure(svg: &str, caption: &str, command: &str, document: &Document) -> String {
    format!(
        "<figure><div class=\"plot\" tabindex=\"0\" role=\"group\" aria-label=\"Figure, \
         scrolls where there is no room\">{svg}</div><figcaption>{caption} Seed {}{}. <span \
         class=\"command\">Again: <code>{}</code></span></figcaption></figure>\n",
        document.seed,
        commit(document),
        escape(command),
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

/// The machine and the command, what was left out, and the terms.
fn method(document: &Document, absent: &[&str]) -> String {
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
    let mut html = String::from("<section id=\"method\"><h2>Method</h2>\n");
    html += METHOD;
    if !absent.is_empty() {
        html += &format!("<p>Not measured in this run: {}.</p>\n", absent.join("; "));
    }
    html += "<div class=\"scroll\"><table><tbody>\n";
    for (name, value) in rows {
        html += &format!(
            "<tr><th scope=\"row\">{name}</th><td class=\"text\">{}</td></tr>\n",
            escape(&value)
        );
    }
    html += "</tbody></table></div>\n<p>All values are in <a \
             href=\"results.json\">results.json</a> beside this page, one record each.</p>\n";
    html += &terms::list();
    html + "</section>\n"
}

#[cfg(test)]
pub(crate) mod tests;

#[cfg(all(test, unix, not(miri)))]
mod browser_tests;
