//! The table, as a document shows it.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Counterpart, MIXES, PROGRAMS, Window};

fn millions(window: Window) -> String {
    format!("{} + {}", window.skip / 1_000_000, window.count / 1_000_000)
}

fn packages(counterpart: &Counterpart) -> String {
    let names: Vec<_> = counterpart.packages.iter().map(|package| package.name).collect();
    names.join(", ")
}

/// Every program with what stands for it, in Markdown.
pub fn table() -> String {
    let mut text = String::from(
        "| program | stands for it | packages | quick | full |\n|---|---|---|---|---|\n",
    );
    for entry in PROGRAMS {
        let _ = match &entry.counterpart {
            Ok(counterpart) => writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                entry.name,
                counterpart.about,
                packages(counterpart),
                millions(counterpart.quick),
                millions(counterpart.full)
            ),
            Err(why) => writeln!(text, "| {} | nothing: {why} | | | |", entry.name),
        };
    }
    text
}

/// The same, and the mixes, as records of a JSON document.
pub fn list() -> Vec<Value> {
    let window = |window: Window| json!({"skip": window.skip, "count": window.count});
    let programs = PROGRAMS.iter().map(|entry| match &entry.counterpart {
        Ok(counterpart) => json!({
            "kind": "program",
            "name": entry.name,
            "about": counterpart.about,
            "packages": counterpart.packages.iter().map(|of| of.name).collect::<Vec<_>>(),
            "command": counterpart.command,
            "before": counterpart.before,
            "inputs": counterpart.inputs.iter().map(|input| input.name).collect::<Vec<_>>(),
            "quick": window(counterpart.quick),
            "full": window(counterpart.full),
        }),
        Err(why) => json!({"kind": "program", "name": entry.name, "reason": why}),
    });
    let mixes =
        MIXES.iter().map(|mix| json!({"kind": "mix", "name": mix.name, "programs": mix.programs}));
    programs.chain(mixes).collect()
}
