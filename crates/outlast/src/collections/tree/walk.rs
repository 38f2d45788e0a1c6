//! Following a tree through raw memory.

use super::super::entry::KEY_BYTES_MAX;
use super::super::layout::*;
use super::super::placement::{Kept, key_word};
use super::super::raw::{Damage, ReadRaw, Walk};
use super::node::{Form, Inner, Item, Leaf, SearchKey, length_hint};
use super::{ByteTree, Header};
use crate::{ByteRange, PoolOffset};

impl ByteTree {
    /// Follows the tree through raw memory; see [`walk_root`](super::super::walk_root).
    ///
    /// # Errors
    /// The first damage, or what `entry` reports.
    pub fn walk<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
        entry: impl FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        Self::walk_in(&mut Walk::new(read, block, entry), root)
    }

    /// As [`walk`](Self::walk), as part of a walk that may have seen other structures.
    pub(in crate::collections) fn walk_in<R: ReadRaw>(
        walk: &mut Walk<
            '_,
            R,
            impl FnMut(PoolOffset, u64),
            impl FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
        >,
        root: PoolOffset,
    ) -> Result<(), Damage> {
        let image = walk.claim_header(root, TREE_MAGIC, |_| Some(0))?;
        let header =
            Header::decode(&image).ok_or(Damage::new(root, "a tree's header out of range"))?;
        let mut tree = TreeWalk { walk, header: &header, last_key: None, next: None };
        tree.node(header.node, header.height, &Bounds::default())?;
        match tree.next {
            Some(PoolOffset(0)) => Ok(()),
            _ => Err(Damage::new(root, "leaves linked behind the last (invariant 1)")),
        }
    }
}

/// The separators around a subtree.
#[derive(Default)]
struct Bounds<'b> {
    low: Option<&'b [u8]>,
    high: Option<&'b [u8]>,
}

impl Bounds<'_> {
    fn contain(&self, key: &[u8]) -> bool {
        self.low.is_none_or(|low| low <= key) && self.high.is_none_or(|high| key < high)
    }
}

struct TreeWalk<'t, 'w, R, B, E> {
    walk: &'t mut Walk<'w, R, B, E>,
    header: &'t Header,
    last_key: Option<Vec<u8>>,
    /// Where the leaf before links to.
    next: Option<PoolOffset>,
}

impl<R, B, E> TreeWalk<'_, '_, R, B, E>
where
    R: ReadRaw,
    B: FnMut(PoolOffset, u64),
    E: FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
{
    fn node(&mut self, at: PoolOffset, height: usize, bounds: &Bounds<'_>) -> Result<(), Damage> {
        if height == 0 {
            return self.leaf(at, bounds);
        }
        let node = Inner::from_image(self.walk.claim_image(at)?)
            .ok_or(Damage::new(at, "an inner node with an impossible count (invariant 3)"))?;
        let mut separators = Vec::with_capacity(node.separators.len());
        for &item in &node.separators {
            let text = self.separator(at, item)?;
            let last = separators.last().map(Vec::as_slice);
            if !bounds.contain(&text) || last.is_some_and(|last| last >= text.as_slice()) {
                return Err(Damage::new(at, "separators out of order (invariant 1)"));
            }
            separators.push(text);
        }
        for (i, &child) in node.children.iter().enumerate() {
            let low = if i == 0 { bounds.low } else { Some(&separators[i - 1][..]) };
            let high = separators.get(i).map_or(bounds.high, |text| Some(&text[..]));
            self.node(PoolOffset(child), height - 1, &Bounds { low, high })?;
        }
        Ok(())
    }

    /// The text of a separator, whose block is reached here.
    fn separator(&mut self, node: PoolOffset, (head, slot): Item) -> Result<Vec<u8>, Damage> {
        let len = length_hint(slot);
        let (text, inline) = if slot.is_empty() {
            (head.to_be_bytes().get(..len).map(<[u8]>::to_vec), true)
        } else {
            let mut lengths = [0; 8];
            self.walk.load(slot.at(), &mut lengths)?;
            let len = u64::from_le_bytes(lengths);
            if !(9..=KEY_BYTES_MAX as u64).contains(&len) {
                return Err(Damage::new(slot.at(), "a separator of an impossible length"));
            }
            self.walk.claim(slot.at(), SEPARATOR_TEXT_AT + len)?;
            let mut text = vec![0; len as usize];
            self.walk.load(slot.at().plus(SEPARATOR_TEXT_AT), &mut text)?;
            (Some(text), false)
        };
        text.filter(|text| {
            let extra = if inline { text.len() as u32 } else { 255 };
            key_word(text) == head && slot.extra() == extra
        })
        .ok_or(Damage::new(node, "a separator that its head contradicts (invariant 2)"))
    }

    fn leaf(&mut self, at: PoolOffset, bounds: &Bounds<'_>) -> Result<(), Damage> {
        let leaf = Leaf::from_image(self.walk.claim_image(at)?, Form::of(self.header.kept));
        if !leaf.order().is_sound() {
            return Err(Damage::new(at, "a leaf's order word (invariant 4)"));
        }
        if leaf.order().len() == 0 && self.header.height > 0 {
            return Err(Damage::new(at, "an empty leaf (invariant 3)"));
        }
        if self.next.is_some_and(|next| next != at) {
            return Err(Damage::new(at, "a leaf that its neighbour does not link (invariant 1)"));
        }
        for number in leaf.order().slots() {
            let (head, slot) = (leaf.head(number), leaf.slot(number));
            let last_key = &mut self.last_key;
            let mut comes_next = |key: &[u8]| {
                if !bounds.contain(key) || last_key.as_deref().is_some_and(|last| last >= key) {
                    return Err(Damage::new(at, "keys out of order (invariant 1)"));
                }
                let last = last_key.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
                Ok(())
            };
            match self.header.kept {
                Kept::Entries(blocks) => self.walk.entry(blocks, slot.at(), |key| {
                    let search = SearchKey::new(key);
                    if search.head != head || search.extra != slot.extra() {
                        return Err(Damage::new(at, "a slot that tells another key (invariant 2)"));
                    }
                    comes_next(key)
                })?,
                Kept::Words(pairs) => {
                    if !pairs.is_key(head) {
                        return Err(Damage::new(at, "a key of another length (invariant 2)"));
                    }
                    let bytes = pairs.key_bytes(head);
                    let key = &bytes[..pairs.key_len()];
                    comes_next(key)?;
                    let value_at = at.plus(leaf.slot_at(number) as u64);
                    self.walk.visit(key, ByteRange::new(value_at, pairs.value_bytes.into()))?;
                }
            }
        }
        self.next = Some(leaf.next());
        Ok(())
    }
}
