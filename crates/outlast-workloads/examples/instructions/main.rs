//! Instructions of a transaction, part by part, counted by single steps.
//!
//! `CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo run --release -p outlast-workloads --example instructions
//! [WORKLOAD,...] [SCHEME,...]`
//!
//! `cargo test -p outlast-workloads --test instructions` compares the sums with recorded ones.
//!
//! An instruction belongs to the innermost of the functions inlined there that is of a part; which
//! those are `addr2line` (of the binutils) says. The workload's own part is what it does in its
//! transaction; drawing an operation is not counted.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod steps;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("single steps are made on Linux on x86-64: skipped");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux {
    use std::collections::HashMap;
    use std::error::Error;
    use std::io::Write;
    use std::process::{Command, Stdio};

    use crate::steps::{self, Counted};

    /// A function's name and its file.
    type Function = (String, String);

    /// Said where there is nothing to be done.
    const NOT_PERMITTED: &str = "this process may not step through another: skipped";

    /// Transactions that are counted.
    const TRANSACTIONS: u64 = 200;

    /// Parts and the functions that belong to them: a file's path, or the end of it, and how the
    /// function's name begins. The first that fits decides.
    const PARTS: &[(&str, &[(&str, &str)])] = &[
        ("workload", &[("outlast-workloads/", "")]),
        ("structure", &[("outlast/src/collections/", "")]),
        ("allocator", &[("outlast/src/alloc/", ""), ("tx/blocks.rs", "")]),
        ("write-back", &[("outlast/src/writeback/", "")]),
        (
            "loads",
            &[("tx/access.rs", "load"), ("tx/words.rs", "load"), ("tx/words.rs", "is_in_place")],
        ),
        (
            "loads",
            &[
                ("tx/write_set.rs", "load"),
                ("tx/write_set.rs", "kept_word"),
                ("tx/isolation.rs", "read_"),
            ],
        ),
        (
            "announcing",
            &[("tx/access.rs", "will_"), ("tx/access.rs", "fetch"), ("tx/access.rs", "announce")],
        ),
        ("stores", &[("tx/access.rs", ""), ("tx/words.rs", ""), ("tx/write_set.rs", "put_word")]),
        ("stores", &[("tx/write_set.rs", "store_"), ("scheme/undo/", "")]),
        ("record", &[("outlast/src/log/", ""), ("tx/commit_record.rs", "")]),
        ("in place", &[("tx/write_set.rs", "install")]),
        ("commit", &[("scheme/redo/", ""), ("tx/numbers.rs", ""), ("tx/isolation.rs", "")]),
        ("run", &[("outlast/src/pool/", ""), ("outlast/src/tx/", ""), ("outlast/src/gate.rs", "")]),
        ("run", &[("outlast/src/solo.rs", "")]),
    ];

    /// Instructions outside of all parts' functions: mostly copies in a library.
    const OTHER: &str = "other";

    pub fn main() -> Result<(), Box<dyn Error>> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        if let [flag, workload, scheme] = &args[..]
            && flag == "--child"
        {
            return steps::child(workload, scheme.parse()?, TRANSACTIONS);
        }
        let given = |index: usize, default: &str| {
            let list = args.get(index).map_or(default, String::as_str);
            list.split(',').map(str::to_owned).collect::<Vec<_>>()
        };
        let mut columns = Vec::new();
        for workload in given(0, "sps1,sps8,hash,btree,queue") {
            for scheme in given(1, "none,swift") {
                let Some(counted) = count(&workload, &scheme)? else {
                    println!("{NOT_PERMITTED}");
                    return Ok(());
                };
                columns.push((format!("{workload} {scheme}"), counted.each(), parts(&counted)?));
            }
        }
        print(&columns);
        Ok(())
    }

    fn count(workload: &str, scheme: &str) -> Result<Option<Counted>, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?);
        child.args(["--child", workload, scheme]);
        steps::count(child, TRANSACTIONS)
    }

    fn print(columns: &[(String, f64, HashMap<&str, f64>)]) {
        let mut rows: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
        rows.dedup();
        rows.push(OTHER);
        let line = |name: &str, cells: Vec<String>| println!("| {name} | {} |", cells.join(" | "));
        line("", columns.iter().map(|(name, ..)| name.clone()).collect());
        line("---", columns.iter().map(|_| "---".to_owned()).collect());
        for row in rows {
            let cell =
                |parts: &HashMap<&str, f64>| parts.get(row).map_or(0.0, |count| count.round());
            line(row, columns.iter().map(|(.., parts)| cell(parts).to_string()).collect());
        }
        line("all", columns.iter().map(|(_, all, _)| all.round().to_string()).collect());
    }

    /// Instructions of a transaction by their parts.
    fn parts(counted: &Counted) -> Result<HashMap<&'static str, f64>, Box<dyn Error>> {
        let places: Vec<u64> = counted.by_place.keys().copied().collect();
        let mut parts = HashMap::new();
        for (place, functions) in places.iter().zip(inlined_at(&places)?) {
            let part = functions.iter().find_map(|function| part_of(function)).unwrap_or(OTHER);
            *parts.entry(part).or_default() += counted.by_place[place] as f64 / TRANSACTIONS as f64;
        }
        Ok(parts)
    }

    fn part_of((name, file): &Function) -> Option<&'static str> {
        let fits = |(path, start): &(&str, &str)| file.contains(path) && name.starts_with(start);
        PARTS.iter().find(|(_, functions)| functions.iter().any(fits)).map(|(part, _)| *part)
    }

    /// For each place in this program the functions that are inlined there, the innermost first.
    fn inlined_at(places: &[u64]) -> Result<Vec<Vec<Function>>, Box<dyn Error>> {
        let program = std::env::current_exe()?;
        let mut tool = Command::new("addr2line");
        tool.args(["-a", "-f", "-i", "-C", "-e"]).arg(program);
        let mut tool = tool.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| {
            format!("addr2line, which tells what is inlined, does not run ({error}): install binutils")
        })?;
        let asked: String = places.iter().map(|place| format!("{place:#x}\n")).collect();
        let mut input = tool.stdin.take().ok_or("addr2line has no input")?;
        let asking = std::thread::spawn(move || input.write_all(asked.as_bytes()));
        let answer = String::from_utf8(tool.wait_with_output()?.stdout)?;
        asking.join().map_err(|_| "addr2line was not asked")??;
        let mut all = Vec::new();
        let mut lines = answer.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("0x") {
                all.push(Vec::new());
                continue;
            }
            let file = lines.next().unwrap_or_default();
            let plain = line.split('<').next().unwrap_or(line);
            let own = line.rsplit("::").next().unwrap_or(line);
            let name = if plain.contains("::") { own } else { plain };
            all.last_mut()
                .ok_or("addr2line has answered something else")?
                .push((name.to_owned(), file.to_owned()));
        }
        if all.len() == places.len() {
            Ok(all)
        } else {
            Err("addr2line has answered something else".into())
        }
    }
}
