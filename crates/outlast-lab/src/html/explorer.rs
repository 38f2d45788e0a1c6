//! The crash explorer: one explained crash after the other, picked from a list.

use outlast_crash::explain::{Event, Explanation, Fate, Line, Recovery, Run};

use super::{Section, escape};

/// The section. Every crash is a part of the page by itself, so that it can be linked to and read
/// without a script; the script shows one at a time.
pub(super) fn section(told: &[Explanation]) -> Section {
    let mut body = String::new();
    if !told.is_empty() {
        body += "<p>Pick a published flaw or a planted bug and see one crash that it loses: the \
                 operations before it, which <dfn title=\"64 bytes: the unit of caching and of \
                 persistence\">lines</dfn> had reached memory, what recovery did with the image, \
                 and what the <dfn title=\"decides whether a recovered state is legal\">oracle</dfn> \
                 expected. All were made by this run.</p>\n";
        body += &picker(told);
        for (index, told) in told.iter().enumerate() {
            body += &crash(index, told);
        }
    }
    Section { id: "explorer", title: "Crash explorer", body }
}

/// A page of crashes and nothing else.
pub(super) struct Shown {
    pub title: String,
    pub body: String,
}

/// The crashes as a page of their own.
pub(super) fn alone(told: &[Explanation]) -> Shown {
    let title = match told {
        [one] => format!("A crash of {}", escape(&one.title())),
        _ => "Crash explorer".to_owned(),
    };
    let mut body = if told.len() > 1 { picker(told) } else { String::new() };
    body.extend(told.iter().enumerate().map(|(index, told)| crash(index, told)));
    Shown { title, body }
}

fn picker(told: &[Explanation]) -> String {
    let mut groups: Vec<(&str, String)> = Vec::new();
    for (index, told) in told.iter().enumerate() {
        let option = format!(
            "<option value=\"{}\">{}: {}</option>\n",
            id(index),
            escape(&told.title()),
            escape(&told.about)
        );
        let group = paper_of(&told.flaw);
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, options)) => *options += &option,
            None => groups.push((group, option)),
        }
    }
    let groups: String = groups
        .iter()
        .map(|(name, options)| format!("<optgroup label=\"{name}\">{options}</optgroup>\n"))
        .collect();
    format!(
        "<p class=\"controls\" hidden><label>Flaw <select id=\"flaw\">{groups}</select></label></p>\n"
    )
}

/// The series of numbers that a flaw belongs to, if it is a paper's.
fn paper_of(flaw: &str) -> &str {
    let is_series = |name: &str| name.chars().all(|c| c.is_ascii_uppercase());
    match flaw.split_once('-') {
        Some((series, _)) if is_series(series) => series,
        _ => "Planted bugs of the runtime",
    }
}

fn id(index: usize) -> String {
    format!("crash-{index}")
}

fn crash(index: usize, told: &Explanation) -> String {
    let mut html = format!(
        "<details class=\"crash\" id=\"{}\"{}><summary>{}: {}</summary>\n",
        id(index),
        if index == 0 { " open" } else { "" },
        escape(&told.title()),
        escape(&told.about)
    );
    html += &format!(
        "<p class=\"verdict\"><span class=\"chip not_reached\">✗</span> {}</p>\n<p>Program: {}. \
         Guarantee: {}.</p>\n",
        escape(&told.verdict),
        escape(&told.program),
        escape(&told.guarantee),
    );
    html += &transactions(told);
    for run in &told.runs {
        html += &time_line(run);
        html += &lines(run);
    }
    html += &recovery(&told.recovery);
    html += &compared(told);
    html +=
        &format!("<p class=\"command\"><code>{}</code></p>\n</details>\n", escape(&told.replay));
    html
}

fn transactions(told: &Explanation) -> String {
    let item = |tx: &outlast_crash::explain::Transaction| {
        let sign = if tx.acknowledged { "acknowledged" } else { "not acknowledged" };
        let (id, lane, does) = (tx.id, tx.lane, escape(&tx.does));
        format!("<li>transaction {id} on lane {lane}, {sign}: {does}</li>\n")
    };
    let items: String = told.transactions.iter().map(item).collect();
    let schedule = match told.schedule.as_str() {
        "" => String::new(),
        schedule => format!("<p>Schedule: {}.</p>\n", escape(schedule)),
    };
    match items.is_empty() {
        true => schedule,
        false => format!("<h4>Transactions</h4>\n<ul>{items}</ul>\n{schedule}"),
    }
}

