//! The rules of prose: sentences, house terms, spelling, links, the book's contents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Words of the longest sentence.
const SENTENCE_WORDS_MAX: usize = 45;

/// Words of the median sentence of a page, at most.
const SENTENCE_WORDS_MEDIAN: usize = 20;

/// A piece with fewer words is a label, not a sentence: it does not count for the median.
const SENTENCE_WORDS_MIN: usize = 4;

/// Words that stand where a thing has a name.
const NAMELESS: &[&str] = &["whoever", "nobody", "somebody", "everybody", "anybody"];

/// A page that is no chapter of the book: its table of contents.
const CONTENTS: &str = "SUMMARY.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages of `docs/`, by name, in order.
fn pages() -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(root().join("docs")).expect("the folder of pages");
    let paths = entries.map(|entry| entry.expect("an entry of it").path());
    let pages = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    pages.map(|path| (name(&path), read(&path))).collect()
}

/// The pages beside the code, every one of the book and those of the crates, each by its path.
fn documents() -> BTreeMap<String, String> {
    let outside = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    let outside = outside.map(|name| (name.to_owned(), read(&root().join(name))));
    let pages = pages().into_iter().map(|(name, text)| (format!("docs/{name}"), text));
    let crates = std::fs::read_dir(root().join("crates")).expect("the folder of crates");
    let crates = crates.filter_map(|entry| {
        let path = entry.expect("an entry of it").path().join("README.md");
        let name = path.strip_prefix(root()).expect("it is below").display().to_string();
        path.exists().then(|| (name, read(&path)))
    });
    outside.into_iter().chain(pages).chain(crates).collect()
}

/// A run of prose: a paragraph, an item of a list or a cell of a table, and the line where it begins.
struct Block {
    line: usize,
    text: String,
}

/// The prose of a page, without code, headings and comments; links are their texts.
fn prose(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    let (mut is_code, mut is_comment) = (false, false);
    for (at, line) in page.lines().enumerate() {
        let text = line.trim();
        let fence = text.starts_with("```");
        is_code ^= fence;
        is_comment |= text.starts_with("<!--");
        if fence || is_code || is_comment || text.is_empty() || text.starts_with('#') {
            is_comment &= !text.contains("-->");
            is_open = false;
            continue;
        }
        let mut add = |text: &str| blocks.push(Block { line: at + 1, text: text.to_owned() });
        if text.starts_with('|') {
            text.trim_matches('|').split('|').for_each(|cell| add(cell.trim()));
            is_open = false;
            continue;
        }
        let item = text.strip_prefix("- ").or_else(|| text.strip_prefix("* "));
        let numbered = || text.split_once(". ").filter(|(n, _)| n.parse::<u32>().is_ok());
        match item.or_else(|| numbered().map(|(_, rest)| rest)) {
            Some(rest) => add(rest),
            None if !is_open => add(text),
            None => {
                let block = blocks.last_mut().expect("an open block");
                block.text.push(' ');
                block.text.push_str(text);
            }
        }
        is_open = true;
    }
    for block in &mut blocks {
        block.text = plain(&block.text);
    }
    blocks
}

/// A text without the marks of code, links and emphasis. Code becomes one word.
fn plain(text: &str) -> String {
    let without_code: String = text
        .split('`')
        .enumerate()
        .map(|(at, piece)| if at % 2 == 0 { piece } else { "CODE" })
        .collect();
    let mut plain = String::new();
    let mut rest = without_code.as_str();
    while let Some(at) = rest.find("](") {
        plain.push_str(&rest[..at]);
        rest = rest[at..].find(')').map_or("", |end| &rest[at + end + 1..]);
    }
    plain.push_str(rest);
    plain.replace(['[', ']', '*'], "")
}

