//! Any root, by the offsets that blocks hold.

use super::{Coverage, Path, Pointed, Root, Step, Visit, Walker};
use crate::collections::ReadRaw;
use crate::layout::POOL_BYTES_MAX;
use crate::{PoolOffset, RootKind};

/// The walker's name.
pub(super) const NAME: &str = "offsets";

/// Bytes of a block that are read at a time, with the bytes behind them that the last offset needs.
const PIECE: usize = 4096;

/// Offsets may begin at each multiple of this.
const STEP: usize = 4;

/// Bits of an offset: the others may be a program's own.
const OFFSET_BITS: u64 = POOL_BYTES_MAX.next_power_of_two() - 1;

/// See [`OFFSETS`](super::OFFSETS).
pub(super) struct Offsets;

impl Walker for Offsets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self, root: Root, _: &mut dyn ReadRaw) -> Option<String> {
        (root.kind == RootKind::Opaque).then(|| "a block of the program's own".to_owned())
    }

    fn walk(&self, root: Root, read: &mut dyn ReadRaw, visit: &mut dyn Visit) -> Coverage {
        let name = Path::ROOT;
        let inside = name.then(Step::Name("an offset in a block"));
        let mut found = Vec::new();
        match visit.pointed(root.at, 1, &name) {
            Some(block) => found.push(block),
            None => {
                // It says that there is none.
                visit.owned(root.at, 1, &name);
            }
        }
        while let Some(block) = found.pop() {
            for_each_word(read, block, |word| {
                let to = PoolOffset(word & OFFSET_BITS);
                if let Some(below) = visit.pointed(to, 1, &inside).filter(|below| below.is_first) {
                    found.push(below);
                }
            });
        }
        Coverage::Likely
    }
}

/// Every word of a block that may be an offset.
fn for_each_word(read: &mut dyn ReadRaw, block: Pointed, mut visit: impl FnMut(u64)) {
    let mut piece = [0; PIECE + 8 - STEP];
    let mut done = 0;
    while done + 8 <= block.bytes {
        let len = (block.bytes - done).min(piece.len() as u64) as usize;
        if !read.read(block.at.plus(done), &mut piece[..len]) {
            return;
        }
        for start in (0..=len - 8).step_by(STEP).take(PIECE / STEP) {
            let word = piece[start..].first_chunk().expect("8 bytes are left");
            match u64::from_le_bytes(*word) {
                0 => {}
                word => visit(word),
            }
        }
        done += PIECE as u64;
    }
}
