//! A scheme of which everything is kept in the persistence domain until residual energy writes it: new
//! lines, the old lines that they replace, and the number of each lane's last transaction.

use std::collections::HashMap;
use std::sync::Arc;

use outlast_schemes::{
    HardwareScheme, Image, MachineScheme, Options, Patch, PrepareError, Prepared, Reading,
    RecoveryError, Variant, Work,
};
use outlast_sim::timed::{
    Answer, Cycle, Kept, Machine, MachineConfig, MachineError, Outbox, Scheme, Setup, Source,
    StoreSeen, System,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{Guarantee, LaneId, LineAddr, OpLog};

/// Records of each lane: two lines, the first with transaction and line, the second with old bytes.
const RECORDS: u64 = 256;

static VARIANT: Variant =
    Variant::new("kept", Guarantee::Durable, Reading::Sound, "everything in the domain at once");

struct KeptScheme;

/// The scheme.
pub fn scheme() -> MachineScheme {
    MachineScheme::of(&KeptScheme, &VARIANT)
}

impl HardwareScheme for KeptScheme {
    fn variants(&self) -> &'static [Variant] {
        std::slice::from_ref(&VARIANT)
    }

    fn prepare(
        &self,
        _: &'static Variant,
        work: &Work,
        _: &Options,
        _: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let (base, lanes) = (work.end, work.lanes.into());
        Ok(Box::new(Under { streams: work.recorded().to_vec(), log: Log { base, lanes } }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Log {
    base: LineAddr,
    lanes: u64,
}

impl Log {
    fn record(self, lane: u64, number: u64) -> LineAddr {
        assert!(number < RECORDS, "a transaction of a small campaign fits");
        self.base.plus(self.lanes + 2 * (lane * RECORDS + number))
    }
}

#[derive(Debug)]
struct Under {
    streams: Vec<Arc<OpLog>>,
    log: Log,
}

impl Prepared for Under {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.log.base.0 + self.log.lanes * (1 + 2 * RECORDS)
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        let ended = |lane| Image::new(&setup.base).word_or_zero(self.log.base.plus(lane), 0);
        let lanes = (0..self.log.lanes).map(|lane| (ended(lane), HashMap::new())).collect();
        Ok(Box::new(System::new(config, Ports { log: self.log, lanes }, setup, sources)?))
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        let (mut patches, mut headers) = (Vec::new(), Vec::new());
        for lane in 0..self.log.lanes {
            let header = self.log.base.plus(lane);
            let running = image.word(header, 0) + 1;
            let records = (0..RECORDS).map(|number| self.log.record(lane, number));
            for record in records.filter(|record| image.word(*record, 0) == running) {
                let line = LineAddr(image.word(record, 1)).start();
                let old = image.line(record.plus(1)).as_chunks::<8>().0;
                let at = (0..8).map(|word| line.plus(8 * word));
                patches.extend(at.zip(old).map(|(at, word)| Patch { at, word: *word }));
            }
            headers.push(Patch { at: header.start(), word: running.to_le_bytes() });
        }
        Ok([patches, headers].concat())
    }
}

/// Of each lane the transactions that have ended, and the running one's lines as it leaves them.
struct Ports {
    log: Log,
    lanes: Vec<(u64, HashMap<LineAddr, LineBytes>)>,
}

fn keep(out: &mut Outbox, line: LineAddr, data: LineBytes) {
    out.keep(Kept { line, words: u8::MAX, data, cause: Cause::Metadata });
}

fn words(words: [u64; 2]) -> LineBytes {
    let mut line = [0; 64];
    line[..8].copy_from_slice(&words[0].to_le_bytes());
    line[8..16].copy_from_slice(&words[1].to_le_bytes());
    line
}

impl Scheme for Ports {
    type Tag = ();
    type Page = ();
    type Token = ();

    fn store(
        &mut self,
        _: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        _: &mut (),
        _: Option<&mut ()>,
        out: &mut Outbox,
    ) -> Answer {
        let (ended, lines) = &mut self.lanes[usize::from(lane.0)];
        let line = store.at.line();
        if !lines.contains_key(&line) {
            let record = self.log.record(lane.0.into(), lines.len() as u64);
            keep(out, record.plus(1), *store.old);
            keep(out, record, words([*ended + 1, line.0]));
        }
        let new = lines.entry(line).or_insert(*store.old);
        new[store.at.in_line()..][..store.new.len()].copy_from_slice(store.new);
        keep(out, line, *new);
        Answer::Proceed
    }

    fn end(&mut self, _: Cycle, lane: LaneId, out: &mut Outbox) -> Answer {
        let (ended, lines) = &mut self.lanes[usize::from(lane.0)];
        *ended += 1;
        lines.clear();
        keep(out, self.log.base.plus(lane.0.into()), words([*ended, 0]));
        Answer::Proceed
    }
}
