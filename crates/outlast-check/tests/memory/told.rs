//! Findings of memory as CI systems read them, in the words that files and memory share.

use outlast_check::entry::{Kind, Tell, Term};
use outlast_check::finding;
use outlast_check::memory::{Check, Class, Crash, ImageMedium, Report, Reproduction, Violation};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, PoolOffset, TxId};
use serde_json::Value;

/// The page that explains classes.
const PAGE: &str = include_str!("../../../../docs/check.md");

const VALID: PoolOffset = PoolOffset(0);
const VALUE: PoolOffset = PoolOffset(64);

/// Publishes a value; without `fence` the flag may become durable before it. Ends with `needless` fences.
fn publish(medium: &Recorder, fence: bool, needless: u32) {
    medium.store_u64(VALUE, 42);
    medium.flush(VALUE.line());
    if fence {
        medium.fence();
    }
    medium.store_u64(VALID, 1);
    medium.flush(VALID.line());
    medium.fence();
    (0..needless).for_each(|_| medium.fence());
    medium.mark(Mark::Ack(TxId(1)));
}

/// The value, if the flag says that it is there.
fn recover(image: &ImageMedium) -> Result<Option<u64>, String> {
    Ok((image.load_u64(VALID) == 1).then(|| image.load_u64(VALUE)))
}

fn judge(state: &Option<u64>, crash: &Crash<'_>) -> Result<(), Violation> {
    match state {
        Some(42) => Ok(()),
        None if crash.acked.is_empty() => Ok(()),
        other => Err(format!("found <{other:?}>").into()),
    }
}

fn check(fence: bool, needless: u32) -> Report {
    let program = |_: LaneId, medium: &Recorder| publish(medium, fence, needless);
    Check::new(128).run(program, recover, judge)
}

#[test]
fn a_failure_is_a_failed_case_and_an_error_at_its_line() {
    let report = check(false, 0);
    let [finding] = &report.findings[..] else { panic!("{report}") };
    assert_eq!(finding.class, Class::MissingFence);

    let junit = report.junit("publish & co");
    assert!(junit.contains("tests=\"1\" failures=\"1\""), "{junit}");
    assert!(junit.contains("classname=\"publish &amp; co\""), "{junit}");
    assert!(
        junit
            .contains("<failure type=\"missing fence\" message=\"broken: found &lt;Some(0)&gt;\">")
    );
    assert!(junit.contains("\nremedy: fence between"), "{junit}");

    let sarif: Value = serde_json::from_str(&report.sarif()).unwrap();
    let (rules, result) =
        (&sarif["runs"][0]["tool"]["driver"]["rules"], &sarif["runs"][0]["results"][0]);
    assert_eq!(rules[0]["properties"]["tags"][0], Kind::NotDurable.name());
    assert_eq!((&result["ruleId"], &result["level"]), (&"missing-fence".into(), &"error".into()));
    let place = &result["locations"][0]["physicalLocation"];
    let site = finding.place.site.unwrap().location;
    assert_eq!(place["artifactLocation"]["uri"], site.file());
    assert_eq!(place["region"]["startLine"], site.line());

    // The state that every report names is one that fails again.
    let state = result["partialFingerprints"]["outlastState/v1"].as_str().unwrap();
    let json: Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(json["findings"][0]["state"], state);
    let reproduction: Reproduction = state.parse().unwrap();
    let again = Check::new(128).reproduce(
        &reproduction,
        |_, medium: &Recorder| publish(medium, false, 0),
        recover,
        judge,
    );
    assert!(again.is_err());
}

#[test]
fn a_finding_that_costs_time_passes_and_is_a_note() {
    let report = check(true, 1);
    assert!(!report.has_failures() && !report.findings.is_empty(), "{report}");
    let junit = report.junit("publish");
    assert!(junit.contains("failures=\"0\"") && junit.contains("<system-out>"), "{junit}");
    let sarif: Value = serde_json::from_str(&report.sarif()).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["level"], "note");
}

#[test]
fn a_run_without_findings_passes() {
    let report = check(true, 0);
    let junit = report.junit("publish");
    assert!(report.findings.is_empty() && junit.contains("tests=\"1\" failures=\"0\""), "{junit}");
}

#[test]
fn a_crash_of_recovery_is_called_as_with_files() {
    let mut finding = check(false, 0).findings.remove(0);
    assert_eq!(finding.term().kind, Kind::NotDurable);
    finding.place.level = 2;
    assert_eq!((finding.term().kind, finding.term().name), (Kind::Recovery, "missing fence"));
    finding.class = Class::Atomicity;
    let of_files = finding::Class::RecoveryNotRepeatable.term();
    let entry = finding.entry();
    assert_eq!((entry.class.name, entry.class.kind), (of_files.name, of_files.kind));
}

#[test]
fn files_and_memory_have_one_vocabulary() {
    use finding::Class as Files;
    let memory = [
        Class::MissingFlush,
        Class::MissingFence,
        Class::Order,
        Class::Atomicity,
        Class::Tearing,
        Class::StaleRecord,
        Class::AcknowledgedEarly,
        Class::Panic,
        Class::Endless,
        Class::NotDeterministic,
        Class::TooWide,
        Class::NotDecided,
        Class::RedundantFlush,
        Class::NeedlessFence,
        Class::NeverRead,
    ];
    let files = [
        Files::FileNotSynced,
        Files::DirectoryNotSynced,
        Files::AcknowledgedTooEarly,
        Files::RenameBeforeSync,
        Files::SizeWithoutContent,
        Files::MarkWithData,
        Files::ErrorNotHeeded,
        Files::RecoveryNotRepeatable,
        Files::CreationNotRestartable,
    ];
    let terms: Vec<Term> =
        memory.map(Class::term).into_iter().chain(files.map(Files::term)).collect();
    let mut shared = Vec::new();
    for (index, one) in terms.iter().enumerate() {
        for other in terms[index + 1..].iter().filter(|other| other.name == one.name) {
            assert_eq!(one.kind, other.kind, "one name, one meaning: {}", one.name);
            shared.push(one.name);
        }
    }
    assert_eq!(shared, ["acknowledged too early"]);
    for term in terms {
        assert!(PAGE.contains(term.name) && PAGE.contains(term.kind.name()), "{term:?}");
        assert!(term.remedy.len() > 10 && !term.remedy.ends_with('.'), "{term:?}");
    }
}
