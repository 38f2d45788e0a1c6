//! The page: complete by itself, readable without a script, and in a browser its explorer makes the
//! directories that the checker made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use outlast_check::run::NodeId;
use outlast_check::search::bases;
use outlast_check::tree::{Content, Node, ROOT, Tree};
use outlast_check::{Program, Report};
use serde_json::Value;
use tempfile::TempDir;

/// A program that changes a directory in every way: new, appended, cut, moved, exchanged and removed
/// files. Its check wants the last file that was acknowledged.
const PROGRAM: &str = "cd $0; mkdir -p sub old; echo before >old/base; sync .; \
    for i in 1 2 3; do echo I $i; seq -f \"$i %g\" 1 1500 >new; echo $i >>log; sync log; \
    mv new sub/file; ln -sf sub/file link; truncate -s 3 old/base; [ $i = 2 ] && rm old/base; \
    echo A $i; done; truncate -s 100000 sub/file";
const CHECK: &str = "cd $OUTLAST_DIR; [ $OUTLAST_ACKED = 0 ] && exit; \
    [ -e sub/file ] || { echo gone; exit 1; }; [ $(grep -c . sub/file) -ge 1500 ] || { echo torn; exit 1; }";

fn report() -> Option<Report> {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let program = Program::new("/bin/sh").args(["-c", PROGRAM]).arg(&data).dir(&data).then(CHECK);
    match program.sector(512).mutate().check() {
        Ok(report) => Some(report),
        Err(error) if error.to_string().contains("refuses to trace") => {
            eprintln!("left out: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_page_has_everything_and_needs_nothing() {
    let Some(report) = report() else { return };
    assert!(!report.cases.is_empty());
    let page = report.html();
    for finding in report.findings() {
        assert!(page.contains(&finding.wrong) && page.contains(finding.class.remedy()));
    }
    for foreign in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(foreign), "{foreign}");
    }
    let acked = page.matches("class=\"call acked").count();
    assert_eq!(acked, report.run.counts().2);
    assert_eq!(page.matches("class=\"finding\"").count(), report.cases.len());
    assert!(page.contains(" lost\" data-call") && page.contains(" kept\" data-call"));
    // What a program writes cannot end the script that holds it.
    assert_eq!(page.matches("</script>").count(), 2);
}

/// Files with their content, directories with a slash behind their name.
fn files(tree: &Tree) -> BTreeMap<String, Option<Content>> {
    fn walk(tree: &Tree, dir: NodeId, path: &str, found: &mut BTreeMap<String, Option<Content>>) {
        let Node::Dir(names) = tree.node(dir) else { return };
        for (name, &child) in names {
            let path = format!("{path}{}", String::from_utf8_lossy(name));
            match tree.node(child) {
                Node::Dir(_) => {
                    found.insert(format!("{path}/"), None);
                    walk(tree, child, &format!("{path}/"), found);
                }
                Node::File(content) => {
                    found.insert(path, Some(content.clone()));
                }
                Node::Link(_) => {
                    found.insert(path, None);
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(tree, ROOT, "", &mut found);
    found
}

fn bytes(content: &Content) -> Vec<u8> {
    let mut bytes = vec![0; content.size as usize];
    content.read(0, &mut bytes);
    bytes
}

/// Shows each finding's crash and tells the rows of the table of files.
const PROBE: &str = include_str!("page/probe.js");

#[test]
fn the_explorer_makes_the_directories_that_the_checker_made() {
    let browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let Some(browser) = browsers.iter().find(|browser| fs::exists(browser).unwrap_or(false)) else {
        eprintln!("left out: no chromium");
        return;
    };
    let Some(report) = report() else { return };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("page.html");
    fs::write(&file, report.html().replace("</body>", &format!("<script>{PROBE}</script></body>")))
        .unwrap();
    let output = Command::new("timeout")
        .args([
            "60",
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1400,1000",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .args(["--dump-dom", &format!("file://{}", file.display())])
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = page.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next());
    let told = Command::new("base64")
        .arg("-d")
        .stdin({
            let text_file = folder.path().join("told");
            fs::write(&text_file, text.unwrap_or_else(|| panic!("{page}"))).unwrap();
            fs::File::open(text_file).unwrap()
        })
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["wide"], serde_json::json!([]), "nothing is cut off at 1400 pixels");
    assert_eq!(
        (&told["dropped"], &told["kept"], &told["unnamed"]),
        (&0.into(), &0.into(), &0.into())
    );
    let crashes = told["told"].as_array().unwrap();
    assert_eq!(crashes.len(), report.cases.len());
    for (rows, case) in crashes.iter().zip(&report.cases) {
        let state = files(&case.tree);
        let whole = files(&whole_at(&report, &case.finding.state));
        let names: BTreeSet<&String> = state.keys().chain(whole.keys()).collect();
        let rows: BTreeMap<&str, (&str, &str)> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let cell = |index: usize| row[index].as_str().unwrap();
                (cell(0), (cell(1), cell(2)))
            })
            .collect();
        assert_eq!(rows.len(), names.len(), "{rows:?} {names:?}");
        for name in names {
            let (size, against) = rows[name.as_str()];
            let expected = match (state.get(name), whole.get(name)) {
                (None, _) => "missing",
                (_, None) => "still there",
                (Some(Some(one)), Some(Some(other))) if one.size != other.size => "bytes there",
                (Some(Some(one)), Some(Some(other))) if bytes(one) != bytes(other) => "other bytes",
                _ => "the same",
            };
            assert!(against.ends_with(expected), "{name}: {against} {expected}");
            if let Some(Some(content)) = state.get(name) {
                assert_eq!(size, content.size.to_string(), "{name}");
            }
        }
    }
}

/// The directory that the program saw at the moment of a state.
fn whole_at(report: &Report, state: &str) -> Tree {
    let (model, place) = state.split_once('@').unwrap();
    let event: usize = place.split_once('-').unwrap().0.parse().unwrap();
    let model = report.ordered.iter().find(|ordered| ordered.model.name == model).unwrap();
    let index = model.moments.partition_point(|moment| moment.event < event);
    let then = model.until(&report.run, &model.moments[index], event);
    let kept = model.without(&then, &BTreeSet::new());
    bases(&report.run, model)[index].tree(model, &kept)
}
