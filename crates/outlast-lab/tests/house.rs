//! The house rules of the workspace: dependencies point down, unsafe code has its rooms, prose is plain,
//! packages are whole.
#![cfg(not(miri))]

#[path = "house/packages.rs"]
mod packages;
#[path = "house/prose.rs"]
mod prose;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// All crates from the bottom up: each may depend on those before it in this list. A new crate
/// gets its place here.
const FLOORS: &[&str] = &[
    "outlast-trace",
    "outlast-measure",
    "outlast-matrix",
    "outlast-pmem",
    "outlast-derive",
    "outlast",
    "outlast-sim",
    "outlast-schemes",
    "outlast-workloads",
    "outlast-check",
    "outlast-crash",
    "outlast-rtl",
    "outlast-peers",
    "outlast-tracer",
    "outlast-sqlite",
    "outlast-sqlite-extension",
    "outlast-redis",
    "outlast-lab",
    "outlast-c",
    "outlast-python",
    "outlast-cli",
];

/// The doors of the house for other programs: none knows of another.
const FRONT_ENDS: &[&str] = &["outlast-sqlite", "outlast-redis", "outlast-c", "outlast-python"];

/// A library whose tests load the shared library built of it.
const TESTED_AS: &[(&str, &str)] = &[("outlast-sqlite", "outlast-sqlite-extension")];

/// What must not know of what, though the floors would allow it.
const STRANGERS: &[(&str, &str)] = &[
    ("outlast-sim", "outlast"),
    ("outlast-schemes", "outlast"),
    ("outlast-derive", "outlast-trace"),
    ("outlast-derive", "outlast-pmem"),
    ("outlast-derive", "outlast-matrix"),
];

/// Crates whose trade is memory, vectors, traced processes and foreign functions; all others forbid unsafe code.
const MAY_BE_UNSAFE: &[&str] = &[
    "outlast-matrix",
    "outlast-pmem",
    "outlast-check",
    "outlast-peers",
    "outlast-rtl",
    "outlast-sqlite",
    "outlast-c",
    "outlast-python",
];

/// Libraries that a crate builds beside its own, and that may be unsafe: QEMU loads the plugin as C code,
/// calls it with pointers, and a store's bytes are read from the guest's memory.
const UNSAFE_BESIDE: &[(&str, &str)] = &[("outlast-tracer", "plugin")];

/// A crate and the crates of this workspace that it depends on, for whatever purpose.
type Arrows = (String, Vec<String>);

fn metadata() -> Value {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(manifest)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("cargo writes a string here")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("cargo writes a list here")
}

fn arrows(metadata: &Value) -> Vec<Arrows> {
    let packages = list(&metadata["packages"]);
    let names: Vec<&str> = packages.iter().map(|package| text(&package["name"])).collect();
    let of = |package: &Value| {
        let all = list(&package["dependencies"]).iter().map(|to| text(&to["name"]));
        all.filter(|to| names.contains(to)).map(str::to_owned).collect()
    };
    packages.iter().map(|package| (text(&package["name"]).to_owned(), of(package))).collect()
}

/// Every arrow that breaks a rule, in words.
fn offences(arrows: &[Arrows]) -> Vec<String> {
    let floor = |name: &str| FLOORS.iter().position(|crate_name| *crate_name == name);
    let mut found = Vec::new();
    for (from, targets) in arrows {
        let Some(here) = floor(from) else {
            found.push(format!("{from} has no floor: give it its place in FLOORS"));
            continue;
        };
        for to in targets {
            let (from, to) = (from.as_str(), to.as_str());
            if TESTED_AS.contains(&(from, to)) {
                continue;
            } else if floor(to).is_none_or(|there| there >= here) {
                found.push(format!("{from} depends on {to}, which is not below it"));
            } else if STRANGERS.contains(&(from, to)) {
                found.push(format!("{from} depends on {to}, of which it must not know"));
            } else if FRONT_ENDS.contains(&from) && FRONT_ENDS.contains(&to) {
                found.push(format!("{from} depends on {to}, another front end"));
            }
        }
    }
    found
}

