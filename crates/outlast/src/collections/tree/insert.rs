//! Insertion, and splitting what is full.

use super::super::entry::{self, Blocks};
use super::super::layout::*;
use super::super::placement::{Kept, key_word};
use super::super::plan::Plan;
use super::node::{Form, Inner, Item, Leaf, Order, SearchKey, length_hint};
use super::{ByteTree, Header, Path, damaged, lower_bound};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// Inserts an item into a leaf that has room: two small ranges, or one where they are close.
#[inline]
pub(super) fn into_leaf<T: Transact>(
    tx: &mut T,
    form: Form,
    at: PoolOffset,
    mut order: Order,
    position: usize,
    (head, slot): Item,
) -> Result<(), Abort> {
    let free = order.insert(position);
    if form == Form::Words {
        let head_at = at.plus(form.head_at(free) as u64);
        let value_at = at.plus(form.slot_at(free) as u64);
        tx.will_write(&[at, head_at, value_at].map(|at| ByteRange::new(at, 8)))?;
        tx.store_u64(head_at, head)?;
        tx.store_u64(value_at, slot.0)?;
        return tx.store_u64(at, order.0);
    }
    let item_at = at.plus((LEAF_SLOTS_AT + 16 * free) as u64);
    match free {
        0 => tx.will_write(&[ByteRange::new(at, LEAF_SLOTS_AT as u64 + 16)])?,
        _ => tx.will_write(&[ByteRange::new(at, 8), ByteRange::new(item_at, 16)])?,
    }
    let mut item = [0; 16];
    set_word(&mut item, 0, head);
    set_word(&mut item, 8, slot.0);
    tx.store(item_at, &item)?;
    tx.store_u64(at, order.0)
}

/// Inserts pairs into a leaf as long as `next` has one that belongs there, and announces all
/// changes of the leaf in one call; how many there were. `next` is shown the leaf as it stands.
pub(super) fn join_leaf<'p, T: Transact>(
    tx: &mut T,
    (header, blocks): (&Header, Blocks),
    at: PoolOffset,
    mut next: impl FnMut(&mut T, &Leaf) -> Result<Option<(SearchKey<'p>, &'p [u8])>, Abort>,
) -> Result<u64, Abort> {
    let mut old = Leaf::new(Form::Entries);
    old.read(tx, at)?;
    let mut new = old.clone();
    let mut joined = 0;
    while let Some((search, value)) = next(tx, &new)? {
        let position = lower_bound(tx, header, &new, &search)?;
        let reserved = entry::reserve(tx, blocks, search.bytes, value)?;
        entry::fill(tx, blocks, &reserved, search.bytes, value)?;
        new.insert(position, (search.head, Slot::new(reserved.entry, search.extra)));
        joined += 1;
    }
    if joined > 0 {
        let mut plan = Plan::default();
        plan.store_changes(at, old.bytes(), new.bytes());
        plan.apply(tx)?;
    }
    Ok(joined)
}

