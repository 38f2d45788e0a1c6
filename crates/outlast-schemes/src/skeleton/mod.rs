//! A scheme to copy: the simplest hardware undo log that loses nothing.
//!
//! - A transaction's first store to a line waits until the line's old content is durable, and behind
//!   it a record that names the line. So a line may be evicted at any time.
//! - A transaction ends when its lines are durable, and then its number in its lane's header.
//! - A transaction that aborts has its old lines read from the log and written back, then its number
//!   in the header: it has ended, and left nothing.
//! - Recovery puts the old lines of each lane's unfinished transaction back, then counts it as
//!   finished, so that its records mean nothing to the next one.
//!
//! ```text
//!  header of a lane               record: a line, then the line's old content
//! +------------------+-- ... --+  +-------------+-------------+-- ... --+------------+
//! | last transaction |  zeroes |  | transaction | line        |  zeroes | 64 bytes   |
//! +------------------+-- ... --+  +-------------+-------------+-- ... --+------------+
//! ```
//!
//! A folder like this one is all that a scheme needs: `mod` says what there is and what is put
//! under the work, `ports` sits in the machine, `recover` sees an image and nothing else. Its line
//! in [`ALL`](crate::ALL) and one in `docs/schemes.md` make it known.

mod ports;
mod recover;

use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, Setup, Source};
use outlast_trace::{Guarantee, LineAddr, OpLog};

use crate::plant::{AppliesTo, Breaks, Plant, Shown, UNORDERED};
use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::{Ait, machine};
use crate::{Image, Key, Options, Patch, RecoveryError, Unit, Work};
use ports::EagerUndo;

/// The scheme.
pub struct Skeleton;

const LOG_RECORDS: Key = Key::number(
    "log_records",
    Unit::Count("records"),
    0,
    (0, 1 << 20),
    "records of each lane's log; 0: as many as the work needs",
);

/// What can be broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A store does not wait for its record.
    Unordered,
    /// A record does not wait for the old content of its line.
    RecordEarly,
    /// A transaction ends before its lines are durable.
    LinesLeft,
    /// A transaction that aborts leaves its stores in caches.
    AbortedLeft,
    /// What goes on after a crash counts transactions from the first on.
    CountsAnew,
}

const FAULTS: [Fault; 5] =
    [Fault::Unordered, Fault::RecordEarly, Fault::LinesLeft, Fault::AbortedLeft, Fault::CountsAnew];

const fn plant(name: &'static str, number: u8, abort_every: u64, about: &'static str) -> Plant {
    let shown_by = Shown {
        variant: "skeleton",
        program: "hash-toggle",
        footprint: 2048,
        threads: 2,
        is_shared: false,
        abort_every,
        options: &[],
        machine: &[],
    };
    let applies_to = AppliesTo::These(&["skeleton"]);
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to, shown_by }
}

/// The same where writes that do not wait for each other become durable in any order.
const fn where_unordered(plant: Plant) -> Plant {
    Plant { shown_by: Shown { machine: UNORDERED, ..plant.shown_by }, ..plant }
}

impl HardwareScheme for Skeleton {
    fn variants(&self) -> &'static [Variant] {
        const VARIANTS: [Variant; 1] = [Variant::new(
            "skeleton",
            Guarantee::Durable,
            Reading::Sound,
            "eager hardware undo log of whole lines: the example to copy",
        )];
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 1] = [LOG_RECORDS];
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        const PLANTS: [Plant; 5] = [
            plant("skeleton-unordered", 0, 0, "a store does not wait for its record"),
            where_unordered(plant(
                "skeleton-record-early",
                1,
                0,
                "a record does not wait for its line's old content",
            )),
            plant("skeleton-lines-left", 2, 0, "a transaction ends before its lines are durable"),
            plant("skeleton-aborted-left", 3, 3, "an abort leaves what is in caches"),
            plant(
                "skeleton-counts-anew",
                4,
                0,
                "after a crash transactions count from the first on",
            ),
        ];
        &PLANTS
    }

    fn undoes_aborts(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        _variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        work.check_transactions("logs transactions")?;
        let needed = work.largest_transaction().max(1);
        let records = match options.get(&LOG_RECORDS) {
            0 => needed,
            given if given >= needed => given,
            given => {
                return Err(PrepareError::new(format_args!(
                    "a log of {given} records is too small: a transaction may need {needed}"
                )));
            }
        };
        let layout = Layout { base: work.end, lanes: work.lanes.into(), records };
        let fault = planted.map(|number| FAULTS[usize::from(number)]);
        let on = Ait::chosen(options, false)?;
        Ok(Box::new(Under { streams: work.recorded().to_vec(), layout, fault, on }))
    }
}

/// The scheme's own lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    base: LineAddr,
    lanes: u64,
    /// Records of each lane.
    records: u64,
}

impl Layout {
    fn lines(self) -> u64 {
        self.lanes * (1 + 2 * self.records)
    }

    /// A lane's header.
    fn header(self, lane: u64) -> LineAddr {
        self.base.plus(lane)
    }

    /// A record of a lane; the line's old content follows it.
    fn record(self, lane: u64, number: u64) -> LineAddr {
        self.base.plus(self.lanes + 2 * (lane * self.records + number))
    }
}

#[derive(Debug)]
struct Under {
    streams: Vec<Arc<OpLog>>,
    layout: Layout,
    fault: Option<Fault>,
    /// What it stands on.
    on: Option<Ait>,
}

impl Prepared for Under {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.layout.base.0 + self.layout.lines()
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        let undo = EagerUndo::new(self.layout, self.fault, Image::new(&setup.base));
        machine(config, undo, self.on, self.lines(), setup, sources)
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        recover::recover(self.layout, image)
    }
}
