//! Records: values made of fields, each with a name, a value and a mark that changes with it.
//!
//! An update of a field stores its value and its mark: a version, an expiry, whatever the owner
//! notes beside it. Where the two lie decides how many lines that flushes. *Together* they share
//! lines of their own (the coalescing of Archapt, section III-D); *apart*, fields lie behind each
//! other, then the values, as an allocator packs blocks of two sizes that it is asked for in turn.
//! The record is one value of a [`Dictionary`](super::Dictionary). A line begins every field of a
//! record together where a line begins the value: with [`Placement::Apart`](super::Placement),
//! from 64 bytes on.

use std::ops::Range;

use crate::medium::LINE_BYTES;
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// Where the fields of a record and their values lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FieldPlacement {
    /// A field is followed by its value; each field begins a line.
    Together,
    /// All fields first, packed; then all values, packed at multiples of 16 bytes.
    Apart,
}

/// Bytes before a field's value, or of a field that lies apart from it: name, length, mark.
const HEAD_BYTES: u64 = 24;
const NAME_BYTES: usize = 8;
const LEN_AT: usize = 8;
const MARK_AT: u64 = 16;

/// Packs values that lie apart: the multiples at which they begin, and the bytes that a
/// general allocator keeps for itself before each.
const PACKED_AT: u64 = 16;
const PACKED_BETWEEN: u64 = 8;

/// The layout of records that all have the same number of fields, with values of one length.
///
/// ```
/// use outlast::collections::{FieldPlacement, Fields};
///
/// let fields = Fields::new(FieldPlacement::Together, 3, 100);
/// // A head of 24 bytes, its value, and the rest of two lines.
/// assert_eq!(fields.record_bytes(), 3 * 128);
/// let mut record = Vec::new();
/// fields.encode(&[7; 300], |_, _| 1, &mut record);
/// let sums: Vec<_> = fields.decode(&record).unwrap().map(|(mark, value)| (mark, value[0])).collect();
/// assert_eq!(sums, [(1, 7); 3]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Fields {
    placement: FieldPlacement,
    count: u64,
    value_bytes: u64,
}

