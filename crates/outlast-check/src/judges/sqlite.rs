//! Every SQLite database of a directory: opened by SQLite, which recovers it, checked by
//! `integrity_check`, and written to in a transaction that is rolled back.
//!
//! A table `outlast_marks` with a column `n`, to which the program adds each transaction's number within
//! the transaction, tells which ones are there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files::quoted;
use crate::judge::Checker;
use crate::run::{NodeId, Run};
use crate::tree::{Content, Node, ROOT, Tree};

/// The first bytes of a database.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The table that counts transactions.
const MARKS: &[u8] = b"outlast_marks";

/// A check by Python's SQLite, which stays, or by the command `sqlite3`.
pub(super) fn checker(run: &Run) -> Result<Checker, String> {
    let mut files = Vec::new();
    walk(&run.whole(), ROOT, Path::new(""), &mut files);
    let is_database = |content: &Content| {
        let mut first = [0; 16];
        content.read(0, &mut first);
        first == MAGIC
    };
    let counted = match files.iter().any(|(_, content)| has(content, MARKS)) {
        true => "counted",
        false => "uncounted",
    };
    let names = files.iter().filter(|(_, content)| is_database(content));
    let names: Vec<String> = names.map(|(path, _)| quoted(&path.display().to_string())).collect();
    if names.is_empty() {
        return Err("judge sqlite: the run leaves no SQLite database".to_owned());
    }
    let words = format!("{counted} {}", names.join(" "));
    if runs("python3", &["-c", "import sqlite3"]) {
        let script = quoted(include_str!("sqlite.py"));
        Ok(Checker::Server(format!("exec python3 -c {script} {words}")))
    } else if runs("sqlite3", &["-version"]) {
        let script = quoted(include_str!("sqlite.sh"));
        Ok(Checker::Command(format!("exec /bin/sh -c {script} judge {words}")))
    } else {
        Err("judge sqlite: neither python3 with sqlite3 nor the command sqlite3 is there"
            .to_owned())
    }
}

fn runs(command: &str, words: &[&str]) -> bool {
    let mut command = Command::new(command);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// All files below a directory.
fn walk(tree: &Tree, dir: NodeId, path: &Path, files: &mut Vec<(PathBuf, Content)>) {
    let Node::Dir(names) = tree.node(dir) else { return };
    for (name, &node) in names {
        let path = path.join(String::from_utf8_lossy(name).as_ref());
        match tree.node(node) {
            Node::File(content) => files.push((path, content.clone())),
            Node::Dir(_) => walk(tree, node, &path, files),
            Node::Link(_) => {}
        }
    }
}

fn has(content: &Content, text: &[u8]) -> bool {
    let mut part = vec![0; 64 * 1024];
    let step = part.len() - text.len();
    (0..content.size).step_by(step).any(|offset| {
        content.read(offset, &mut part);
        part.windows(text.len()).any(|window| window == text)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The check by the command, which is taken where Python is not there.
    #[test]
    fn the_command_judges_as_python_does() {
        if !runs("sqlite3", &["-version"]) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("db");
        let made = "CREATE TABLE outlast_marks (n); INSERT INTO outlast_marks VALUES (1), (2);";
        assert!(runs("sqlite3", &[file.to_str().unwrap(), made]));
        let judge = |words: &[&str]| {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", include_str!("sqlite.sh"), "judge"]).args(words);
            let output = shell.env("OUTLAST_DIR", folder.path()).env("OUTLAST_ACKED", "2").output();
            let output = output.unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(judge(&["counted", "db"]), (Some(0), "recovered 2\n".to_owned()));
        assert_eq!(judge(&["uncounted", "db"]), (Some(0), String::new()));
        assert_eq!(judge(&["uncounted", "gone"]), (Some(1), "gone is missing\n".to_owned()));
        assert_eq!(judge(&["counted", "gone"]), (Some(0), "recovered 0\n".to_owned()));
        let mut bytes = fs::read(&file).unwrap();
        bytes[100..].fill(7);
        fs::write(&file, bytes).unwrap();
        let (status, told) = judge(&["counted", "db"]);
        assert!(status == Some(1) && told.starts_with("db: "), "{told}");
    }
}