fn time_line(run: &Run) -> String {
    let item = |event: &Event| {
        let class = event.fate.map_or("", class);
        let sign = event.fate.map_or(String::new(), |fate| {
            format!("<span aria-hidden=\"true\">{}</span> ", fate.sign())
        });
        let fate = event.fate.map_or(String::new(), |fate| format!(" <i>{fate}</i>"));
        let lane = event.lane.map(|lane| format!("lane {lane} ")).unwrap_or_default();
        let place = match event.place.as_str() {
            "" => String::new(),
            place => format!(" <small>{}</small>", escape(place)),
        };
        let crash = if event.at >= run.crash_at { " behind" } else { "" };
        format!(
            "<li class=\"{class}{crash}\"><b>{}</b> {lane}{sign}{}{place}{fate}</li>\n",
            event.at,
            escape(&event.what)
        )
    };
    let before = match run.left_out {
        0 => String::new(),
        left_out => format!("<li class=\"more\">… {left_out} earlier ones are left out</li>\n"),
    };
    let items: String = run.events.iter().map(item).collect();
    format!(
        "<h4>Time line of {}</h4>\n<ol class=\"line\" tabindex=\"0\" aria-label=\"Time line of \
         {}\">\n{before}{items}<li class=\"end\">crash before {} {}</li></ol>\n",
        escape(&run.name),
        escape(&run.name),
        run.unit,
        run.crash_at
    )
}

fn class(fate: Fate) -> &'static str {
    match fate {
        Fate::Durable => "durable",
        Fate::Reached => "reached",
        Fate::Part => "part",
        Fate::Missing => "missing",
    }
}

/// The image, line by line: one square a word, and the words that differ.
fn lines(run: &Run) -> String {
    let row = |line: &Line| {
        let square = |number: u64| {
            let word = line.words.iter().find(|word| word.at == line.at + 8 * number);
            let class = match word {
                None => "same",
                Some(word) if word.image == word.newest => "durable",
                Some(word) if word.image == word.before => "missing",
                Some(_) => "part",
            };
            let title = word.map_or_else(
                || "not changed".to_owned(),
                |word| {
                    format!(
                        "{:#x}: {:#x} before, {:#x} in the image, {:#x} stored last",
                        word.at, word.before, word.image, word.newest
                    )
                },
            );
            format!("<span class=\"{class}\" title=\"{title}\"></span>")
        };
        let squares: String = (0..8).map(square).collect();
        let differ = line.words.iter().filter(|word| word.image != word.newest);
        let told: Vec<String> =
            differ.map(|word| format!("{:#x} instead of {:#x}", word.image, word.newest)).collect();
        format!(
            "<tr><th scope=\"row\">{:#x}</th><td class=\"text\">{}</td><td class=\"words\">\
             {squares}</td><td class=\"text\">{} {}</td><td class=\"text\">{}</td></tr>\n",
            line.at,
            escape(&line.place),
            line.fate.sign(),
            line.fate,
            told.join(", ")
        )
    };
    if run.lines.is_empty() {
        return String::new();
    }
    let rows: String = run.lines.iter().map(row).collect();
    let more = match run.lines_left_out {
        0 => String::new(),
        left_out => format!("<p class=\"soft\">{left_out} more lines are left out.</p>\n"),
    };
    format!(
        "<h4>The image: lines that it stored to</h4>\n<div class=\"scroll\"><table class=\"image\">\
         <thead><tr><th scope=\"col\">Line</th><th scope=\"col\" class=\"text\">What lies there</th>\
         <th scope=\"col\" class=\"text\">Its words</th><th scope=\"col\" class=\"text\">At the \
         crash</th><th scope=\"col\" class=\"text\">In the image</th></tr></thead>\n<tbody>{rows}\
         </tbody></table></div>\n{more}"
    )
}

fn recovery(recovery: &Recovery) -> String {
    let mut html = String::from("<h4>What recovery did</h4>\n");
    if !recovery.read.is_empty() {
        html += &format!("<p>It read {}.</p>\n", escape(&recovery.read.join(", ")));
    }
    let step = |step: &outlast_crash::explain::Step| {
        let place = match step.place.as_str() {
            "" => String::new(),
            place => format!(" <small>{}</small>", escape(place)),
        };
        format!("<li>{}{place}</li>\n", escape(&step.what))
    };
    let steps: String = recovery.steps.iter().map(step).collect();
    if !steps.is_empty() {
        let more = match recovery.left_out {
            0 => String::new(),
            left_out => format!("<li class=\"more\">and {left_out} more steps</li>\n"),
        };
        html += &format!(
            "<ol class=\"line\" tabindex=\"0\" aria-label=\"Steps of recovery\">{steps}{more}</ol>\n"
        );
    }
    html + &format!("<p>It came to: {}.</p>\n", escape(&recovery.outcome))
}

fn compared(told: &Explanation) -> String {
    let row = |row: &outlast_crash::explain::Compared| {
        let (class, sign) = if row.is_allowed { ("good", "✓") } else { ("bad", "✗") };
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"text\">{}</td><td class=\"text {class}\">\
             {sign} {}</td></tr>\n",
            escape(&row.what),
            escape(&row.expected),
            escape(&row.found)
        )
    };
    if told.compared.is_empty() {
        return String::new();
    }
    let rows: String = told.compared.iter().map(row).collect();
    format!(
        "<h4>What the oracle expected and found</h4>\n<div class=\"scroll\"><table><thead><tr>\
         <th scope=\"col\">Compared</th><th scope=\"col\" class=\"text\">Expected</th><th \
         scope=\"col\" class=\"text\">Found</th></tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
    )
}
