//! The report's story, chapter by chapter.

use super::{Chapter, Section, beside, crash, explorer, native, paper, power, verdicts};
use crate::compare;
use crate::papers;
use crate::record::{Document, Kind, Metric};

/// All chapters; what was not measured is empty.
pub(super) fn chapters(document: &Document) -> Vec<Chapter> {
    let (papers, own) = papers::split(document);
    let text = |text: &str| format!("<p>{text}</p>\n");
    vec![
        Chapter {
            id: "runtime",
            title: "The runtime beside its peers",
            about: text(
                "Transactions on persistent memory under each scheme of the runtime, beside \
                 libpmemobj where this machine has it, and beside <code>none</code>, which neither \
                 logs nor flushes and survives no crash. Then its front ends beside the programs \
                 that they stand for.",
            ),
            open: 2,
            sections: vec![
                native::throughput(&own),
                beside::section(document),
                native::cost(&own),
                native::parts(&own),
                native::medium(&own),
                native::latency(&own),
            ],
        },
        Chapter {
            id: "hardware",
            title: "Hardware schemes",
            about: text(
                "Mechanisms that processors and memory controllers could have, on a timed machine: \
                 the same program under each, guarantee by guarantee.",
            ),
            open: 1,
            sections: vec![hardware(document)],
        },
        Chapter {
            id: "crashes",
            title: "Crashes",
            about: text(
                "Every image was recovered by the production code and judged by the oracle. \
                 Planted bugs show that the check can fail; the explorer shows how.",
            ),
            open: 1,
            sections: vec![
                explorer::section(&document.explained),
                crash::campaigns(&own),
                crash::planted(&own),
            ],
        },
        Chapter {
            id: "programs",
            title: "Any program",
            about: text(
                "The same question put to programs that know nothing of this project: each was run once, \
                 and power failed at every point of it.",
            ),
            open: 1,
            sections: vec![power::section(&document.power)],
        },
        Chapter {
            id: "papers",
            title: "Four papers, measured again",
            about: text(
                "Each figure with the claims that it supports folded beneath it. A claim is judged \
                 by a rule that stands in the source beside it.",
            ),
            open: 0,
            sections: papers.iter().map(|(paper, mine)| paper::in_report(*paper, mine)).collect(),
        },
        Chapter {
            id: "goals",
            title: "Our own goals",
            about: text(
                "Targets that this project set itself, apart from what papers claim. Where one was \
                 not reached, the reason stands beside it.",
            ),
            open: 0,
            sections: vec![verdicts::claims(&own, "Goals with their verdicts")],
        },
        Chapter {
            id: "machine",
            title: "This machine's floor",
            about: text(
                "What the hardware takes for a number of flushed lines and one fence, and how far \
                 the runtime is from that.",
            ),
            open: 1,
            sections: vec![native::floor(&own), native::distance(&own)],
        },
    ]
}

/// One table of all schemes of the timed machine.
fn hardware(document: &Document) -> Section {
    let body =
        match document.compared.iter().any(|r| r.kind == Kind::Sim && r.is(Metric::THROUGHPUT)) {
            true => compare::by_guarantee(document),
            false => String::new(),
        };
    Section { id: "schemes", title: "One program under every scheme", body }
}
