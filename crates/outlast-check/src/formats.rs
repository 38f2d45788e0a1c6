//! Findings as CI systems read them: JUnit's XML and SARIF.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::finding::Finding;

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
fn details(finding: &Finding) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "allowed by {}", finding.models.join(", "));
    for unit in &finding.lost_units {
        let _ = writeln!(text, "lost: {unit}");
    }
    if let Some(kept) = &finding.kept {
        let _ = writeln!(text, "kept: {}", kept.text);
    }
    for (name, of) in [("failing", &finding.fault), ("recovering from", &finding.first_crash)] {
        if let Some(of) = of {
            let _ = writeln!(text, "{name}: {of}");
        }
    }
    let _ = writeln!(text, "remedy: {}", finding.class.remedy());
    text
}

/// A test suite with a failed case for each finding, or one that passed.
#[must_use]
pub fn junit(program: &str, findings: &[&Finding], seconds: f64) -> String {
    let cases = findings.len().max(1);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"outlast check\" tests=\"{cases}\" failures=\"{}\" errors=\"0\" time=\"{seconds:.3}\">\n",
        findings.len()
    );
    let program = escaped(program);
    if findings.is_empty() {
        let _ = writeln!(text, "<testcase classname=\"{program}\" name=\"loss of power\"/>");
    }
    for finding in findings {
        let _ = writeln!(
            text,
            "<testcase classname=\"{program}\" name=\"{}: {}\">\n<failure type=\"{}\" message=\"{}\">{}</failure>\n</testcase>",
            finding.class.name(),
            escaped(&finding.lost.text),
            finding.class.name(),
            escaped(&finding.wrong),
            escaped(&details(finding))
        );
    }
    text + "</testsuite>\n</testsuites>\n"
}

/// A SARIF log (2.1.0) with a result for each finding. There are no places in source files: the
/// program is a binary, and the directory's files stand for them.
#[must_use]
pub fn sarif(findings: &[&Finding]) -> Value {
    let rule = |finding: &Finding| finding.class.name().replace(' ', "-");
    let mut rules: Vec<Value> = Vec::new();
    for finding in findings {
        let id = rule(finding);
        if !rules.iter().any(|known| known["id"] == id.as_str()) {
            rules.push(json!({
                "id": id,
                "shortDescription": {"text": finding.class.name()},
                "help": {"text": finding.class.remedy()},
            }));
        }
    }
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "ruleId": rule(finding),
                "level": "error",
                "message": {"text": format!("{}\n{}", finding.wrong, details(finding))},
                "locations": [{"logicalLocations": [{"name": finding.lost.text}]}],
                "partialFingerprints": {"outlastState/v1": finding.state},
            })
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
