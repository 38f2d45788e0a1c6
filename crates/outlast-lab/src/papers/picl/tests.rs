use super::*;
use crate::record::{Kind, Verdict};

/// Synthetic work alone: what runs where there are no programs.
fn tiny(parts: &[Part]) -> Task {
    Task {
        divisor: 8192,
        single: (1, 2),
        mixed: (1, 1),
        swept_mixes: 1,
        with_programs: false,
        with_synthesis: false,
        ..Task::new(parts, Size::Quick, 1)
    }
}

#[test]
fn a_tiny_reproduction_judges_every_claim_and_is_the_same_again() {
    let run = |parts: &[Part]| run(&tiny(parts), &mut |_| ()).unwrap();
    let records = run(&Part::ALL);
    let claims: Vec<_> = records.iter().filter(|record| record.kind == Kind::Claim).collect();
    assert_eq!(claims.len(), CLAIMS.len());
    for claim in &claims {
        let silent = claim.verdict == Some(Verdict::NotTestable) && claim.reason.is_none();
        assert!(claim.verdict.is_some() && !silent, "{}", claim.metric);
    }
    let is_measured = |id: &str| !id.contains("table3") && !id.contains("proto");
    let rtl = claims.iter().filter(|claim| !is_measured(&claim.metric));
    assert!(rtl.clone().count() > 10);
    for claim in rtl {
        assert!(claim.reason.as_deref().unwrap().contains("RTL"), "{}", claim.metric);
    }
    let few = [Part::Fig9, Part::Compression, Part::Wear];
    assert_eq!(run(&few), run(&few));
}

/// Tables II and IV are given by the paper: the machine has the values of its Table IV, and runs show the
/// cells of its Table II. None of them is a claim with a verdict.
#[test]
fn features_and_machine_are_as_published() {
    let records = run(&tiny(&[Part::Table2, Part::Table4]), &mut |_| ()).unwrap();
    assert!(records.iter().all(|record| record.kind != Kind::Claim));
    let given = claim::configuration(include_str!("claims.csv"));
    let part = |name: &'static str| given.iter().filter(move |line| line.part == name);
    assert_eq!(part("table2").count(), features::ROWS.len() * features::COLUMNS.len());
    assert_eq!(part("table4").count(), machine::TABLE4.len());
    for line in part("table2").chain(part("table4")) {
        let name = line.id.splitn(3, '.').nth(2).unwrap();
        let is_cell = |record: &&Record| format!("{}.{}", record.workload, record.scheme) == name;
        let found = records.iter().find(|r| r.workload == name || is_cell(r)).unwrap();
        let (ours, published) = (found.value.unwrap(), line.value.unwrap());
        assert!((ours - published).abs() <= 1e-6 * published.abs(), "{}: {ours}", line.id);
    }
}

/// All parts of the quick scale are told to end within six minutes, with every program of the suite there.
#[test]
fn every_part_announces_its_time() {
    let sum = |parts: &[Part], size| {
        Task::new(parts, size, 1).stages().iter().map(|stage| stage.1).sum::<f64>()
    };
    let quick = sum(&Part::ALL, Size::Quick);
    assert!((120.0..=380.0).contains(&quick), "{quick}");
    assert!(sum(&Part::ALL, Size::Full) > 50.0 * quick);
    assert!(sum(&[Part::Fig17], Size::Quick) < quick / 2.0);
}

/// Claims of Table III go by what Yosys counted; without it each says in one line what is missing.
#[test]
fn area_is_judged_by_what_was_mapped() {
    use outlast_rtl::synthesis::{Area, Modules, Used};
    let used = |luts, half_blocks| Used { luts, half_blocks, ..Used::default() };
    let modules = |of: &[(&str, Used)]| -> Modules {
        of.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect()
    };
    let with = [("l2", used(1232, 10)), ("llc", used(5400, 64)), ("undo_log", used(198, 0))];
    let without = [("l2", used(1000, 8)), ("llc", used(4000, 60))];
    let area = Area { with: modules(&with), without: modules(&without) };
    let judged = |area| {
        let findings = Findings { area, ..Findings::default() };
        let there = Works::find(&tiny(&[Part::Table3]), &mut |_| ()).unwrap();
        judge::judge(&tiny(&[Part::Table3]), &there, &findings)
    };
    let records = judged(Ok(area));
    let value =
        |id: &str| records.iter().find(|record| record.metric == id).unwrap().value.unwrap();
    assert_eq!(value("picl.table3.lut.total"), 1830.0);
    assert!((value("picl.proto.logic") - 0.898).abs() < 0.001);
    assert!((value("picl.proto.llc_share") - 76.5).abs() < 0.1);
    assert!((value("picl.proto.bram") - 8.82).abs() < 0.01);
    let missing = "yosys is missing: apt-get install yosys";
    for record in judged(Err(missing.to_owned())) {
        assert_eq!(record.verdict, Some(Verdict::NotTestable));
        assert_eq!(record.reason.as_deref(), Some(missing));
    }
}