#[test]
fn dependencies_point_down() {
    let arrows = arrows(&metadata());
    assert!(arrows.len() >= 5, "{arrows:?}");
    assert_eq!(offences(&arrows), [""; 0]);
}

#[test]
fn an_arrow_that_breaks_a_rule_is_found() {
    let good = [
        ("outlast", "outlast-pmem"),
        ("outlast", "outlast-derive"),
        ("outlast-crash", "outlast"),
        ("outlast-crash", "outlast-sim"),
        ("outlast-cli", "outlast-redis"),
    ];
    let bad = [
        ("outlast", "outlast-sim"),
        ("outlast", "outlast-crash"),
        ("outlast-sim", "outlast"),
        ("outlast-derive", "outlast-trace"),
        ("outlast-derive", "outlast"),
        ("outlast-trace", "outlast-pmem"),
        ("outlast-redis", "outlast-sqlite"),
        ("outlast-lab", "outlast-cli"),
        ("outlast-lab", "outlast-lab"),
        ("outlast-novelty", "outlast"),
    ];
    let offences = |(from, to): (&str, &str)| offences(&[(from.to_owned(), vec![to.to_owned()])]);
    for arrow in good {
        assert_eq!(offences(arrow), [""; 0]);
    }
    for arrow in bad {
        assert_eq!(offences(arrow).len(), 1, "{arrow:?}");
    }
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    let metadata = metadata();
    for package in list(&metadata["packages"]) {
        let name = text(&package["name"]);
        if MAY_BE_UNSAFE.contains(&name) {
            continue;
        }
        let is_product = |target: &&Value| {
            let kinds = list(&target["kind"]);
            let is_built =
                |kind: &str| kind.contains("lib") || kind == "bin" || kind == "proc-macro";
            let is_library = list(&target["crate_types"]).iter().map(text).any(|of| of == "cdylib");
            (kinds.iter().map(text).any(is_built) || is_library)
                && !UNSAFE_BESIDE.contains(&(name, text(&target["name"])))
        };
        let roots: Vec<&Value> = list(&package["targets"]).iter().filter(is_product).collect();
        assert!(!roots.is_empty(), "{name} builds something");
        for root in roots {
            let path = text(&root["src_path"]);
            let source = std::fs::read_to_string(path).expect("cargo names files that exist");
            let forbids = source.lines().any(|line| line == "#![forbid(unsafe_code)]");
            assert!(forbids, "{path} lacks #![forbid(unsafe_code)]");
        }
    }
}

/// Files of Rust below a folder.
fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The words of a source, those of its tests aside: they may name what they try.
fn words(source: &str) -> impl Iterator<Item = &str> {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '_');
    product.split(move |c| !is_part(c)).map(|word| word.trim_matches(':'))
}

/// What is added by its folder and a row is named nowhere else: schemes of the machine and papers.
#[test]
fn what_has_a_row_is_named_nowhere_else() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let papers = outlast_lab::papers::PAPERS.map(outlast_lab::papers::Paper::name);
    // `archapt` is also what schemes of the runtime are called after.
    let papers = papers.into_iter().filter(|name| *name != "archapt");
    let schemes = outlast_schemes::MachineScheme::all().map(outlast_schemes::MachineScheme::name);
    let names: Vec<&str> = schemes.chain(papers).collect();
    let mut offences = Vec::new();
    for folder in ["outlast-lab/src", "outlast-crash/src", "outlast-cli/src"] {
        let mut files = Vec::new();
        sources(&crates.join(folder), &mut files);
        assert!(files.len() > 10, "{folder}");
        for file in files {
            let path = file.display().to_string();
            // A paper may name what it measures.
            if path.contains("outlast-lab/src/papers/") || path.ends_with("tests.rs") {
                continue;
            }
            let source = std::fs::read_to_string(&file).expect("a file of the workspace");
            let named = words(&source).filter(|word| names.contains(word));
            offences.extend(named.map(|name| format!("{path} names {name}")));
        }
    }
    assert_eq!(offences, [""; 0]);
}

