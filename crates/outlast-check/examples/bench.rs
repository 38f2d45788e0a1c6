//! What a capture costs: `bench [ROUNDS]` runs a program that writes 10,000 pages with a sync each ten, plain and
//! captured in turns, in a folder below the one given by `TMPDIR`. Medians are printed with the least and the most.

use std::error::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use outlast_check::capture::{Options, capture, marks::Marks};

const WRITES: u64 = 10_000;
const WRITES_A_SYNC: u64 = 10;
const PAGES: u64 = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, file] = &words[..]
        && word == "write"
    {
        return write(Path::new(file));
    }
    let rounds: usize = words.get(1).map_or(Ok(7), |word| word.parse())?;
    let program = std::env::current_exe()?;
    let (mut plain, mut captured) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("data");
        let began = Instant::now();
        let status = Command::new(&program).arg("write").arg(&file).status()?;
        plain.push(began.elapsed());
        assert!(status.success(), "the program has failed: {status}");

        let folder = tempfile::tempdir()?;
        let file = folder.path().join("data");
        let began = Instant::now();
        let run = capture(&Options {
            dir: folder.path().to_owned(),
            command: vec![program.clone().into(), "write".into(), file.into()],
            folder: None,
            marks: Marks::default(),
            time: Duration::from_secs(600),
            reads: false,
            fault: None,
        })?;
        captured.push(began.elapsed());
        assert!(run.calls.len() as u64 > WRITES, "calls are missing");
    }
    let ratios: Vec<f64> = plain
        .iter()
        .zip(&captured)
        .map(|(plain, captured)| captured.as_secs_f64() / plain.as_secs_f64())
        .collect();
    let millis = |times: &[Duration]| times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    println!("plain     {} ms", spread(millis(&plain), 0));
    println!("captured  {} ms", spread(millis(&captured), 0));
    println!("ratio     {}", spread(ratios, 2));
    Ok(())
}

fn write(file: &Path) -> Result<(), Box<dyn Error>> {
    let file = OpenOptions::new().create(true).write(true).truncate(true).open(file)?;
    let mut page = [0; 4096];
    for number in 0..WRITES {
        page.fill(number as u8);
        file.write_all_at(&page, number % PAGES * page.len() as u64)?;
        if number % WRITES_A_SYNC == WRITES_A_SYNC - 1 {
            file.sync_all()?;
        }
    }
    Ok(())
}

/// Median, least and most.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("{:.digits$} ({least:.digits$} to {most:.digits$})", values[values.len() / 2])
}