impl ByteTree {
    /// Inserts an item into a full leaf, which is split.
    pub(super) fn split_leaf<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        (at, leaf): (PoolOffset, &Leaf),
        path: &Path,
        position: usize,
        item: Item,
    ) -> Result<(), Abort> {
        let mut items: Vec<Item> = leaf.items().collect();
        if items.len() != LEAF_SLOTS || position > LEAF_SLOTS {
            return Err(damaged(at, "a leaf that changed on the way"));
        }
        items.insert(position, item);
        // Keys that come in ascending order fill their leaves instead of halving them.
        let ascending = position == LEAF_SLOTS && leaf.next().0 == 0;
        let cut = if ascending { LEAF_SLOTS } else { items.len() / 2 };
        let right_at = tx.alloc(LEAF_BYTES as u64, BlockKind::General)?;
        let mut right = Leaf::new(Form::of(header.kept));
        right.set_next(leaf.next());
        right.extend(items[cut..].iter().copied());
        let mut left = leaf.clone();
        let mut order = left.order();
        order.truncate(if position < cut { cut - 1 } else { cut });
        left.set_order(order);
        left.set_next(right_at);
        if position < cut {
            left.insert(position, item);
        }
        let separator = make_separator(tx, header, items[cut - 1], items[cut])?;

        let mut plan = Plan::default();
        plan.store_changes(at, leaf.bytes(), left.bytes());
        plan.fill(right_at, right.bytes());
        self.add_child(tx, header, &mut plan, path, separator, right_at)?;
        plan.apply(tx)
    }

    /// Puts a new child with the separator before it behind the last step of the path.
    fn add_child<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        plan: &mut Plan,
        path: &Path,
        mut separator: Item,
        mut child: PoolOffset,
    ) -> Result<(), Abort> {
        for step in path.steps().iter().rev() {
            let mut left = Inner::load(tx, step.node)?;
            if step.index > left.separators.len() {
                return Err(damaged(step.node, "a node that changed on the way"));
            }
            left.separators.insert(step.index, separator);
            left.children.insert(step.index + 1, child.0);
            if left.separators.len() <= SEPARATORS_MAX {
                plan.store_changes(step.node, left.old_image(), &left.new_image());
                return Ok(());
            }
            // As with leaves; a node has one separator at the least.
            let ascending = step.index == SEPARATORS_MAX;
            let cut = if ascending { SEPARATORS_MAX - 1 } else { left.separators.len() / 2 };
            let right =
                Inner::new(left.separators.split_off(cut + 1), left.children.split_off(cut + 1));
            separator = left.separators.pop().expect("the cut lies inside the node");
            child = tx.alloc(INNER_BYTES as u64, BlockKind::General)?;
            plan.store_changes(step.node, left.old_image(), &left.new_image());
            plan.fill(child, &right.new_image());
        }
        if header.height == HEIGHT_MAX {
            return Err(damaged(self.root, "a tree that is too high"));
        }
        let root = tx.alloc(INNER_BYTES as u64, BlockKind::General)?;
        let node = Inner::new(vec![separator], vec![header.node.0, child.0]);
        plan.fill(root, &node.new_image());
        let word_at = self.root.plus(TREE_ROOT_AT as u64);
        plan.store(word_at, &Header::root_word(root, header.height + 1));
        Ok(())
    }
}

/// A separator above the key of `left` and not above that of `right`: the shortest prefix of the
/// latter, in a block of its own where it is longer than a head.
fn make_separator<T: Transact>(
    tx: &mut T,
    header: &Header,
    left: Item,
    right: Item,
) -> Result<Item, Abort> {
    let blocks = match header.kept {
        Kept::Entries(blocks) => blocks,
        Kept::Words(pairs) => return Ok((right.0, inline_separator(pairs.key_len()))),
    };
    if length_hint(right.1) <= 8 {
        return Ok((right.0, inline_separator(length_hint(right.1))));
    }
    let right_key = load_key(tx, blocks, right.1)?;
    let left_key = load_key(tx, blocks, left.1)?;
    let common = left_key.iter().zip(&right_key).take_while(|(a, b)| a == b).count();
    let text = right_key
        .get(..=common)
        .ok_or_else(|| damaged(right.1.at(), "a key out of order in a tree"))?;
    let head = key_word(text);
    if text.len() <= 8 {
        return Ok((head, inline_separator(text.len())));
    }
    let at = tx.alloc(SEPARATOR_TEXT_AT + text.len() as u64, BlockKind::Key)?;
    tx.store_u64(at, text.len() as u64)?;
    tx.store(at.plus(SEPARATOR_TEXT_AT), text)?;
    Ok((head, Slot::new(at, 255)))
}

fn inline_separator(len: usize) -> Slot {
    Slot::new(PoolOffset(0), len as u32)
}

fn load_key<T: Transact>(tx: &mut T, blocks: Blocks, slot: Slot) -> Result<Vec<u8>, Abort> {
    let mut key = Vec::new();
    entry::open_with_key(tx, blocks, slot.at(), &mut key)?;
    Ok(key)
}