/// Files that choose work by name, as a setting or a report may; none of them knows how it works.
/// The list only gets shorter.
const CHOOSES_WORK: &[&str] = &[
    "outlast-lab/src/goals.rs",
    "outlast-lab/src/crash.rs",
    "outlast-lab/src/crash/campaigns.rs",
    "outlast-lab/src/compare/mod.rs",
    "outlast-cli/src/report.rs",
    // A scope has the name of a workload.
    "outlast-crash/src/runtime/scopes/table.rs",
    "outlast-cli/src/crash.rs",
];

/// The text literals of a source, those of its tests and of comments aside.
fn literals(source: &str) -> impl Iterator<Item = &str> {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// What a workload is, its folder says and no one else: files that name one choose it.
#[test]
fn workloads_are_named_only_where_work_is_chosen() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names: Vec<&str> =
        outlast_workloads::workloads().iter().map(|workload| workload.name).collect();
    let mut naming = Vec::new();
    for folder in ["outlast-lab/src", "outlast-crash/src", "outlast-cli/src"] {
        let mut files = Vec::new();
        sources(&crates.join(folder), &mut files);
        for file in files {
            let path = file.strip_prefix(&crates).expect("it is below").display().to_string();
            // A paper may name what it measures.
            if path.contains("outlast-lab/src/papers/") || path.ends_with("tests.rs") {
                continue;
            }
            let source = std::fs::read_to_string(&file).expect("a file of the workspace");
            if literals(&source).any(|literal| names.contains(&literal)) {
                naming.push(path);
            }
        }
    }
    naming.sort();
    let mut allowed = CHOOSES_WORK.to_vec();
    allowed.sort_unstable();
    assert_eq!(naming, allowed, "a file that names a workload, or one on the list that names none");
}

#[test]
fn a_literal_is_one_of_the_source() {
    let source =
        "// \"tpcc\"\nlet a = [\"hash\", \"of hash\"];\n#[cfg(test)]\nmod tests {\n\"btree\"";
    assert_eq!(literals(source).collect::<Vec<_>>(), ["hash", "of hash"]);
}

#[test]
fn a_name_in_a_source_is_a_word_of_it() {
    let source = "let a = \"redo-clwb:ring\"; // of fwb.\n#[cfg(test)]\nmod tests {\n  hwl\n}\n";
    let words: Vec<&str> = words(source).filter(|word| !word.is_empty()).collect();
    assert_eq!(words, ["let", "a", "redo-clwb:ring", "of", "fwb"]);
}

/// Hosts of package registries, in two halves so that this file does not name them.
const REGISTRIES: &[(&str, &str)] = &[
    ("debian", ".org"),
    ("ubuntu", ".com"),
    ("crates", ".io"),
    ("static.rust-lang", ".org"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
    ("npmjs", ".org"),
    ("proxy.golang", ".org"),
    ("repo.maven.apache", ".org"),
    ("rubygems", ".org"),
];

fn registry_in(line: &str) -> Option<String> {
    let hosts = REGISTRIES.iter().map(|(name, domain)| format!("{name}{domain}"));
    { hosts }.find(|host| line.contains(host.as_str()))
}

/// Lines below a folder that name the host of a registry.
fn registries_below(folder: &Path, found: &mut Vec<String>) {
    // Cargo writes the lock file; the others hold no sources.
    const LEFT_OUT: &[&str] = &[".git", "target", "node_modules", "Cargo.lock"];
    for entry in std::fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry of it").path();
        if path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|out| name == *out)) {
            continue;
        }
        if path.is_dir() {
            registries_below(&path, found);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let named = text.lines().filter_map(registry_in);
            found.extend(named.map(|host| format!("{} names {host}", path.display())));
        }
    }
}

/// Programs and packages come from the sources that the system has configured.
#[test]
fn no_registry_is_named() {
    let mut found = Vec::new();
    registries_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut found);
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_name_of_a_registry_is_found() {
    let (name, domain) = REGISTRIES[0];
    assert!(registry_in(&format!("deb-src http://deb.{name}{domain}/x main")).is_some());
    assert!(registry_in("the Debian package of SQLite").is_none());
}
