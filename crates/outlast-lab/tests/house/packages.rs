//! The rules of packages: a crate is published with all that a registry asks for, or says that it is not; its sources
//! lie in its own folder; the version is said alike everywhere.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::{list, metadata, sources, text};

const KEYWORDS_MAX: usize = 5;
const KEYWORD_BYTES_MAX: usize = 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn is_published(package: &Value) -> bool {
    // `publish = false` is an empty list of registries.
    package["publish"].as_array().is_none_or(|registries| !registries.is_empty())
}

/// What the manifest of a published crate lacks, or has too much of.
fn lacks(package: &Value, published: &[&str]) -> Vec<String> {
    let name = text(&package["name"]);
    let mut found = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            found.push(format!("{name}: {what}"));
        }
    };
    demand(package["version"] == VERSION, "its version is not the workspace's");
    for field in ["description", "license", "repository", "documentation", "readme", "rust_version"]
    {
        demand(package[field].is_string(), &format!("there is no {field}"));
    }
    let keywords: Vec<&str> = list(&package["keywords"]).iter().map(text).collect();
    demand((1..=KEYWORDS_MAX).contains(&keywords.len()), "it has one to five keywords");
    for keyword in keywords {
        let is_one = keyword.len() <= KEYWORD_BYTES_MAX
            && keyword.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        demand(is_one, &format!("{keyword} is no keyword"));
    }
    demand(!list(&package["categories"]).is_empty(), "it has no category");
    for dependency in list(&package["dependencies"]) {
        let to = text(&dependency["name"]);
        let is_ours = dependency["path"].is_string();
        let is_named = dependency["req"] == format!("^{VERSION}");
        // Without a version a dependency of tests is left out of the package, any other is an error.
        if is_ours && (is_named || dependency["kind"] != "dev") {
            demand(is_named, &format!("{to} has no version: `{to}.workspace = true` has"));
            demand(published.contains(&to), &format!("{to} is not published"));
        }
    }
    found
}

