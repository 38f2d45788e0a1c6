//! The commands of the documentation: each is taken by the command line as it is today, and simulations
//! run, small.

use std::path::{Path, PathBuf};

use clap::Parser;

use crate::{Cli, Command, sim};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands in fenced blocks of a page, in one line each, without what the shell would do with them.
fn commands(page: &str) -> Vec<String> {
    let (mut found, mut is_code) = (Vec::new(), false);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let line = line.trim().trim_start_matches("$ ");
        if !is_code || !line.starts_with("outlast ") || line.starts_with("outlast = ") {
            continue;
        }
        let mut command = line.to_owned();
        while let Some(part) = command.strip_suffix('\\') {
            command = part.to_owned() + lines.next().unwrap_or_default().trim();
        }
        found.push(command);
    }
    found
}

/// A command's words as a shell divides it; none where it leaves something out.
fn words(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut last = ' ';
    for letter in command.chars() {
        match (quote, letter) {
            (None, '…') => return None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == letter => quote = None,
            (None, '#') if last == ' ' => break,
            (None, '|' | '>' | '<' | '&' | ';') => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
        last = letter;
    }
    words.extend(word);
    Some(words)
}

#[test]
fn every_command_of_the_documentation_is_one() {
    let folder = root().join("docs");
    let pages = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (mut taken, mut ran, mut wrong) = (0, 0, Vec::new());
    for page in pages.chain([root().join("README.md")]) {
        let Some(true) = page.extension().map(|extension| extension == "md") else { continue };
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            let Some(words) = words(&command) else { continue };
            taken += 1;
            let name = page.file_name().unwrap_or_default().display();
            match Cli::try_parse_from(words) {
                Err(error) => {
                    let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                    wrong.push(format!("{name}: {command}: {first}"));
                }
                Ok(Cli { command: Command::Sim(args), seed, .. }) => {
                    match sim::try_small(&args, seed) {
                        Ok(runs) => ran += runs,
                        Err(error) => wrong.push(format!("{name}: {command}: {error}")),
                    }
                }
                Ok(_) => {}
            }
        }
    }
    assert!(taken >= ran && ran > 0, "{taken} commands, {ran} small runs");
    assert_eq!(wrong, [""; 0]);
    assert!(taken > 80 && ran > 40, "{taken} commands, {ran} runs");
}
