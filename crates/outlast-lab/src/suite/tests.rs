//! The table hangs together, and one row is captured.

use std::collections::HashSet;

use super::*;

#[test]
fn rows_are_whole_and_mixes_are_of_rows() {
    let names: HashSet<_> = PROGRAMS.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), PROGRAMS.len());
    for (entry, counterpart) in counterparts() {
        let name = entry.name;
        let inputs: HashSet<_> = counterpart.inputs.iter().map(|input| input.name).collect();
        assert_eq!(inputs.len(), counterpart.inputs.len(), "{name}");
        assert!(counterpart.stdin.is_none_or(|input| inputs.contains(input)), "{name}");
        assert!(!counterpart.packages.is_empty() && !counterpart.about.is_empty(), "{name}");
        assert!(counterpart.quick.count <= counterpart.full.count, "{name}");
        // What is not built before has an absolute path, so that its digest is known.
        let is_built = !counterpart.before.is_empty();
        assert!(is_built || counterpart.command[0].starts_with('/'), "{name}");
    }
    for mix in MIXES {
        for name in mix.programs {
            assert!(program(name).is_ok_and(|entry| entry.counterpart.is_ok()), "{name}");
        }
    }
    assert!(program("bzip3").unwrap_err().to_string().contains("bzip2"));
}

#[test]
fn what_is_missing_is_told_of_one_as_of_several() {
    let folder = tempfile::tempdir().unwrap();
    for names in [["bzip3"].as_slice(), &["bzip3", "gcd"]] {
        let mut told = Vec::new();
        let mut listen = |progress: crate::progress::Progress<'_>| {
            if let crate::progress::Progress::Note(line) = progress {
                told.push(line.to_owned());
            }
        };
        let made = Suite::at(folder.path()).make_all(names, Scale::Quick, &mut listen);
        assert!(made.iter().map(|(name, _)| *name).eq(names.iter().copied()));
        assert!(made.iter().all(|(_, made)| made.is_err()));
        let mut reasons: Vec<_> =
            made.into_iter().map(|(_, made)| made.unwrap_err().to_string()).collect();
        reasons.sort();
        told.sort();
        assert_eq!(told, reasons);
    }
}

#[test]
fn the_document_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trace.md");
    let document = std::fs::read_to_string(path).unwrap();
    for line in table().lines() {
        assert!(document.contains(line), "docs/trace.md lacks this line: {line}");
    }
    for mix in MIXES {
        let line = format!("| {} | {} |", mix.name, mix.programs.join(", "));
        assert!(document.contains(&line), "docs/trace.md lacks this line: {line}");
    }
}
