//! Sweeps: keys that were given several values, as columns of a table and of CSV.

use crate::format::short;
use crate::record::{Metric, Record};
use crate::table::TextTable;

/// Columns of the CSV in front of the keys that were set, and behind them: members of a record.
const BEFORE: [&str; 6] = ["kind", "workload", "scheme", "guarantee", "threads", "machine"];
const BEHIND: [&str; 14] = [
    "config",
    "footprint",
    "keys",
    "transactions",
    "seed",
    "policy",
    "domain",
    "plant",
    "metric",
    "class",
    "unit",
    "value",
    "p25",
    "p75",
];

/// Figures of a sweep's table, as far as they were measured.
const SHOWN: [(Metric, &str); 8] = [
    (Metric::THROUGHPUT, "tx/s"),
    (Metric::IPC, "IPC"),
    (Metric::CYCLES, "cycles"),
    (Metric::LATENCY_P50, "p50 ns"),
    (Metric::LATENCY_P99, "p99 ns"),
    (Metric::MEMORY_READS, "reads"),
    (Metric::READ_LATENCY, "read ns"),
    (Metric::BANDWIDTH, "GB/s"),
];

/// Keys that were set in any of the records.
fn keys(records: &[Record]) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for key in records.iter().flat_map(|record| record.set.keys()) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

/// Keys with several values, those set in some of the records alone included.
fn swept(records: &[Record]) -> Vec<&str> {
    let value = |key: &str, record: &Record| record.set.get(key).cloned();
    let differs = |key: &&str| {
        let mut values = records.iter().filter_map(|record| value(key, record));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    keys(records).into_iter().filter(differs).collect()
}

/// One row for each run of a sweep, with the swept keys as columns; empty where nothing was swept.
pub fn sweep_table(records: &[Record]) -> String {
    let swept = swept(records);
    if swept.is_empty() {
        return String::new();
    }
    let plain = |metric: Metric| move |r: &&Record| r.is(metric) && r.class.is_none();
    let is_shown = |shown: &&(Metric, &str)| records.iter().any(|r| plain(shown.0)(&r));
    let shown: Vec<_> = SHOWN.iter().filter(is_shown).collect();
    let same = |a: &Record, b: &Record| {
        (&a.workload, &a.scheme, &a.set) == (&b.workload, &b.scheme, &b.set)
    };
    let mut runs: Vec<&Record> = Vec::new();
    for record in records {
        if !runs.iter().any(|run| same(run, record)) {
            runs.push(record);
        }
    }
    let heads = ["", "scheme"].into_iter().chain(swept.iter().copied());
    let mut table = TextTable::new(heads.chain(shown.iter().map(|shown| shown.1)));
    for run in runs {
        let words = [run.workload.clone(), run.scheme.clone()];
        let keys = swept.iter().map(|key| run.set.get(*key).map_or("·", String::as_str).to_owned());
        let values = shown.iter().map(|(metric, _)| {
            let of_run = records.iter().filter(|record| same(record, run));
            let value = of_run.filter(|r| plain(*metric)(r)).find_map(|record| record.value);
            value.map_or("·".to_owned(), short)
        });
        table.row(words.into_iter().chain(keys).chain(values));
    }
    table.render()
}

/// All records as CSV, a line each; every key that was set has a column of its own.
pub fn csv(records: &[Record]) -> String {
    let keys = keys(records);
    let members: Vec<_> = records
        .iter()
        .map(|record| serde_json::to_value(record).expect("a record is plain data"))
        .collect();
    let is_there = |name: &&str| members.iter().any(|member| member.get(*name).is_some());
    let before: Vec<&str> = BEFORE.into_iter().filter(is_there).collect();
    let behind: Vec<&str> = BEHIND.into_iter().filter(is_there).collect();
    let mut text = csv::Writer::from_writer(Vec::new());
    let heads = before.iter().chain(&keys).chain(&behind);
    text.write_record(heads).expect("memory takes every line");
    for (record, member) in records.iter().zip(&members) {
        let of = |name: &&str| match member.get(*name) {
            None | Some(serde_json::Value::Null) => String::new(),
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let set = keys.iter().map(|key| record.set.get(*key).cloned().unwrap_or_default());
        let cells = before.iter().map(of).chain(set).chain(behind.iter().map(of));
        text.write_record(cells).expect("memory takes every line");
    }
    let bytes = text.into_inner().expect("memory takes every line");
    String::from_utf8(bytes).expect("it was written from text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use crate::simulated::settings;
    use outlast_schemes::MachineScheme;

    fn swept_over(option: &str) -> Vec<Record> {
        let options = [option.to_owned()];
        let options = if option.is_empty() { &[] } else { &options[..] };
        let plain = MachineScheme::plain();
        let mut records = Vec::new();
        for (number, setting) in (1..).zip(settings("server", None, options, &[plain]).unwrap()) {
            let of = |metric, value| Record::new(Kind::Sim, "random", plain.name(), metric, value);
            let mut found = vec![
                of(Metric::IPC, f64::from(number)),
                of(Metric::READ_LATENCY, 80.0),
                of(Metric::READ_LATENCY, 99.0).class("p99"),
            ];
            setting.mark(plain, &mut found);
            records.extend(found);
        }
        records
    }

    #[test]
    fn keys_of_a_sweep_are_columns_of_table_and_csv() {
        let records = swept_over("core.rob=64,128");
        assert_eq!(records[0].machine.as_deref(), Some("server"));
        let table = sweep_table(&records);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["scheme", "core.rob", "IPC", "read", "ns"]);
        assert_eq!(lines[1], ["random", "non-pers", "64", "1.00", "80.0"]);
        assert_eq!(lines[2], ["random", "non-pers", "128", "2.00", "80.0"]);
        let text = csv(&records);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "kind,workload,scheme,machine,core.rob,metric,class,unit,value");
        assert_eq!(lines[1], "sim,random,non-pers,server,64,ipc,,instr/cycle,1.0");
        assert_eq!(lines[6], "sim,random,non-pers,server,128,read_latency,p99,ns,99.0");
        assert_eq!(lines.len(), 7);
        let json = serde_json::to_value(&records[0]).unwrap();
        assert_eq!((&json["machine"], &json["set"]["core.rob"]), (&"server".into(), &"64".into()));
    }

    #[test]
    fn one_run_is_no_sweep() {
        assert_eq!(sweep_table(&swept_over("core.rob=64")), "");
        assert!(csv(&swept_over("")).starts_with("kind,workload,scheme,machine,metric,"));
    }

    #[test]
    fn a_machine_is_described_by_all_of_its_keys() {
        let options = ["core.rob=64".to_owned()];
        let setting = settings("server", None, &options, &[]).unwrap().remove(0);
        let (name, keys) = setting.described();
        assert_eq!((name.as_str(), keys["core.rob"].as_str()), ("server, core.rob=64", "64"));
        assert!(keys.len() > 40 && keys.contains_key("memory.adr"), "{}", keys.len());
    }
}