/// The sentences of a text: they end with a mark and a space.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    let mut marks = text.char_indices().peekable();
    while let Some((at, mark)) = marks.next() {
        let is_end = matches!(mark, '.' | '!' | '?')
            && marks.peek().is_none_or(|(_, next)| next.is_whitespace());
        if is_end {
            found.push(text[from..=at].trim());
            from = at + 1;
        }
    }
    found.push(text[from..].trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

fn words_of(sentence: &str) -> usize {
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    sentence.split_whitespace().filter(is_word).count()
}

/// Breaches of the rules of sentences in a page, each in one line.
fn breaches(name: &str, page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lengths = Vec::new();
    for block in prose(page) {
        for sentence in sentences(&block.text) {
            let words = words_of(sentence);
            if words >= SENTENCE_WORDS_MIN {
                lengths.push(words);
            }
            if words > SENTENCE_WORDS_MAX {
                let begin: String = sentence.chars().take(60).collect();
                found.push(format!("{name}:{}: a sentence of {words} words: {begin}…", block.line));
            }
            let lower = sentence.to_lowercase();
            let nameless = lower.split(|c: char| !c.is_alphabetic());
            for word in nameless.filter(|word| NAMELESS.contains(word)) {
                found.push(format!(
                    "{name}:{}: `{word}` stands where a thing has a name",
                    block.line
                ));
            }
        }
    }
    lengths.sort_unstable();
    if let Some(median) =
        lengths.get(lengths.len() / 2).filter(|words| **words > SENTENCE_WORDS_MEDIAN)
    {
        found.push(format!("{name}: the median sentence has {median} words"));
    }
    found
}

#[test]
fn sentences_are_short_and_name_their_things() {
    let documents = documents();
    assert!(documents.len() > 20);
    let found: Vec<String> =
        documents.iter().flat_map(|(name, page)| breaches(name, page)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_long_sentence_and_a_nameless_one_are_found() {
    let long = |words: usize| format!("# Page\n\n{}end.\n", "word ".repeat(words - 1));
    assert_eq!(breaches("page", &long(20)), [""; 0]);
    assert_eq!(breaches("page", &long(21)).len(), 1, "of the median");
    assert_eq!(breaches("page", &long(46)).len(), 2);
    assert_eq!(breaches("page", "A lock that nobody holds.").len(), 1);
    let code = format!("```\n{}\n```\n\nIt is `{}`.", long(50), "word ".repeat(50));
    assert_eq!(breaches("page", &code), [""; 0]);
    let item = format!("- {}end.\n- Two.\n", "word ".repeat(45));
    assert!(breaches("page", &item)[0].starts_with("page:1: a sentence of 46 words"));
}

/// Crates whose documentation keeps to the longest sentence. The list only gets longer.
const DOCUMENTED: &[&str] = &[
    "outlast-c",
    "outlast-crash",
    "outlast-derive",
    "outlast-matrix",
    "outlast-peers",
    "outlast-pmem",
    "outlast-rtl",
    "outlast-schemes",
    "outlast-sim",
    "outlast-sqlite",
    "outlast-trace",
    "outlast-tracer",
    "outlast-workloads",
];

/// Sentences of documentation comments that are too long, each in one line.
fn long_comments(name: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let comment = |line: &'_ str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        text.map(|text| text.strip_prefix(' ').unwrap_or(text).to_owned())
    };
    // Code becomes empty lines, so that lines keep their numbers.
    let text: Vec<String> = source.lines().map(|line| comment(line).unwrap_or_default()).collect();
    for block in prose(&text.join("\n")) {
        for words in sentences(&block.text).into_iter().map(words_of) {
            if words > SENTENCE_WORDS_MAX {
                found.push(format!("{name}:{}: a sentence of {words} words", block.line));
            }
        }
    }
    found
}

#[test]
fn documentation_has_short_sentences() {
    let mut found = Vec::new();
    for name in DOCUMENTED {
        let mut files = Vec::new();
        super::sources(&root().join("crates").join(name).join("src"), &mut files);
        assert!(!files.is_empty(), "{name}");
        for file in files {
            found.extend(long_comments(&file.display().to_string(), &read(&file)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Lines of comments with words that stand where a thing has a name.
fn nameless_comments(name: &str, source: &str) -> Vec<String> {
    let is_nameless = |comment: &str| {
        let comment = comment.to_lowercase();
        let mut words = comment.split(|c: char| !c.is_alphabetic());
        comment.contains("so many ") || words.any(|word| NAMELESS.contains(&word))
    };
    let comments = source.lines().zip(1..).filter_map(|(line, number)| {
        let (code, comment) = line.split_once("// ").or_else(|| line.split_once("//! "))?;
        let is_comment = code.trim_end_matches('/').trim().is_empty();
        (is_comment && is_nameless(comment)).then(|| format!("{name}:{number}: {comment}"))
    });
    comments.collect()
}

#[test]
fn comments_name_their_things() {
    let mut files = Vec::new();
    super::sources(&root().join("crates"), &mut files);
    assert!(files.len() > 500);
    let of = |file: &PathBuf| nameless_comments(&file.display().to_string(), &read(file));
    let found: Vec<String> = files.iter().flat_map(of).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_nameless_comment_is_found() {
    assert_eq!(nameless_comments("a.rs", "    /// Room for so many words.").len(), 1);
    assert_eq!(nameless_comments("a.rs", "//! Whoever holds it.\n// Nobody.\n").len(), 2);
    let code =
        "let nobody = \"so many words\"; // A name.\n/// Everybody's is `shared`, this is not.";
    assert_eq!(nameless_comments("a.rs", code).len(), 1);
}

#[test]
fn a_long_comment_is_found() {
    let long = "word ".repeat(46);
    assert_eq!(long_comments("a.rs", &format!("fn a() {{}}\n    /// {long}\n")).len(), 1);
    assert_eq!(long_comments("a.rs", &format!("// {long}\nlet a = \"{long}\";\n")), [""; 0]);
}

/// The anchor that GitHub and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let text = plain(&heading.replace('`', "")).to_lowercase();
    let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut found = BTreeSet::new();
    for line in page.lines() {
        is_code ^= line.trim().starts_with("```");
        if !is_code && line.starts_with('#') {
            found.insert(anchor(line.trim_start_matches('#')));
        }
    }
    found
}

/// The targets of a page's links, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (at, line) in page.lines().enumerate() {
        is_code ^= line.trim().starts_with("```");
        let text: String = line
            .split('`')
            .enumerate()
            .map(|(at, piece)| if at % 2 == 0 { piece } else { "" })
            .collect();
        for rest in text.split("](").skip(1).filter(|_| !is_code) {
            let target = rest.split(')').next().unwrap_or_default();
            found.push((at + 1, target.to_owned()));
        }
    }
    found
}

/// Links of a document that lead nowhere. `of` gives a document by its path.
fn dead_links(name: &str, page: &str, of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (line, target) in links(page) {
        if target.contains("://") {
            continue;
        }
        let (file, place) = target.split_once('#').unwrap_or((&target, ""));
        let from_root = file.strip_prefix("../../").filter(|_| folder.starts_with("crates/"));
        let path = match (file, folder) {
            ("", _) => name.to_owned(),
            _ if from_root.is_some() => from_root.unwrap_or_default().to_owned(),
            (file, "") => file.to_owned(),
            (file, folder) => format!("{folder}/{file}"),
        };
        if path.contains("..") {
            found.push(format!("{name}:{line}: {target} leaves the book"));
            continue;
        }
        match of(&path) {
            None => found.push(format!("{name}:{line}: {target} is no file")),
            Some(page) if !place.is_empty() && !anchors(&page).contains(place) => {
                found.push(format!("{name}:{line}: {target} is no heading"));
            }
            Some(_) => {}
        }
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let of = |path: &str| {
        let path = root().join(path);
        path.exists().then(|| std::fs::read_to_string(path).unwrap_or_default())
    };
    let documents = documents();
    let found: Vec<String> =
        documents.iter().flat_map(|(name, page)| dead_links(name, page, of)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_dead_link_is_found() {
    let of = |path: &str| (path == "docs/a.md").then(|| "## Why `it` is, so\n".to_owned());
    let dead = |link: &str| dead_links("docs/a.md", &format!("See [it]({link})."), of);
    for good in ["a.md", "#why-it-is-so", "a.md#why-it-is-so", "https://example.org/x"] {
        assert_eq!(dead(good), [""; 0], "{good}");
    }
    for bad in ["b.md", "#why", "a.md#it", "../a.md"] {
        assert_eq!(dead(bad).len(), 1, "{bad}");
    }
    let of_a_crate = |link: &str| dead_links("crates/a/README.md", &format!("[it]({link})"), of);
    assert_eq!(of_a_crate("../../docs/a.md#why-it-is-so"), [""; 0]);
    assert_eq!(of_a_crate("../../docs/b.md").len(), 1);
    assert_eq!(of_a_crate("../b/README.md").len(), 1);
}

#[test]
fn the_book_has_every_page_once() {
    let pages = pages();
    let mut chapters: Vec<String> =
        links(&pages[CONTENTS]).into_iter().map(|(_, target)| target).collect();
    chapters.sort();
    let expected: Vec<&String> = pages.keys().filter(|name| *name != CONTENTS).collect();
    assert_eq!(
        chapters.iter().collect::<Vec<_>>(),
        expected,
        "chapters of docs/{CONTENTS}, and pages"
    );
}

/// The words of a text that a dictionary can know: neither code, nor names with capitals inside.
fn spelled(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split_whitespace().filter(|piece| !piece.contains("CODE"));
    let words = pieces
        .flat_map(|piece| piece.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '_'));
    let words = words.map(|word| word.trim_matches('\''));
    let words = words.map(|word| word.strip_suffix("'s").unwrap_or(word));
    words.filter(|word| {
        word.chars().count() > 2
            && word.chars().all(|c| c.is_alphabetic() || c == '\'')
            && !word.chars().skip(1).any(char::is_uppercase)
    })
}

/// The words of the text that neither the dictionaries nor the list of the house know, or nothing
/// where there is no hunspell.
fn misspelled(text: &str, house: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let words: BTreeSet<&str> =
        spelled(text).filter(|word| !house.contains(&word.to_lowercase())).collect();
    let mut hunspell = Command::new("hunspell")
        .args(["-l", "-i", "UTF-8", "-d", "en_US,en_GB"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let list = words.into_iter().collect::<Vec<_>>().join("\n") + "\n";
    let mut input = hunspell.stdin.take().expect("its input");
    let feeding = std::thread::spawn(move || input.write_all(list.as_bytes()));
    let output = hunspell.wait_with_output().expect("it ends");
    let _ = feeding.join().expect("no panic");
    // Without its dictionaries it fails.
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn house_words() -> BTreeSet<String> {
    let list = read(&root().join("docs/words.txt"));
    list.lines().map(|word| word.trim().to_lowercase()).filter(|word| !word.is_empty()).collect()
}

#[test]
fn words_are_spelled_right() {
    let texts: Vec<(String, String)> = documents()
        .into_iter()
        .map(|(name, page)| {
            let text: Vec<String> = prose(&page).into_iter().map(|block| block.text).collect();
            (name, text.join("\n"))
        })
        .collect();
    // One call for all: it takes longer to read its dictionaries than to look words up.
    let all: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
    let Some(unknown) = misspelled(&all.join("\n"), &house_words()) else {
        println!("hunspell, hunspell-en-us or hunspell-en-gb is missing: spelling is not checked");
        return;
    };
    let mut found = Vec::new();
    for (name, text) in &texts {
        let words: BTreeSet<&str> = spelled(text).filter(|word| unknown.contains(*word)).collect();
        found.extend(words.into_iter().map(|word| format!("{name}: {word}")));
    }
    assert!(found.is_empty(), "no word, or one that docs/words.txt lacks:\n{}", found.join("\n"));
}

#[test]
fn a_misspelled_word_is_found() {
    let house = BTreeSet::from(["clwb".to_owned()]);
    let text = "The clwb of Swift's lines; its colour, DRAMsim3 and CODE_words. A tpyo.";
    let Some(words) = misspelled(text, &house) else { return };
    assert_eq!(words, BTreeSet::from(["tpyo".to_owned()]));
}
