//! The page from made-up records: they exist here only.

use super::*;
use crate::machine::Machine;
use crate::record::{Document, Kind, Metric, Record, Verdict};
use crate::stats::Spread;

/// A document with something for every section.
pub(crate) fn made_up() -> Document {
    let mut document = Document {
        outlast: "0.0.0".into(),
        command: "outlast report --scale <test>".into(),
        machine: Machine {
            cpu_model: "Made-up CPU".into(),
            cores: 2,
            flush_instruction: "clwb".into(),
            kernel: "System 1".into(),
            memory_bytes: 8 << 30,
            ..Machine::default()
        },
        seed: 11,
        commit: Some("0123abc".into()),
        simulated: std::collections::BTreeMap::new(),
        records: Vec::new(),
        compared: Vec::new(),
        beside: crate::beside::Beside::default(),
        power: crate::power::Power::default(),
        failures: Vec::new(),
        explained: Vec::new(),
    };
    let records = &mut document.records;
    let schemes = [("none", 1.0), ("undo", 1.9), ("redo", 1.6), ("pmdk", 3.4), ("pmdk-word", 3.9)];
    for (index, workload) in
        ["ycsb-a", "ycsb-f", "sps1", "sps8", "hash", "btree"].into_iter().enumerate()
    {
        let base = [2600.0, 3100.0, 70.0, 300.0, 420.0, 900.0][index];
        for (scheme, factor) in schemes {
            let spread = |median: f64, by: f64| Spread {
                median,
                p25: median * (1.0 - by),
                p75: median * (1.0 + by),
                rounds: 9,
            };
            let extra = (factor - 1.0) * (300.0 + base * 0.1);
            let nanos = base + extra;
            let mut add = |metric, spread| {
                let record = Record::spread(Kind::Native, workload, scheme, metric, spread);
                records.push(record.threads(1).domain("adr").config("100 k records"));
            };
            add(Metric::THROUGHPUT, spread(1e9 / nanos, 0.04));
            add(Metric::THROUGHPUT_CPU, spread(0.9e9 / nanos, 0.03));
            if scheme != "none" {
                add(Metric::PERSISTENCE_COST, spread(extra, 0.06));
                add(Metric::PERSISTENCE_COST_RATIO, spread((factor - 1.0) / 2.4, 0.05));
            }
            let mut single = |metric, value| {
                records.push(Record::new(Kind::Native, workload, scheme, metric, value));
            };
            single(Metric::TIME_LOG, extra * 0.35);
            single(Metric::TIME_FLUSH, extra * 0.25);
            single(Metric::TIME_FENCE, extra * 0.4);
            single(Metric::TIME_REST, base);
            single(Metric::LATENCY_P50, nanos * 0.97);
            single(Metric::LATENCY_P99, nanos * 2.2);
            single(Metric::FLUSHED_LINES, (factor - 1.0) * 3.0);
            single(Metric::FENCES, (factor - 1.0) * 2.0);
        }
        let ratio = |claim, target: f64, scheme, value: f64| {
            let claim =
                Record::claim("outlast", claim, workload, scheme, Metric::PERSISTENCE_COST_RATIO);
            claim.judged(target, value, value <= target, "the fence alone takes 0.5 of it")
        };
        records.push(ratio("cost of undo ≤ 0.6 × the better peer's", 0.6, "undo", 0.375));
        let redo = if index == 2 { 0.52 } else { 0.25 };
        records.push(ratio("cost of redo ≤ 0.45 × the better peer's", 0.45, "redo", redo));
    }
    for (pattern, start, step) in [
        ("streamed", 180.0, 2.0),
        ("resident log lines, batch", 120.0, 8.0),
        ("scattered, alternating", 240.0, 125.0),
        ("scattered, batch", 262.0, 7.0),
        ("scattered, loaded first, batch", 122.0, 9.0),
    ] {
        for lines in 1..=16u32 {
            let nanos = start + step * f64::from(lines - 1);
            let record = Record::new(Kind::Native, "floor", pattern, Metric::FLOOR, nanos);
            records.push(record.lines(lines).domain("adr"));
        }
    }
    for scheme in ["undo", "redo"] {
        for policy in ["lru", "plru", "bimodal", "random", "adversarial", "any"] {
            let mut add = |metric, value| {
                let record = Record::new(Kind::Crash, "hash", scheme, metric, value);
                records.push(record.policy(policy).guarantee("durable"));
            };
            add(Metric::CRASH_POINTS, 2000.0);
            add(Metric::IMAGES_VERIFIED, 612_345.0);
            add(Metric::IMAGES_DISTINCT, 401_222.0);
            add(Metric::LOST, 0.0);
            add(Metric::TORN, if scheme == "redo" && policy == "random" { 1.0 } else { 0.0 });
            add(Metric::VERIFY_RATE, 345_678.0);
        }
        for (index, plant) in
            ["skip-log-flush", "no-fence-before-seal", "early-truncate"].into_iter().enumerate()
        {
            let mut add = |metric, value| {
                records.push(Record::new(Kind::Crash, "words", scheme, metric, value).plant(plant));
            };
            if (index, scheme) != (1, "undo") {
                add(Metric::PLANTED_KILLED, f64::from(index < 2));
                add(Metric::IMAGES_TO_KILL, 17.0 * (index + 1) as f64);
            }
        }
        let control = Record::new(Kind::Crash, "words", scheme, Metric::CONTROL_FLAGGED, 0.0);
        records.push(control.plant("duplicate-clwb"));
        for (metric, value) in [(Metric::PLANTED_KILLED, 2.0), (Metric::PLANTED_TOTAL, 3.0)] {
            records.push(Record::new(Kind::Crash, "words", scheme, metric, value));
        }
    }
    let untested =
        Record::claim("archapt", "speed on Optane", "ycsb-a", "undo-archapt", Metric::THROUGHPUT);
    records.push(untested.verdict(Verdict::NotTestable).reason("no such memory here"));
    let of_paper = |mut record: Record| {
        record.paper = Some("archapt".to_owned());
        record
    };
    for (scheme, value) in [("undo", 2.0), ("redo-archapt", 0.4)] {
        let flushes = Record::new(Kind::Sim, "ycsb-a", scheme, Metric::DATA_FLUSHES, value);
        records.push(of_paper(flushes));
        // The same metric as the report's own competition has.
        let other = Record::new(Kind::Native, "ycsb-a", scheme, Metric::THROUGHPUT, 1.0);
        records.push(of_paper(other));
    }
    let metric = Metric { name: "archapt.headline.flush_reduction", unit: "%" };
    let reduction = Record::claim("archapt", "fewer flushes", "ycsb-a", "undo-archapt", metric);
    records.push(reduction.judged(66.0, 41.5, false, "it is less"));
    document
}