impl Fields {
    /// Records of `count` fields with `value_bytes` bytes each.
    pub fn new(placement: FieldPlacement, count: u64, value_bytes: u64) -> Self {
        Self { placement, count, value_bytes }
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> u64 {
        match self.placement {
            FieldPlacement::Together => self.count * self.stride(),
            FieldPlacement::Apart => self.values_at() + self.count * self.stride(),
        }
    }

    /// From one field to the next, or from one value to the next where they lie apart.
    fn stride(&self) -> u64 {
        match self.placement {
            FieldPlacement::Together => {
                (HEAD_BYTES + self.value_bytes).next_multiple_of(LINE_BYTES)
            }
            FieldPlacement::Apart => {
                (self.value_bytes + PACKED_BETWEEN).next_multiple_of(PACKED_AT)
            }
        }
    }

    fn values_at(&self) -> u64 {
        (self.count * HEAD_BYTES).next_multiple_of(PACKED_AT)
    }

    /// From the start of the record to a field.
    fn head_at(&self, field: u64) -> u64 {
        assert!(field < self.count, "field {field} of {}", self.count);
        match self.placement {
            FieldPlacement::Together => field * self.stride(),
            FieldPlacement::Apart => field * HEAD_BYTES,
        }
    }

    /// Where in the record the mark of a field lies.
    ///
    /// # Panics
    /// When there is no such field.
    pub fn mark(&self, field: u64) -> Range<u64> {
        let at = self.head_at(field) + MARK_AT;
        at..at + 8
    }

    /// Where in the record the value of a field lies.
    ///
    /// # Panics
    /// When there is no such field.
    pub fn value(&self, field: u64) -> Range<u64> {
        let head_at = self.head_at(field);
        let at = match self.placement {
            FieldPlacement::Together => head_at + HEAD_BYTES,
            FieldPlacement::Apart => self.values_at() + field * self.stride(),
        };
        at..at + self.value_bytes
    }

    /// Writes a whole record to `record`: the values, which follow each other in `values`, each
    /// with the mark that `mark` gives for the field's number and value.
    ///
    /// # Panics
    /// When `values` are not of `count` fields.
    pub fn encode(&self, values: &[u8], mark: impl Fn(u64, &[u8]) -> u64, record: &mut Vec<u8>) {
        assert_eq!(values.len() as u64, self.count * self.value_bytes, "a value for each field");
        record.clear();
        record.resize(self.record_bytes() as usize, 0);
        for (field, value) in (0..self.count).zip(values.chunks(self.value_bytes as usize)) {
            let mark = mark(field, value);
            record[self.head_range(field)].copy_from_slice(&self.head(field, mark));
            record[usize_range(self.value(field))].copy_from_slice(value);
        }
    }

    /// The marks and values of a record, field by field; `None` when its fields are not these.
    pub fn decode<'r>(
        &self,
        record: &'r [u8],
    ) -> Option<impl Iterator<Item = (u64, &'r [u8])> + use<'r>> {
        if record.len() as u64 != self.record_bytes() {
            return None;
        }
        let fields = *self;
        let mark = move |field: u64| {
            let bytes = &record[usize_range(fields.mark(field))];
            u64::from_le_bytes(bytes.try_into().expect("a mark is a word"))
        };
        let is_known = |field: u64| record[self.head_range(field)] == self.head(field, mark(field));
        let known = (0..self.count).all(is_known);
        known.then(|| {
            let value = move |field| &record[usize_range(fields.value(field))];
            (0..fields.count).map(move |field| (mark(field), value(field)))
        })
    }

    /// Loads the mark and the value of one field of the record at `record`.
    ///
    /// # Errors
    /// [`Abort::BadAddress`] when the record is of another length, and those of the transaction.
    ///
    /// # Panics
    /// When there is no such field, or `value` is not as long as its value.
    pub fn load<T: Transact>(
        &self,
        tx: &mut T,
        record: ByteRange,
        field: u64,
        value: &mut [u8],
    ) -> Result<u64, Abort> {
        self.check(record)?;
        assert_eq!(value.len() as u64, self.value_bytes, "as long as the value");
        tx.load(record.at.plus(self.value(field).start), value)?;
        tx.load_u64(record.at.plus(self.mark(field).start))
    }

    /// Stores another value and another mark to one field of the record at `record`: both are
    /// announced in one call, as one range where they lie together.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    ///
    /// # Panics
    /// As `load`.
    pub fn update<T: Transact>(
        &self,
        tx: &mut T,
        record: ByteRange,
        field: u64,
        mark: u64,
        value: &[u8],
    ) -> Result<(), Abort> {
        self.check(record)?;
        assert_eq!(value.len() as u64, self.value_bytes, "as long as the value");
        let place = |range: Range<u64>| {
            ByteRange::new(record.at.plus(range.start), range.end - range.start)
        };
        let (mark_at, value_at) = (place(self.mark(field)), place(self.value(field)));
        match self.placement {
            FieldPlacement::Together => {
                tx.will_write(&[ByteRange::new(mark_at.at, mark_at.len + value_at.len)])?;
            }
            FieldPlacement::Apart => tx.will_write(&[mark_at, value_at])?,
        }
        tx.store_u64(mark_at.at, mark)?;
        tx.store(value_at.at, value)
    }

    fn check(&self, record: ByteRange) -> Result<(), Abort> {
        let what = "a field of a record";
        let bad = |at: PoolOffset| Abort::bad_address(what, at, "its fields are others");
        (record.len == self.record_bytes()).then_some(()).ok_or_else(|| bad(record.at))
    }

    fn head_range(&self, field: u64) -> Range<usize> {
        let at = self.head_at(field);
        usize_range(at..at + HEAD_BYTES)
    }

    fn head(&self, field: u64, mark: u64) -> [u8; HEAD_BYTES as usize] {
        let mut head = [0; HEAD_BYTES as usize];
        let name = format!("field{field}");
        let len = name.len().min(NAME_BYTES);
        head[..len].copy_from_slice(&name.as_bytes()[..len]);
        head[LEN_AT..LEN_AT + 8].copy_from_slice(&self.value_bytes.to_le_bytes());
        head[MARK_AT as usize..].copy_from_slice(&mark.to_le_bytes());
        head
    }
}

fn usize_range(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [FieldPlacement; 2] = [FieldPlacement::Together, FieldPlacement::Apart];

    /// The lines that a range of a record touches when the record begins at `at`.
    fn lines(at: u64, range: Range<u64>) -> Range<u64> {
        (at + range.start) / LINE_BYTES..(at + range.end - 1) / LINE_BYTES + 1
    }

    #[test]
    fn together_a_field_begins_a_line_and_shares_its_lines_with_nothing_but_its_value() {
        for value_bytes in [16, 24, 40, 41, 100, 104, 105, 1000] {
            let fields = Fields::new(FieldPlacement::Together, 10, value_bytes);
            let mut next = 0;
            for field in 0..10 {
                let (mark, value) = (lines(0, fields.mark(field)), lines(0, fields.value(field)));
                assert_eq!(fields.head_at(field) % LINE_BYTES, 0);
                assert_eq!((mark.start, value.start), (next, next), "they begin in one line");
                let most = (HEAD_BYTES + value_bytes).div_ceil(LINE_BYTES);
                assert_eq!(value.end - next, most, "no line more than they fill");
                next += most;
            }
            assert_eq!(fields.record_bytes(), next * LINE_BYTES);
        }
    }

    /// The estimate for a general allocator: a value of 100 bytes touches 2.5 lines on average,
    /// whatever the record's block begins with, a field of 24 bytes 1.25, and no line has both.
    #[test]
    fn apart_values_touch_as_many_lines_as_an_allocator_makes_them() {
        let fields = Fields::new(FieldPlacement::Apart, 16, 100);
        let count = |range: Range<u64>| range.end - range.start;
        for at in [0, 16, 32, 48] {
            let values: u64 = (0..16).map(|field| count(lines(at, fields.value(field)))).sum();
            assert_eq!(values, 40, "at {at}");
            let heads = (0..16).map(|field| {
                let head = fields.head_at(field);
                count(lines(at, head..head + HEAD_BYTES))
            });
            assert_eq!(heads.sum::<u64>(), 20, "at {at}");
        }
        for field in 0..16 {
            assert_eq!(fields.value(field).start % PACKED_AT, 0);
            let (mark, value) = (lines(0, fields.mark(field)), lines(0, fields.value(field)));
            assert!(mark.end <= value.start, "16 fields fill six lines");
        }
    }

    #[test]
    fn parts_of_a_record_do_not_overlap_and_come_back() {
        for (placement, value_bytes) in BOTH.into_iter().flat_map(|p| [(p, 16), (p, 100)]) {
            let fields = Fields::new(placement, 7, value_bytes);
            let values: Vec<u8> = (0..7 * value_bytes).map(|i| i as u8).collect();
            let mut record = Vec::new();
            fields.encode(&values, |field, value| field << 8 | u64::from(value[0]), &mut record);
            let back: Vec<_> = fields.decode(&record).unwrap().collect();
            for (field, (mark, value)) in (0..).zip(back) {
                let from = (field * value_bytes) as usize;
                assert_eq!(value, &values[from..from + value_bytes as usize], "{placement:?}");
                assert_eq!(mark, field << 8 | u64::from(from as u8));
            }
            // Another length of values, a name or a byte less is another record.
            assert!(Fields::new(placement, 7, value_bytes + 1).decode(&record).is_none());
            assert!(fields.decode(&record[1..]).is_none());
            record[0] ^= 1;
            assert!(fields.decode(&record).is_none());
        }
    }
}
