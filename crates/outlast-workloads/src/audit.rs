//! Reading a workload's whole state from raw memory, as an oracle wants it.

use outlast::collections::{Damage, ReadRaw, Words, walk_root};
use outlast::{ByteRange, PoolOffset, RootKind};

use crate::content::{unstamp, version_of};
use crate::linkbench::{self, Graph};
use crate::queue;
use crate::swaps;
use crate::tpcc::{self, Shape};
use crate::workload::{Kind, Workload};
use crate::ycsb::{KeyName, record_of, unpack};
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
        (root, kind): (PoolOffset, RootKind),
        read: &mut R,
        mut visit: impl FnMut(u64, Version),
    ) -> Result<(), Damage> {
        let is_dictionary = matches!(kind, RootKind::HashMap | RootKind::BTree | RootKind::RbTree);
        let (mut value, mut stored) = (Vec::new(), Vec::new());
        match self.kind {
            Kind::Ycsb(_) if is_dictionary => {
                let entry = |read: &mut R, key: &[u8], place: ByteRange| {
                    load(read, place, scale.stored_bytes(), &mut stored)?;
                    if !unpack(scale, &stored, &mut value) {
                        return Err(damage(place.at, TORN));
                    }
                    audit_record(scale, key, place.at, &value, &mut visit)
                };
                walk_root(kind, root, read, |_, _| {}, entry)?;
            }
            Kind::Pairs(_) if is_dictionary => {
                let entry = |read: &mut R, key: &[u8], place: ByteRange| {
                    let key = key.try_into().map(u64::from_be_bytes);
                    let key = key.ok().filter(|&key| key < scale.records);
                    let key = key.ok_or_else(|| damage(place.at, "a key that nobody added"))?;
                    load(read, place, scale.value_bytes, &mut value)?;
                    let version = version_of(key, &value);
                    visit(key, version.ok_or_else(|| damage(place.at, TORN))?);
                    Ok(())
                };
                walk_root(kind, root, read, |_, _| {}, entry)?;
            }
            Kind::Queue if kind == RootKind::Queue => queue::audit(scale, root, read, visit)?,
            Kind::Swaps(_) if kind == RootKind::Words => {
                audit_swaps(scale, root, read, visit)?;
            }
            Kind::FewWords if kind == RootKind::Words => {
                let stride = self.stride(scale);
                let mut words = 0;
                Words::read_all(root, read, |i, word| {
                    words += 1;
                    if i.is_multiple_of(stride) {
                        let version = unstamp(i / stride, word).ok_or(damage(root, TORN))?;
                        visit(i / stride, version);
                    }
                    Ok(())
                })?;
                if words != scale.records * stride {
                    return Err(damage(root, "a vector of another length"));
                }
            }
            Kind::Tpcc if kind == RootKind::Trees => {
                tpcc::audit(Shape::of(scale), root, read, visit)?;
            }
            Kind::Linkbench(_) if kind == RootKind::Trees => {
                linkbench::audit(&Graph::new(scale.records), root, read, visit)?;
            }
            _ => return Err(damage(root, "a root object of another workload")),
        }
        Ok(())
    }

    /// The state of a key before any worker ran, in a pool loaded with this scale and seed: what
    /// every chain of versions starts from. `visit` gets each key that is there.
    pub fn initial(&self, scale: &Scale, seed: u64, mut visit: impl FnMut(u64, State)) {
        let loaded = State::Holds(Version::LOADED);
        match self.kind {
            Kind::Ycsb(_) => (0..scale.records * scale.fields).for_each(|key| visit(key, loaded)),
            Kind::Swaps(_) | Kind::FewWords => {
                (0..scale.records).for_each(|key| visit(key, loaded))
            }
            Kind::Pairs(_) => {
                let keys = crate::pairs::initial_keys(scale.records, seed);
                keys.into_iter().for_each(|key| visit(key, loaded));
            }
            Kind::Queue => queue::initial(scale, visit),
            Kind::Tpcc => tpcc::initial(Shape::of(scale), |key| visit(key, loaded)),
            Kind::Linkbench(_) => {
                linkbench::initial(&Graph::new(scale.records), |key| visit(key, loaded));
            }
        }
    }
}

const TORN: &str = "a value that is no version of its key";

fn damage(at: PoolOffset, what: &'static str) -> Damage {
    Damage { at, what }
}

fn load<R: ReadRaw>(
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

fn audit_record(
    scale: &Scale,
    key: &[u8],
    at: PoolOffset,
    value: &[u8],
    visit: &mut impl FnMut(u64, Version),
) -> Result<(), Damage> {
    let record = record_of(value, scale).ok_or_else(|| damage(at, TORN))?;
    if KeyName::of(record).bytes() != key {
        return Err(damage(at, "a record under another's key"));
    }
    let first = record.saturating_mul(scale.fields);
    for (key, field) in (first..).zip(value.chunks(scale.field_bytes as usize)) {
        visit(key, version_of(key, field).ok_or_else(|| damage(at, TORN))?);
    }
    Ok(())
}

fn audit_swaps<R: ReadRaw>(
    scale: &Scale,
    root: PoolOffset,
    read: &mut R,
    mut visit: impl FnMut(u64, Version),
) -> Result<(), Damage> {
    let mut seen = vec![0u64; scale.records.div_ceil(64) as usize];
    let mut words = 0;
    Words::read_all(root, read, |i, word| {
        let (version, content) = swaps::part(word);
        let (place, bit) = ((content / 64) as usize, 1 << (content % 64));
        let fresh = content < scale.records && seen[place] & bit == 0;
        if !fresh {
            return Err(damage(root, "words that are no permutation"));
        }
        seen[place] |= bit;
        words += 1;
        visit(i, version);
        Ok(())
    })?;
    if words == scale.records { Ok(()) } else { Err(damage(root, "a vector of another length")) }
}