#[test]
fn the_page_stands_alone() {
    let page = page(&made_up());
    assert!(page.starts_with("<!doctype html>"));
    for outside in ["http-equiv", "src=", "@import", "url(", "fetch(", "import("] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
    for link in page.split("href=\"").skip(1) {
        let to = link.split('"').next().unwrap();
        if to == "results.json" {
            continue;
        }
        let id = to.strip_prefix('#').unwrap_or_else(|| panic!("the page refers to {to}"));
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    // The one address is the name of SVG itself.
    assert_eq!(
        page.matches("http").count(),
        page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
    );
    assert!(page.contains("report --scale &lt;test&gt;"), "text is escaped");
    assert!(page.contains("seed 11") && page.contains("0123abc"));
}

#[test]
fn tags_are_balanced() {
    let page = page(&made_up());
    for tag in [
        "section", "table", "thead", "tbody", "tr", "td", "th", "div", "figure", "svg", "p", "nav",
        "ul", "li", "details", "summary", "code",
    ] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

/// The paper's claims and what was measured for its figures stand in a section of their own.
#[test]
fn a_papers_figures_stay_apart_from_the_reports_own() {
    let page = page(&made_up());
    let (own, archapt) = page.split_at(page.find("<details id=\"archapt\"").unwrap());
    assert!(
        archapt.contains("Judged here: 2 claims: 1 not reached, 1 not testable. Not measured in")
    );
    assert!(archapt.contains("<code>outlast reproduce archapt --figure 9</code>"));
    for shown in ["it is less", "no such memory here", "<h4>Figure 9: flushes</h4>", "<svg"] {
        assert!(archapt.contains(shown), "{shown}");
    }
    for hidden in ["it is less", "redo-archapt", "no such memory"] {
        assert!(!own.contains(hidden), "{hidden}");
    }
    let goals = &page[page.find("<section id=\"goals\"").unwrap()..];
    assert!(!goals.contains("it is less") && goals.contains("the fence alone takes 0.5 of it"));
}

#[test]
fn what_was_not_reached_comes_first_with_its_reason() {
    let page = page(&made_up());
    let claims = &page[page.find("<details id=\"claims\"").unwrap()..];
    let first = |text: &str| claims.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(first("✗ not reached") < first("✓ reached"));
    assert!(claims.contains("the fence alone takes 0.5 of it"));
    assert!(page.contains("<b>11 of 12</b>own goals reached"));
    assert!(page.contains("<b>0 of 1</b>claims of papers reached"));
}

#[test]
fn harm_is_shown_as_harm() {
    let page = page(&made_up());
    assert!(page.contains("<div class=\"tile bad\"><b>1</b>lost, torn or beyond repair after 24"));
    assert!(page.contains("<b>4 of 6</b>planted bugs caught"));
    assert!(page.contains("<td class=\"bad\">✗ survived</td>"));
    assert!(page.contains("✓ caught<small>17 images</small>"));
    assert!(page.contains("<td class=\"blank\">·</td>"), "a bug that a scheme cannot have");
    assert!(page.contains("✓ silent"));
}

#[test]
fn a_run_without_results_says_what_it_did_not_measure() {
    let mut document = made_up();
    document.records.clear();
    let page = page(&document);
    let rest =
        "Beside SQLite, Redis and embedded databases; Cost of persistence; Where the time goes;";
    assert!(page.contains(&format!("Not measured in this run: Throughput; {rest}")));
    assert!(!page.contains("<svg"));
    let keep = |r: &Record| r.is(Metric::THROUGHPUT) && r.paper.is_none();
    document.records = made_up().records.into_iter().filter(keep).collect();
    let page = super::page(&document);
    assert_eq!(page.matches("<svg").count(), 2, "the answer and the workloads one by one");
    assert!(page.contains(&format!("Not measured in this run: {rest}")));
}

#[test]
fn figures_need_no_fonts_and_follow_the_paper() {
    let page = page(&made_up());
    assert_eq!(page.matches("<svg").count(), 7);
    assert!(page.contains("fill=\"currentColor\""));
    assert!(!page.contains("\"#000000\""), "black ink would vanish on dark paper");
    assert!(page.contains("#3F86C8"), "undo has its colour");
}

/// Writes a page to look at, the made-up one or that of `RESULTS`:
/// `PAGE=/tmp/page.html RESULTS=report/results.json cargo test -p outlast-lab look`.
#[test]
fn look() {
    if let Some(path) = std::env::var_os("PAGE") {
        let document = match std::env::var_os("RESULTS") {
            Some(results) => {
                Document::from_json(&std::fs::read_to_string(results).unwrap()).unwrap()
            }
            None => made_up(),
        };
        std::fs::write(path, page(&document)).unwrap();
    }
}