#[test]
fn each_crate_is_published_whole_or_not_at_all() {
    let metadata = metadata();
    let packages = list(&metadata["packages"]);
    let published: Vec<&Value> = packages.iter().filter(|package| is_published(package)).collect();
    let names: Vec<&str> = published.iter().map(|package| text(&package["name"])).collect();
    for name in ["outlast", "outlast-pmem", "outlast-check", "outlast-c", "outlast-cli"] {
        assert!(names.contains(&name), "{name}");
    }
    let mut found: Vec<String> =
        published.iter().flat_map(|package| lacks(package, &names)).collect();
    for name in names {
        let folder = root().join("crates").join(name);
        let readme = read(&folder.join("README.md"));
        if !readme.starts_with(&format!("# {name}\n")) {
            found.push(format!("{name}: its README is another's"));
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            if read(&folder.join(licence)) != read(&root().join(licence)) {
                found.push(format!("{name}: its {licence} is not the workspace's"));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_lack_is_found() {
    let metadata = metadata();
    let packages = list(&metadata["packages"]);
    let of = |name: &str| packages.iter().find(|package| package["name"] == name).unwrap().clone();
    let all: Vec<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    let whole = of("outlast");
    assert_eq!(lacks(&whole, &all), [""; 0]);
    let without = |field: &str, value: Value| {
        let mut package = whole.clone();
        package[field] = value;
        lacks(&package, &all).len()
    };
    assert_eq!(without("readme", Value::Null), 1);
    assert_eq!(without("version", "0.0.1".into()), 1);
    assert_eq!(without("keywords", Value::Array(Vec::new())), 1);
    assert_eq!(without("keywords", vec!["a keyword of two words"].into()), 1);
    assert_eq!(without("categories", Value::Array(Vec::new())), 1);
    assert!(!lacks(&whole, &["outlast-derive"]).is_empty(), "what it needs is not published");
    assert!(!is_published(&of("outlast-sqlite-extension")));
}

/// Sources that a package cannot have: files that `source` names outside of its crate. `at` is the source's path in the
/// crate.
fn outside(at: &Path, source: &str) -> Vec<String> {
    let named = ["include_str!(\"", "include_bytes!(\"", "#[path = \""];
    let targets = named.iter().flat_map(|start| source.split(start).skip(1));
    let targets = targets.filter_map(|rest| rest.split('"').next());
    let folder = at.parent().unwrap_or(Path::new(""));
    let leaves = |target: &&str| {
        let mut depth = 0i32;
        folder.join(target).components().any(|component| {
            depth += if component == Component::ParentDir { -1 } else { 1 };
            depth < 0
        })
    };
    targets.filter(leaves).map(|target| format!("{} names {target}", at.display())).collect()
}

#[test]
fn packages_hold_the_sources_that_they_name() {
    let metadata = metadata();
    let mut found = Vec::new();
    for package in list(&metadata["packages"]).iter().filter(|package| is_published(package)) {
        let folder = root().join("crates").join(text(&package["name"]));
        for part in ["src", "examples", "plugin"].map(|part| folder.join(part)) {
            let mut files = Vec::new();
            if part.is_dir() {
                sources(&part, &mut files);
            }
            for file in files {
                let at = file.strip_prefix(&folder).expect("it is below");
                let named = outside(at, &read(&file));
                found.extend(named.into_iter().map(|it| format!("{}: {it}", folder.display())));
            }
        }
    }
    assert_eq!(found, [""; 0], "a link in the crate's folder has it packaged");
}

#[test]
fn a_source_outside_is_found() {
    let of = |source: &str| outside(Path::new("src/a/b.rs"), source).len();
    assert_eq!(of("include_str!(\"c.md\"); include_bytes!(\"../../rtl/top.sv\");"), 0);
    assert_eq!(of("const A: &str = include_str!(\"../../../docs/c.md\");"), 1);
    assert_eq!(of("#[path = \"../../../other/src/c.rs\"]\nmod c;"), 1);
}

#[test]
fn the_version_is_said_alike() {
    let minor = VERSION.rsplit_once('.').expect("three numbers").0;
    for (page, says) in [
        ("README.md", format!("Version {minor}:")),
        ("SECURITY.md", format!("Version {minor} is")),
        ("CHANGELOG.md", format!("\n## [{VERSION}] - ")),
        ("docs/c-api.md", format!("liboutlast_c.so.{minor}`")),
        ("crates/outlast-check/templates/cargo/Cargo.toml", format!("outlast-check = \"{minor}\"")),
    ] {
        assert!(read(&root().join(page)).contains(&says), "{page} does not say {says}");
    }
}

/// Headings of a changelog that its form does not have.
fn odd_headings(changelog: &str) -> Vec<&str> {
    let is_version = |heading: &str| {
        let Some((name, date)) = heading.split_once("] - ") else { return false };
        let is_date = date.len() == 10 && date.split('-').all(|part| part.parse::<u32>().is_ok());
        name.starts_with('[') && (is_date || ["unreleased", "not published"].contains(&date))
    };
    const KINDS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];
    let headings = changelog.lines().filter(|line| line.starts_with("##"));
    headings
        .filter(|line| match line.strip_prefix("## ") {
            Some(heading) => !is_version(heading),
            None => !line.strip_prefix("### ").is_some_and(|kind| KINDS.contains(&kind)),
        })
        .collect()
}

#[test]
fn the_changelog_has_the_usual_form() {
    assert_eq!(odd_headings(&read(&root().join("CHANGELOG.md"))), [""; 0]);
    assert_eq!(odd_headings("## [1.0.0] - 2027-01-31\n### Added\n"), [""; 0]);
    assert_eq!(odd_headings("## 1.0.0\n### News\n## [1.0.0] - soon\n").len(), 3);
}
