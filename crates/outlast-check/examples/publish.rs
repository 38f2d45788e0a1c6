//! Checks a small persistent program, which has a bug.

use outlast_check::memory::{Check, Crash, ImageMedium, Report};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, PoolOffset, TxId};

const VALID: PoolOffset = PoolOffset(0);
const VALUE: PoolOffset = PoolOffset(64);

/// The program under test: publishes a value, as it believes, safely.
fn publish(_: LaneId, medium: &Recorder) {
    medium.store_u64(VALUE, 42);
    medium.flush(VALUE.line());
    medium.store_u64(VALID, 1);
    medium.flush(VALID.line());
    medium.fence();
    medium.mark(Mark::Ack(TxId(1)));
}

/// Its recovery: what a restart after a crash finds.
fn recover(image: &ImageMedium) -> Result<Option<u64>, String> {
    Ok((image.load_u64(VALID) == 1).then(|| image.load_u64(VALUE)))
}

/// Runs recovery on every image that any cache could leave, and judges each.
pub fn check() -> Report {
    Check::new(128).run(publish, recover, |state: &Option<u64>, crash: &Crash<'_>| match state {
        Some(42) => Ok(()),
        None if crash.acked.is_empty() => Ok(()),
        other => Err(format!("found {other:?}").into()),
    })
}

fn main() {
    let report = check();
    report.findings.iter().for_each(|finding| println!("{finding}"));
    println!("{} images recovered and judged", report.images_verified);
}
