//! Reading a workload's whole state from raw memory, as an oracle wants it.

use outlast::collections::{Damage, ReadRaw};
use outlast::{ByteRange, PoolOffset, RootKind};

use crate::workload::Workload;
use crate::{Scale, State, Version};

impl Workload {
    /// Walks the data at `root` through raw memory, checks the structure and every byte of every
    /// value, and calls `visit` with each key that is there and its version. Keys are those of
    /// the facts that workers report; what is not visited is absent.
    ///
    /// # Errors
    /// The first [`Damage`]: a structure that is not sound, a value that is no version of its
    /// key, contents of `sps` that are not a permutation, a root of another kind.
    pub fn audit<R: ReadRaw>(
        &self,
        scale: &Scale,
        root: (PoolOffset, RootKind),
        read: &mut R,
        mut visit: impl FnMut(u64, Version),
    ) -> Result<(), Damage> {
        match self.kind.audit(scale, root, read, &mut visit)? {
            true => Ok(()),
            false => Err(damage(root.0, "a root object of another workload")),
        }
    }

    /// The state of a key before any worker ran, in a pool loaded with this scale and seed: what
    /// every chain of versions starts from. `visit` gets each key that is there.
    pub fn initial(&self, scale: &Scale, seed: u64, mut visit: impl FnMut(u64, State)) {
        self.kind.initial(scale, seed, &mut visit);
    }
}

/// Whether a root is a dictionary.
pub(crate) fn is_dictionary(kind: RootKind) -> bool {
    matches!(kind, RootKind::HashMap | RootKind::BTree | RootKind::RbTree)
}

pub(crate) const TORN: &str = "a value that is no version of its key";

pub(crate) fn damage(at: PoolOffset, what: &'static str) -> Damage {
    Damage { at, what }
}

/// Copies a value of one length.
pub(crate) fn load<R: ReadRaw>(
    read: &mut R,
    place: ByteRange,
    wanted: u64,
    value: &mut Vec<u8>,
) -> Result<(), Damage> {
    match place.len == wanted {
        true => load_up_to(read, place, wanted, value),
        false => Err(damage(place.at, "a value of another length")),
    }
}

/// Copies a value that is no longer than it may be.
pub(crate) fn load_up_to<R: ReadRaw>(
    read: &mut R,
    place: ByteRange,
    most: u64,
    value: &mut Vec<u8>,
) -> Result<(), Damage> {
    if place.len > most {
        return Err(damage(place.at, "a value longer than any"));
    }
    value.resize(place.len as usize, 0);
    let inside = value.is_empty() || read.read(place.at, value);
    inside.then_some(()).ok_or_else(|| damage(place.at, "a value outside the pool"))
}
