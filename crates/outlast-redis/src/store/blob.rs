//! Small values: items one after the other, each behind its length.
//!
//! A length is one byte up to 253, else the byte 254 and four bytes.

const LONG: u8 = 254;

/// Bytes that an item takes.
pub(crate) fn item_bytes(len: usize) -> usize {
    len + if len < usize::from(LONG) { 1 } else { 5 }
}

/// Appends an item.
pub(crate) fn push(blob: &mut Vec<u8>, item: &[u8]) {
    match u8::try_from(item.len()) {
        Ok(len) if len < LONG => blob.push(len),
        _ => {
            blob.push(LONG);
            blob.extend_from_slice(&(item.len() as u32).to_le_bytes());
        }
    }
    blob.extend_from_slice(item);
}

/// The item that begins at a place, and where the next one does.
pub(crate) fn item(blob: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let first = *blob.get(at)?;
    let (start, len) = if first < LONG {
        (at + 1, usize::from(first))
    } else {
        let len = blob.get(at + 1..at + 5)?.try_into().ok()?;
        (at + 5, u32::from_le_bytes(len) as usize)
    };
    Some((blob.get(start..start.checked_add(len)?)?, start + len))
}

/// The items of a blob.
pub(crate) fn items(blob: &[u8]) -> Items<'_> {
    Items { blob, at: 0 }
}

/// See [`items`].
#[derive(Clone)]
pub(crate) struct Items<'a> {
    blob: &'a [u8],
    /// Where the next item begins.
    pub at: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (found, next) = item(self.blob, self.at)?;
        self.at = next;
        Some(found)
    }
}

/// Replaces the bytes between two places by items.
pub(crate) fn splice(blob: &mut Vec<u8>, from: usize, to: usize, new: &[&[u8]]) {
    let mut bytes = Vec::with_capacity(new.iter().map(|item| item_bytes(item.len())).sum());
    new.iter().for_each(|item| push(&mut bytes, item));
    blob.splice(from..to, bytes);
}

/// Where the item of that number begins; the end where there is none.
pub(crate) fn place(blob: &[u8], index: usize) -> usize {
    let mut items = items(blob);
    for _ in 0..index {
        if items.next().is_none() {
            break;
        }
    }
    items.at
}

/// Where the first of `step` items is that begin with `wanted`, and where they end.
pub(crate) fn find(blob: &[u8], wanted: &[u8], step: usize) -> Option<(usize, usize)> {
    let mut items = items(blob);
    loop {
        let start = items.at;
        let is_it = items.next()? == wanted;
        for _ in 1..step {
            items.next()?;
        }
        if is_it {
            return Some((start, items.at));
        }
    }
}
