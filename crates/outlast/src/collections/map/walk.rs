//! Following a map through raw memory.

use super::super::hash::{hash_key, hash_word};
use super::super::layout::*;
use super::super::placement::Kept;
use super::super::raw::{Damage, ReadRaw, Walk};
use super::grow::spare_line;
use super::slots::{bucket, next_line, tag};
use super::{ByteMap, Header, pairs};
use crate::{ByteRange, PoolOffset};

impl ByteMap {
    /// Follows the map through raw memory; see [`walk_root`](super::super::walk_root).
    ///
    /// # Errors
    /// The first damage, or what `entry` reports.
    pub fn walk<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
        entry: impl FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let mut walk = Walk::new(read, block, entry);
        let image = walk.claim_header(root, MAP_MAGIC, |_| Some(0))?;
        let header =
            Header::decode(&image).ok_or(Damage::new(root, "a map's header out of range"))?;
        let prefix = Prefix { bits: 0, value: 0 };
        walk_child(&mut walk, &header, header.directory, header.root_bits, prefix)
    }
}

/// The hash bits that the way to a child has fixed, in the highest places.
#[derive(Clone, Copy, PartialEq)]
struct Prefix {
    bits: u32,
    value: u64,
}

fn walk_child<R, B, E>(
    walk: &mut Walk<'_, R, B, E>,
    header: &Header,
    child: Child,
    limit: u32,
    prefix: Prefix,
) -> Result<(), Damage>
where
    R: ReadRaw,
    B: FnMut(PoolOffset, u64),
    E: FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
{
    let (at, bits) = (child.at(), child.bits());
    if bits == 0 {
        return walk_segment(walk, header, at, prefix);
    }
    if !(NODE_BITS_MIN..=limit).contains(&bits) || prefix.bits + bits > DEPTH_MAX {
        return Err(Damage::new(at, "a directory node of an impossible size"));
    }
    walk.claim(at, 8 << bits)?;
    let mut words = vec![0; 8 << bits];
    walk.load(at, &mut words)?;
    let child_at = |i: usize| Child(word(&words, 8 * i));
    let mut first = 0;
    while first < 1 << bits {
        let child = child_at(first);
        let alike = (first..1 << bits).take_while(|&i| child_at(i) == child).count();
        if !alike.is_power_of_two() || !first.is_multiple_of(alike) {
            return Err(Damage::new(at, "child words that split no segment in halves"));
        }
        if child.bits() != 0 && alike != 1 {
            return Err(Damage::new(at, "a directory node reached twice"));
        }
        let value = prefix.value | (first as u64) << (64 - prefix.bits - bits);
        let below = Prefix { bits: prefix.bits + bits - alike.ilog2(), value };
        walk_child(walk, header, child, NODE_BITS_MAX, below)?;
        first += alike;
    }
    Ok(())
}

fn walk_segment<R, B, E>(
    walk: &mut Walk<'_, R, B, E>,
    header: &Header,
    at: PoolOffset,
    prefix: Prefix,
) -> Result<(), Damage>
where
    R: ReadRaw,
    B: FnMut(PoolOffset, u64),
    E: FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
{
    let image: [u8; SEGMENT_BYTES] = walk.claim_image(at)?;
    if word(&image, 0) != SEGMENT_MAGIC
        || word(&image, SEGMENT_DEPTH_AT) != u64::from(prefix.bits)
        || word(&image, SEGMENT_PREFIX_AT) != prefix.value
    {
        return Err(Damage::new(at, "a segment that belongs elsewhere (invariant 2)"));
    }
    let mut linked = 0u64;
    for i in 0..BUCKETS {
        let start = FIRST_BUCKET_AT + i * BUCKET_BYTES;
        let mut line: [u8; BUCKET_BYTES] = line_of(&image, start);
        let mut line_at = at.plus(start as u64);
        let is_placed = |hash: u64| {
            let open = 64 - prefix.bits;
            let led_here =
                hash.checked_shr(open).unwrap_or(0) == prefix.value.checked_shr(open).unwrap_or(0);
            led_here && bucket(hash) == i
        };
        let misplaced = Damage::new(at, "a misplaced key (invariant 1)");
        loop {
            match header.kept {
                Kept::Entries(blocks) => {
                    let slots = (0..BUCKET_SLOTS).map(|i| Slot(word(&line, 8 * i)));
                    for slot in slots.filter(|&slot| slot != Slot::EMPTY) {
                        walk.entry(blocks, slot.at(), |key| {
                            let hash = hash_key(header.seed, key);
                            let placed = is_placed(hash) && tag(hash) == slot.extra();
                            placed.then_some(()).ok_or(misplaced)
                        })?;
                    }
                }
                Kept::Words(words) => {
                    let link = word(&line, LINK_AT);
                    let keys: Vec<u64> =
                        pairs::in_use(link).map(|pair| word(&line, pairs::key_at(pair))).collect();
                    for (i, pair) in pairs::in_use(link).enumerate() {
                        let key = keys[i];
                        if !is_placed(hash_word(header.seed, key)) || !words.is_key(key) {
                            return Err(misplaced);
                        }
                        if keys[..i].contains(&key) {
                            return Err(Damage::new(line_at, "a key that is there twice"));
                        }
                        let value_at = line_at.plus(pairs::value_at(pair) as u64);
                        let value = ByteRange::new(value_at, words.value_bytes.into());
                        walk.visit(&words.key_bytes(key)[..words.key_len()], value)?;
                    }
                }
            }
            let link = next_line(&line).0;
            if link == 0 {
                break;
            }
            line_at = PoolOffset(link);
            line = match spare_line(at, link) {
                Some(spare) => {
                    let bit = 1 << ((spare - FIRST_SPARE_AT) / BUCKET_BYTES);
                    if linked & bit != 0 {
                        return Err(Damage::new(at, "a spare line linked twice (invariant 3)"));
                    }
                    linked |= bit;
                    line_of(&image, spare)
                }
                None if prefix.bits == header.depth_max => walk.claim_image(PoolOffset(link))?,
                None => return Err(Damage::new(at, "a bucket that goes astray (invariant 4)")),
            };
        }
    }
    if linked != word(&image, SEGMENT_SPARES_AT) {
        return Err(Damage::new(at, "a wrong note of spare lines in use (invariant 3)"));
    }
    let unused = |i: &usize| linked & 1 << i == 0;
    let dirty = |i| {
        let line = line_of(&image, FIRST_SPARE_AT + i * BUCKET_BYTES);
        match header.kept {
            Kept::Entries(_) => line != [0; BUCKET_BYTES],
            Kept::Words(_) => word(&line, LINK_AT) != 0,
        }
    };
    if (0..SPARES).filter(unused).any(dirty) {
        return Err(Damage::new(at, "an unused spare line with content (invariant 3)"));
    }
    Ok(())
}

fn line_of(image: &[u8; SEGMENT_BYTES], at: usize) -> [u8; BUCKET_BYTES] {
    *image[at..].first_chunk().expect("lines lie inside their segment")
}
