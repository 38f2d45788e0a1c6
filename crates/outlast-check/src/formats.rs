//! Findings as CI systems read them: JUnit's XML and SARIF.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::entry::{Entry, Source, Tell};

/// Text within XML, without the control characters that XML cannot hold.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            letter if letter.is_control() && letter != '\n' && letter != '\t' => shown.push('?'),
            letter => shown.push(letter),
        }
    }
    shown
}

/// The losses, what is kept behind them, and the remedy.
fn details(entry: &Entry) -> String {
    let mut text = String::new();
    for (name, line) in entry.lines() {
        let _ = writeln!(text, "{name}: {line}");
    }
    let _ = writeln!(text, "remedy: {}", entry.class.remedy);
    for (name, line) in [("state", Some(&entry.state)), ("replay", entry.replay.as_ref())] {
        if let Some(line) = line.filter(|line| !line.is_empty()) {
            let _ = writeln!(text, "{name}: {line}");
        }
    }
    text
}

/// A test suite with a case for each finding, or one that passed. Findings that only cost time pass.
#[must_use]
pub fn junit<T: Tell>(program: &str, findings: &[T], seconds: f64) -> String {
    let entries: Vec<Entry> = findings.iter().map(Tell::entry).collect();
    let cases = entries.len().max(1);
    let failures = entries.iter().filter(|entry| entry.is_failure()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"outlast check\" tests=\"{cases}\" failures=\"{failures}\" errors=\"0\" time=\"{seconds:.3}\">\n"
    );
    let program = escaped(program);
    if entries.is_empty() {
        let _ = writeln!(text, "<testcase classname=\"{program}\" name=\"loss of power\"/>");
    }
    for entry in &entries {
        let (class, said) = (entry.class.name, escaped(&details(entry)));
        let subject = escaped(&entry.subject);
        let _ = writeln!(text, "<testcase classname=\"{program}\" name=\"{class}: {subject}\">");
        let wrong = escaped(&entry.wrong);
        let _ = if entry.is_failure() {
            writeln!(text, "<failure type=\"{class}\" message=\"{wrong}\">{said}</failure>")
        } else {
            writeln!(text, "<system-out>{said}</system-out>")
        };
        text.push_str("</testcase>\n");
    }
    text + "</testsuite>\n</testsuites>\n"
}

/// A SARIF log (2.1.0) with a result for each finding. A program that writes files is a binary: its calls
/// stand for places in source files where those are not known.
#[must_use]
pub fn sarif<T: Tell>(findings: &[T]) -> Value {
    let entries: Vec<Entry> = findings.iter().map(Tell::entry).collect();
    let mut rules: Vec<Value> = Vec::new();
    for Entry { class, .. } in &entries {
        let id = class.id();
        if !rules.iter().any(|known| known["id"] == id.as_str()) {
            rules.push(json!({
                "id": id,
                "shortDescription": {"text": class.name},
                "help": {"text": class.remedy},
                "properties": {"tags": [class.kind.name()]},
            }));
        }
    }
    let location = |entry: &Entry| {
        let logical = json!([{"name": entry.subject}]);
        match &entry.source {
            Some(Source { file, line }) => json!({
                "logicalLocations": logical,
                "physicalLocation": {
                    "artifactLocation": {"uri": file},
                    "region": {"startLine": line},
                },
            }),
            None => json!({"logicalLocations": logical}),
        }
    };
    let results: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let mut result = json!({
                "ruleId": entry.class.id(),
                "level": if entry.is_failure() { "error" } else { "note" },
                "message": {"text": format!("{}\n{}", entry.wrong, details(entry))},
                "locations": [location(entry)],
            });
            if !entry.state.is_empty() {
                result["partialFingerprints"] = json!({"outlastState/v1": entry.state});
            }
            result
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "outlast check", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
        }],
    })
}
