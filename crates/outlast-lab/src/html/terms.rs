//! Terms of the field, explained where they first stand, from `docs/glossary.md`.

use std::sync::LazyLock;

use super::escape;

/// What a page explains: terms that a newcomer meets, in the glossary's spelling.
const TERMS: [&str; 18] = [
    "crash point",
    "undo record",
    "redo record",
    "scheme",
    "durable",
    "oracle",
    "image",
    "fence",
    "flush",
    "evict",
    "epoch",
    "lane",
    "line",
    "pool",
    "journal",
    "domain",
    "acknowledge",
    "checkpoint",
];

/// In these nothing is explained: code, links, headings and controls.
const UNTOUCHED: [&str; 18] = [
    "code", "svg", "script", "style", "a", "h1", "h2", "h3", "h4", "summary", "button", "title",
    "option", "select", "dfn", "label", "th", "caption",
];

/// Terms with their meanings, in the order of [`TERMS`].
static MEANINGS: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let glossary = include_str!("glossary.md");
    let row = |line: &'static str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        Some((cells.next()?, cells.next()?))
    };
    let rows: Vec<(&str, &str)> = glossary.lines().filter_map(row).collect();
    let of = |term: &&'static str| {
        let meaning = rows.iter().find(|(name, _)| name == term)?.1;
        Some((*term, meaning.replace('`', "")))
    };
    TERMS.iter().filter_map(of).collect()
});

/// The list of all of them.
pub(super) fn list() -> String {
    let items: String = MEANINGS
        .iter()
        .map(|(term, meaning)| format!("<dt>{term}</dt><dd>{}</dd>\n", escape(meaning)))
        .collect();
    super::folded("Terms", &format!("<dl>{items}</dl>\n"))
}

/// The page with each term's first place in running text explained.
pub(super) fn explained(html: &str) -> String {
    let mut left: Vec<&(&str, String)> = MEANINGS.iter().collect();
    let mut out = String::with_capacity(html.len() + 4096);
    let mut untouched = 0usize;
    for (number, part) in html.split('<').enumerate() {
        let (tag, text) = match number {
            0 => ("", part),
            _ => part.split_once('>').map_or((part, ""), |(tag, text)| (tag, text)),
        };
        if number > 0 {
            out.push('<');
            out.push_str(tag);
            if tag.len() < part.len() {
                out.push('>');
            }
            let name = tag.trim_start_matches('/');
            let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            if UNTOUCHED.contains(&name) {
                match tag.starts_with('/') {
                    true => untouched = untouched.saturating_sub(1),
                    false => untouched += 1,
                }
            }
        }
        match untouched {
            0 => out.push_str(&with_terms(text, &mut left)),
            _ => out.push_str(text),
        }
    }
    out
}

fn with_terms(text: &str, left: &mut Vec<&(&str, String)>) -> String {
    let mut text = text.to_owned();
    let mut begin = 0;
    // From left to right, so that no term is looked for in what another one put there.
    while let Some((at, term)) = next_term(&text[begin..], left) {
        let (name, meaning) = left.remove(term);
        let at = begin + at;
        let word = &text[at..at + name.len()];
        let put = format!("<dfn title=\"{}\">{word}</dfn>", escape(meaning));
        text.replace_range(at..at + name.len(), &put);
        begin = at + put.len();
    }
    text
}

/// The first of the terms that stands in a text as a word by itself, or in the plural.
fn next_term(text: &str, left: &[&(&str, String)]) -> Option<(usize, usize)> {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-');
    let place = |name: &str| {
        text.match_indices(name).map(|(at, _)| at).find(|at| {
            let rest = text[at + name.len()..].trim_start_matches('s').chars().next();
            !is_letter(text[..*at].chars().next_back()) && !is_letter(rest)
        })
    };
    let found = left.iter().enumerate();
    let found = found.filter_map(|(term, (name, _))| Some((place(name)?, term)));
    found.min_by_key(|(at, term)| (*at, *term))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glossary_has_every_term() {
        assert_eq!(MEANINGS.len(), TERMS.len());
    }

    #[test]
    fn a_term_is_explained_once_and_not_in_code_or_tags() {
        let html = "<code>flush a line</code><p title=\"a line\">Two lines, an outline and a \
                    line.</p><h2>Images</h2>";
        let told = explained(html);
        assert_eq!(told.matches("<dfn").count(), 1, "{told}");
        assert!(told.contains("Two <dfn title=\"64 bytes"), "{told}");
        assert!(told.contains(">line</dfn>s, an outline and a line.</p><h2>Images</h2>"), "{told}");
        assert!(told.starts_with("<code>flush a line</code><p title=\"a line\">"));
    }
}
