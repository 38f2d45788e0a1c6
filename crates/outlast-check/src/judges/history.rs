//! The contents of one file over a run: states are judged in memory, by its content at each mark.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::judge::Outcome;
use crate::run::{Run, Step};
use crate::tree::{Content, Node, ROOT, Tree};

/// A file's content when each transaction was over, as bytes; none where there was no file.
type Versions = Vec<(u64, Option<Vec<u8>>)>;

/// The contents of a file in a run.
#[derive(Clone, Debug)]
pub struct History {
    file: PathBuf,
    versions: Arc<Versions>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Each version replaces the one before; whether the program names its transactions.
    Replacements { marked: bool },
    /// Each version begins with the one before.
    Log,
}

impl History {
    /// A file that is replaced as a whole.
    ///
    /// # Errors
    /// The run never has such a file.
    pub fn of_replacements(run: &Run, file: PathBuf) -> Result<Self, String> {
        let marked = versions(run, &file);
        if marked.len() > 1 {
            let kind = Kind::Replacements { marked: true };
            return Self { file, versions: Arc::new(marked), kind }.of_a_file();
        }
        // Without marks each name that the file was given began a version.
        let mut versions: Versions = vec![(0, content(&run.base, &file))];
        let mut tree = run.base.clone();
        for event in &run.events {
            let Step::Change(change) = &event.step else { continue };
            tree.apply(change);
            if change.is_name() {
                versions.push((0, content(&tree, &file)));
            }
        }
        versions.push((0, content(&tree, &file)));
        versions.dedup();
        let kind = Kind::Replacements { marked: false };
        Self { file, versions: Arc::new(versions), kind }.of_a_file()
    }

    /// A file that is appended to.
    ///
    /// # Errors
    /// The run acknowledges nothing, never has such a file, or does other things to it.
    pub fn of_log(run: &Run, file: PathBuf) -> Result<Self, String> {
        let versions = versions(run, &file);
        if versions.len() < 2 {
            return Err("judge log: the program acknowledges no transaction (lines 'A n')".into());
        }
        for pair in versions.windows(2) {
            let before = pair[0].1.as_deref().unwrap_or_default();
            if !pair[1].1.as_deref().unwrap_or_default().starts_with(before) {
                return Err(format!(
                    "judge log: {} is not only appended to: transaction {} changes what was there",
                    file.display(),
                    pair[1].0
                ));
            }
        }
        Self { file, versions: Arc::new(versions), kind: Kind::Log }.of_a_file()
    }

    fn of_a_file(self) -> Result<Self, String> {
        match self.versions.iter().any(|(_, content)| content.is_some()) {
            true => Ok(self),
            false => Err(format!("the run never has a file '{}'", self.file.display())),
        }
    }

    /// The file, from the directory.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The fault of a state.
    #[must_use]
    pub fn judge(&self, tree: &Tree, issued: u64, acked: u64) -> Outcome {
        let found = content(tree, &self.file);
        match self.kind {
            Kind::Log => Outcome::Recovered(self.log(found.as_deref().unwrap_or_default())),
            Kind::Replacements { marked } => {
                let mut same =
                    self.versions.iter().filter(|(_, content)| *content == found).map(|row| row.0);
                let (first, last) = (same.next(), same.next_back());
                match (first, last) {
                    (None, _) => Outcome::Bad(self.torn(found.as_deref())),
                    (Some(_), _) if !marked => Outcome::Good,
                    (Some(number), None) => Outcome::Recovered(number),
                    // Of several transactions with one content, whichever is allowed.
                    (Some(first), Some(last)) => {
                        let allowed = |number: u64| acked <= number && number <= issued;
                        let known = |row: &(u64, Option<Vec<u8>>)| row.1 == found && allowed(row.0);
                        match self.versions.iter().any(known) {
                            true => Outcome::Good,
                            false => Outcome::Bad(format!(
                                "lost: {} recovered, {acked} acknowledged",
                                if first > issued { first } else { last.min(acked) }
                            )),
                        }
                    }
                }
            }
        }
    }

    /// The last transaction all of whose bytes are there.
    fn log(&self, found: &[u8]) -> u64 {
        let whole =
            |row: &&(u64, Option<Vec<u8>>)| found.starts_with(row.1.as_deref().unwrap_or_default());
        self.versions.iter().take_while(whole).last().map_or(0, |row| row.0)
    }

    fn torn(&self, found: Option<&[u8]>) -> String {
        let name = self.file.display();
        let Some(found) = found else { return format!("{name} is missing") };
        if found.is_empty() {
            return format!("{name} is empty");
        }
        let same = |content: &[u8]| {
            found.iter().zip(content).take_while(|(one, other)| one == other).count()
        };
        let near = self.versions.iter().filter_map(|row| Some(same(row.1.as_deref()?))).max();
        let zeros = found.iter().rev().take_while(|&&byte| byte == 0).count();
        let tail = if zeros > 1 { format!(", {zeros} zeros at its end") } else { String::new() };
        format!(
            "{name} is torn: {} bytes, the first {} as in a version of it{tail}",
            found.len(),
            near.unwrap_or_default()
        )
    }
}

/// The content of a file at the end of each transaction, in their order: 0 before the first.
fn versions(run: &Run, file: &Path) -> Versions {
    let mut versions: Versions = Vec::new();
    let mut tree = run.base.clone();
    let mut set = |number: u64, tree: &Tree, is_over: bool| {
        let found = content(tree, file);
        match versions.iter_mut().find(|row| row.0 == number) {
            Some(row) if is_over => row.1 = found,
            Some(_) => {}
            None => versions.push((number, found)),
        }
    };
    let (mut last, mut acked) = (0, true);
    for event in &run.events {
        match &event.step {
            Step::Change(change) => tree.apply(change),
            Step::Issued(number) => {
                set(last, &tree, !acked || last == 0);
                (last, acked) = (*number, false);
            }
            Step::Acked(number) => {
                if *number > last {
                    // A program that names no beginnings.
                    last = *number;
                }
                set(*number, &tree, true);
                acked = true;
            }
            Step::Sync(_) | Step::Unsynced(_) | Step::Writes { .. } => {}
        }
    }
    set(last, &tree, !acked);
    if !versions.iter().any(|row| row.0 == 0) {
        versions.push((0, content(&run.base, file)));
    }
    versions.sort_by_key(|row| row.0);
    versions
}

/// The bytes of a file; none if there is no such file.
fn content(tree: &Tree, file: &Path) -> Option<Vec<u8>> {
    let mut node = ROOT;
    for part in file.components() {
        node = tree.lookup(node, part.as_os_str().as_bytes())?;
    }
    let Node::File(content) = tree.node(node) else { return None };
    Some(bytes(content))
}

fn bytes(content: &Content) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(content.size).unwrap_or(usize::MAX)];
    content.read(0, &mut bytes);
    bytes
}
