//! `epoch`: the image equals, byte for byte, memory at the end of the epoch that recovery names, and
//! that epoch is no older than the last one reported persisted. Saved registers are bytes as others.

use std::borrow::Cow;

use outlast_sim::LineBytes;
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset};

use rustc_hash::FxHashMap;

use crate::{Broken, Violation};

/// The place and the bytes of a store.
type Store = (PoolOffset, Vec<u8>);

/// Memory at the end of each epoch of one history.
#[derive(Clone, Debug)]
pub(crate) struct Epochs {
    base: Vec<u8>,
    /// The stores of each epoch that has ended, in their order: those of epoch 1 first.
    ended: Vec<Vec<Store>>,
    /// Memory at the end of this epoch, the last one that was asked for.
    memory: (usize, Vec<u8>),
}

impl Epochs {
    /// The history of recorded streams over this memory, which is the end of epoch 0. Streams end each
    /// epoch together: lanes store to data of their own, and the `n`th mark of each lane ends epoch `n`.
    pub fn of_streams<'a>(base: Vec<u8>, streams: impl IntoIterator<Item = &'a OpLog>) -> Self {
        let mut stores: Vec<Vec<Store>> = Vec::new();
        let mut ended_by: FxHashMap<LaneId, usize> = FxHashMap::default();
        for (lane, op) in streams.into_iter().flat_map(OpLog::iter) {
            let ended = ended_by.entry(lane).or_default();
            stores.resize_with(stores.len().max(*ended + 1), Vec::new);
            let stores = &mut stores[*ended];
            match op {
                Op::Epoch => *ended += 1,
                Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
                    stores.push((at, bytes.to_vec()));
                }
                Op::Store64 { line, bytes } => stores.push((line.start(), bytes.to_vec())),
                _ => {}
            }
        }
        // An epoch has ended when every lane has ended it.
        stores.truncate(ended_by.values().copied().min().unwrap_or(0));
        Self { memory: (0, base.clone()), base, ended: stores }
    }

    /// Memory at the end of an epoch that has ended. Crash points ascend, and so do epochs, mostly.
    fn at_end_of(&mut self, epoch: usize) -> &[u8] {
        if self.memory.0 > epoch {
            self.memory = (0, self.base.clone());
        }
        let (at, memory) = &mut self.memory;
        for (place, bytes) in self.ended[*at..epoch].iter().flatten() {
            memory[place.0 as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        *at = epoch;
        memory
    }

    /// Judges an image of which recovery says that it is the end of epoch `named`, when `reported` was
    /// the last one reported persisted; `found` has each line of the history's memory.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check<'a>(
        &mut self,
        named: u64,
        reported: u64,
        found: impl Fn(LineAddr) -> Cow<'a, LineBytes>,
    ) -> Result<(), Violation> {
        let ended = self.ended.len() as u64;
        if named < reported {
            let detail =
                format!("recovery goes back to epoch {named}, and {reported} was reported");
            return Err(Violation::new(Broken::Lost, detail));
        }
        if named > ended {
            let detail = format!("recovery names epoch {named}, and {ended} have ended");
            return Err(Violation::new(Broken::Garbage, detail));
        }
        for (line, wanted) in (0..).map(LineAddr).zip(self.at_end_of(named as usize).chunks(64)) {
            let line_found = found(line);
            let differs = wanted.iter().zip(line_found.iter()).position(|(a, b)| a != b);
            if let Some(byte) = differs {
                let at = line.start().plus(byte as u64);
                let (is, was) = (line_found[byte], wanted[byte]);
                let detail =
                    format!("byte {at} is {is:#x}; at the end of epoch {named} it was {was:#x}");
                return Err(Violation::new(Broken::Torn, detail));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use outlast_trace::Sink;

    use super::*;

    fn store(log: &mut OpLog, lane: u16, at: u64, byte: u8) {
        log.op(LaneId(lane), Op::Store { at: PoolOffset(at), bytes: &[byte] });
    }

    /// Three epochs over two lines: each stores its number to byte 0, epoch 2 to byte 100 as well.
    fn epochs() -> Epochs {
        let mut log = OpLog::default();
        for epoch in 1..=3 {
            store(&mut log, 0, 0, epoch);
            if epoch == 2 {
                store(&mut log, 0, 100, 7);
            }
            log.op(LaneId(0), Op::Epoch);
        }
        store(&mut log, 0, 0, 4);
        Epochs::of_streams(vec![9; 128], [&log])
    }

    fn broken(epochs: &mut Epochs, image: &[u8], named: u64, reported: u64) -> Option<Broken> {
        let line = |line: LineAddr| {
            let bytes: &LineBytes = image[line.start().0 as usize..].first_chunk().unwrap();
            Cow::Owned(*bytes)
        };
        epochs.check(named, reported, line).err().map(|violation| violation.broken)
    }

    fn image(first: u8, other: u8) -> Vec<u8> {
        let mut image = vec![9; 128];
        (image[0], image[100]) = (first, other);
        image
    }

    #[test]
    fn an_image_is_that_of_the_epoch_named_byte_for_byte() {
        let mut epochs = epochs();
        let of = [image(9, 9), image(1, 9), image(2, 7), image(3, 7)];
        for named in (0..4).rev().chain(0..4) {
            let image = &of[named as usize];
            for other in 0..4 {
                let expected = (other != named).then_some(Broken::Torn);
                assert_eq!(broken(&mut epochs, image, other, 0), expected, "{named} as {other}");
            }
        }
        assert_eq!(
            broken(&mut epochs, &image(3, 9), 3, 0),
            Some(Broken::Torn),
            "a byte of epoch 2"
        );
        assert_eq!(
            broken(&mut epochs, &image(4, 7), 3, 0),
            Some(Broken::Torn),
            "the running epoch"
        );
    }

    #[test]
    fn no_epoch_older_than_the_last_one_reported_will_do() {
        let mut epochs = epochs();
        assert_eq!(broken(&mut epochs, &image(2, 7), 2, 2), None);
        assert_eq!(broken(&mut epochs, &image(3, 7), 3, 2), None);
        assert_eq!(broken(&mut epochs, &image(2, 7), 2, 3), Some(Broken::Lost));
        assert_eq!(broken(&mut epochs, &image(4, 7), 4, 3), Some(Broken::Garbage), "not ended");
    }

    #[test]
    fn an_epoch_of_streams_has_ended_when_every_lane_has_ended_it() {
        let mut log = OpLog::default();
        store(&mut log, 0, 0, 1);
        log.op(LaneId(0), Op::Epoch);
        store(&mut log, 0, 0, 2);
        store(&mut log, 1, 100, 7);
        log.op(LaneId(0), Op::Epoch);
        log.op(LaneId(1), Op::Epoch);
        store(&mut log, 1, 100, 8);
        let mut epochs = Epochs::of_streams(vec![9; 128], [&log]);
        assert_eq!(broken(&mut epochs, &image(1, 7), 1, 1), None);
        assert_eq!(broken(&mut epochs, &image(2, 8), 2, 0), Some(Broken::Garbage));
    }
}
