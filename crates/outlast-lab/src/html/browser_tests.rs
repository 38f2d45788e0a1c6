//! The page in a real browser: headless Chromium, where there is one.
//!
//! Copies of the page carry `probe.js`, which looks at them from inside, and stand in frames as
//! wide as a phone and as a desk. Broken copies show that the probe finds what it looks for.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::tests::made_up;
use crate::record::{Document, Kind, Metric, Record};

const BROWSERS: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

const PAGE_BYTES_MAX: usize = 4 << 20;
const SCREENS_MAX: f64 = 12.0;

/// What the probe says of one frame.
#[derive(Deserialize)]
struct Told {
    page: String,
    found: Vec<String>,
    files: Vec<String>,
    screens: f64,
}

/// A copy of the page and the frame that it stands in.
struct Frame {
    name: &'static str,
    html: String,
    width: u32,
    height: u32,
}

/// The frames as one page: what the copies tell is written into it.
fn look(browser: &str, directory: &Path, frames: &[Frame], is_dark: bool) -> Vec<Told> {
    let probe = format!("<head><script>\n{}</script>", include_str!("probe.js"));
    let mut around = String::from(
        "<!doctype html><pre id=\"told\"></pre><script>addEventListener(\"message\", (event) => { \
         document.getElementById(\"told\").textContent += JSON.stringify(event.data) + \"\\n\"; \
         });</script>\n",
    );
    for Frame { name, html, width, height } in frames {
        let file = format!("{name}.html");
        fs::write(directory.join(&file), html.replacen("<head>", &probe, 1)).unwrap();
        let _ = writeln!(
            around,
            "<iframe src=\"{file}?{name}\" width=\"{width}\" height=\"{height}\" \
             style=\"border:0\"></iframe>"
        );
    }
    let path = directory.join("around.html");
    fs::write(&path, around).unwrap();
    let scheme = if is_dark { 0 } else { 1 };
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--window-size=1600,1200", "--virtual-time-budget=20000"])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let told = dom.split_once("<pre id=\"told\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (told, _) = told.unwrap_or_else(|| {
        panic!("the browser shows no page: {}", String::from_utf8_lossy(&output.stderr))
    });
    let unescaped = told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let told: Vec<Told> =
        unescaped.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), frames.len(), "a copy was not looked at");
    told
}

/// A document with something for every section: made-up records, crashes that are really explained,
/// and a comparison.
fn whole() -> Document {
    let mut document = made_up();
    document.explained = crate::explain::tests::examples();
    document.beside = crate::beside::tests::made_up();
    let schemes = [("non-pers", "none", 1.0), ("fwb", "durable", 0.7), ("picl", "epoch", 0.9)];
    for (scheme, guarantee, speed) in schemes {
        let record = |metric, value| {
            let record = Record::new(Kind::Sim, "hash-toggle", scheme, metric, value);
            record.guarantee(guarantee).config("tiny (out of order)").transactions(1000)
        };
        document.compared.push(record(Metric::THROUGHPUT, 1e6 * speed));
        document.compared.push(record(Metric::SPEED_OVER_PLAIN, speed));
    }
    document
}

#[test]
fn a_browser_finds_nothing_wrong_with_the_page_and_everything_with_broken_ones() {
    let Some(browser) = BROWSERS.into_iter().find(|path| Path::new(path).exists()) else {
        println!("skipped: no Chromium is installed");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let document = whole();
    let page = super::page(&document);
    assert!(page.len() <= PAGE_BYTES_MAX, "{} bytes", page.len());
    fs::write(directory.path().join("results.json"), document.to_json()).unwrap();
    let broken = |what: &str| page.replacen("<section id=\"runtime\">", what, 1);
    let frame =
        |name, html: &str, width, height| Frame { name, html: html.to_owned(), width, height };
    let mut frames = vec![frame("phone", &page, 390, 844), frame("desk", &page, 1400, 900)];
    let comparison = crate::compare::page(
        &Document { records: document.compared.clone(), ..document.clone() },
        &[],
    );
    frames.push(frame("compared", &comparison, 1400, 900));
    for (name, what) in [
        ("overflow", "<section id=\"runtime\"><p style=\"width:3000px;max-width:none\">wide</p>"),
        ("link", "<section id=\"runtime\"><a href=\"#nowhere\">nowhere</a>"),
        ("id", "<section id=\"runtime\"><p id=\"crashes\">again</p>"),
        ("script", "<section id=\"runtime\"><script>nothing.at.all()</script>"),
        ("contrast", "<section id=\"runtime\"><p style=\"color:#999;background:#aaa\">faint</p>"),
        ("caption", "<section id=\"runtime\"><figure>mute</figure>"),
    ] {
        frames.push(frame(name, &broken(what), 1400, 900));
    }
    for is_dark in [false, true] {
        for told in look(browser, directory.path(), &frames, is_dark) {
            let Told { page, found, files, screens } = told;
            match page.as_str() {
                "phone" | "desk" | "compared" => {
                    assert_eq!(found, [""; 0], "{page}, dark: {is_dark}");
                }
                broken => {
                    let prefix = format!("{broken}: ");
                    assert!(
                        found.iter().any(|what| what.starts_with(&prefix)),
                        "{broken}: {found:?}"
                    );
                }
            }
            if page == "desk" {
                assert!(screens <= SCREENS_MAX, "{screens} screens");
            }
            for file in files {
                assert!(directory.path().join(&file).exists(), "{page}: {file} is not there");
            }
        }
    }
}
