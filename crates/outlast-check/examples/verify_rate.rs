//! How many recoveries per second the exhaustive checker executes and judges: a redo log of two
//! lines a record in a pool of 64 KiB, whose recovery reads some hundreds of bytes.
//!
//! `cargo run --release -p outlast-check --example verify_rate [ROUNDS]`

use std::time::Instant;

use outlast_check::memory::{Crash, Exhaustive, ImageMedium, Model, Violation};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LineAddr, TxId};

const POOL: u64 = 64 << 10;
const LOG: u64 = 16;
const RECORDS: u64 = 8;
const DATA: u64 = 512;
const WORDS: u64 = 8;

fn seal(record: &[u64; 16]) -> u64 {
    record[..15].iter().fold(0x9e37, |sum, word| (sum ^ word).wrapping_mul(0x100_0000_01b3) | 1)
}

/// Four words, each on a line of its own, are set to the transaction's number.
fn transact<M: Medium>(medium: &M, tx: u64) {
    let mut record = [0; 16];
    record[0] = tx;
    (1..9).for_each(|i| record[i] = tx * 16 + i as u64);
    record[15] = seal(&record);
    let at = LineAddr(LOG + tx % RECORDS * 2).start();
    let bytes: Vec<u8> = record.iter().flat_map(|word| word.to_le_bytes()).collect();
    medium.store(at, &bytes);
    medium.flush_range(at, 128);
    medium.fence();
    medium.mark(Mark::Ack(TxId(tx)));
    for word in 0..WORDS / 2 {
        let line = LineAddr(DATA + (tx + word) % WORDS);
        medium.store_u64(line.start(), tx);
        medium.flush(line);
    }
    medium.fence();
}

fn recover<M: Medium>(medium: &M) -> u64 {
    let mut newest = 0;
    for slot in 0..RECORDS {
        let mut bytes = [0; 128];
        medium.load(LineAddr(LOG + slot * 2).start(), &mut bytes);
        let record: [u64; 16] = std::array::from_fn(|i| {
            u64::from_le_bytes(bytes[i * 8..][..8].try_into().expect("eight bytes"))
        });
        if record[15] == seal(&record) && record[0] > newest {
            newest = record[0];
        }
    }
    if newest > 0 {
        for word in 0..WORDS / 2 {
            let line = LineAddr(DATA + (newest + word) % WORDS);
            if medium.load_u64(line.start()) != newest {
                medium.store_u64(line.start(), newest);
                medium.flush(line);
            }
        }
        medium.fence();
    }
    newest
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3);
    let medium = Recorder::new(POOL);
    (1..=12).for_each(|tx| transact(&medium, tx));
    let log = medium.take_log();
    let base = vec![0; POOL as usize];
    let verify = |image: &ImageMedium, crash: &Crash<'_>| {
        let newest = recover(image);
        let acked = crash.acked.last().map_or(0, |tx| tx.0);
        if newest < acked {
            return Err(Violation::from(format!("{acked} is lost, {newest} is the newest")));
        }
        Ok(())
    };
    for crashes in [1, 2] {
        let settings = Exhaustive::new(Model::default()).crashes(crashes);
        let started = Instant::now();
        let mut verified = 0;
        for _ in 0..rounds {
            let outcome = settings.run(&base, &log, verify).expect("nothing is too wide");
            assert!(outcome.complete, "{:?}", outcome.failures);
            verified += outcome.images_verified();
            if verified == outcome.images_verified() {
                println!("{crashes} crashes: {:#?}", outcome.levels);
            }
        }
        let rate = verified as f64 / started.elapsed().as_secs_f64();
        println!("{crashes} crashes: {verified} recoveries, {rate:.0} per second");
    }
}
