//! The spare lines: which lines are members, a CRC-8 for each, and a version.

use thiserror::Error;

use crate::{LINE_BYTES, Line, LineSet, Shape, Vector};

/// The format that this crate writes, 7 bits.
pub const SPARE_FORMAT: u8 = 1;

const FORMAT_BITS: usize = 7;
const VERSION_BYTES: usize = 4;
const CRC_BYTES: usize = 4;

/// Lines that the metadata of `lines` data lines needs.
pub(crate) const fn spare_lines(lines: usize) -> usize {
    (crcs_at(lines) + lines + VERSION_BYTES + CRC_BYTES).div_ceil(LINE_BYTES)
}

/// Offset of the CRC-8 of line 0.
const fn crcs_at(lines: usize) -> usize {
    (lines + FORMAT_BITS).div_ceil(8)
}

const _: () = assert!(crcs_at(49) == 7);
const _: () = assert!(crcs_at(49) + 49 + VERSION_BYTES + CRC_BYTES == LINE_BYTES);

/// Why spare lines cannot be believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Flaw {
    /// The bytes were damaged or torn, never written, or belong to another page.
    #[error("the CRC-32C of the spare lines does not match")]
    Checksum,
    /// The bytes are whole, and of a format that this crate does not know.
    #[error("spare lines of format {0}; this version reads format {SPARE_FORMAT}")]
    Format(u8),
}

/// The spare lines of a matrix, over memory of any kind.
///
/// For n lines of data, in bytes from the first spare line on, numbers little-endian
/// (in parentheses where they are for the 49 lines of a page, in bytes of the page):
///
/// | bytes | content |
/// |---|---|
/// | the first ⌈(n+7)/8⌉ (4032–4038) | bit i < n: line i is a member; the next 7 bits: format |
/// | the next n (4039–4087) | [CRC-8](crate::crc8()) of each line; 0 for one that is no member |
/// | up to the last 8 | zero (a page has none) |
/// | the next 4 (4088–4091) | version |
/// | the last 4 (4092–4095) | CRC-32C of all bytes before and of the page number as 8 bytes |
///
/// The lines may be torn by a crash; then the CRC-32C does not match. The version counts for
/// the page's owner; nothing here looks at it.
///
/// ```
/// use outlast_matrix::{Flaw, Shape, Spare};
///
/// let mut spare = Spare::empty(Shape::PAGE, [0; 64]);
/// spare.insert(8, &[7; 8]);
/// spare.set_version(3);
/// let bytes = spare.to_bytes(1234);
///
/// let read = Spare::parse(Shape::PAGE, bytes, 1234)?;
/// assert!(read.contains(8) && !read.contains(9));
/// assert_eq!(read.version(), 3);
/// assert_eq!(Spare::parse(Shape::PAGE, bytes, 1235).err(), Some(Flaw::Checksum));
/// # Ok::<(), Flaw>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Spare<B> {
    shape: Shape,
    bytes: B,
}

impl<B: AsRef<[u8]>> Spare<B> {
    /// Reads the spare lines of page number `page_number`.
    ///
    /// # Errors
    /// The [`Flaw`] for which nothing in them can be believed.
    ///
    /// # Panics
    /// When `bytes` are not the spare lines of `shape` in number.
    pub fn parse(shape: Shape, bytes: B, page_number: u64) -> Result<Self, Flaw> {
        let spare = Self::over(shape, bytes);
        let (covered, crc) = spare.split_crc();
        if crc != crc32c_of(covered, page_number).to_le_bytes() {
            return Err(Flaw::Checksum);
        }
        let format =
            (0..FORMAT_BITS).map(|bit| u8::from(spare.bit(shape.lines() + bit)) << bit).sum();
        if format == SPARE_FORMAT { Ok(spare) } else { Err(Flaw::Format(format)) }
    }

    /// Spare lines that are taken as they are, whether their CRC-32C matches or not. For callers
    /// that are changing them, or know that each byte counts by itself.
    ///
    /// # Panics
    /// When `bytes` are not the spare lines of `shape` in number.
    pub fn over(shape: Shape, bytes: B) -> Self {
        let len = bytes.as_ref().len();
        assert_eq!(
            len,
            shape.spare_lines() * LINE_BYTES,
            "bytes are not the spare lines of {shape:?}"
        );
        Self { shape, bytes }
    }

    /// Whether line number `line` is in the sums.
    #[inline]
    pub fn contains(&self, line: usize) -> bool {
        line < self.shape.lines() && self.bit(line)
    }

    /// The lines that are in the sums.
    pub fn members(&self) -> LineSet {
        let lines = self.shape.lines();
        LineSet::of(lines, (0..lines).filter(|line| self.bit(*line)))
    }

    /// The CRC-8 of each line.
    #[inline]
    pub fn crcs(&self) -> &[u8] {
        let lines = self.shape.lines();
        &self.bytes.as_ref()[crcs_at(lines)..][..lines]
    }

    /// The version that was set last.
    pub fn version(&self) -> u32 {
        let (before, _) = self.split_crc();
        u32::from_le_bytes(*before.last_chunk().expect("room for the version"))
    }

    #[inline]
    fn bit(&self, at: usize) -> bool {
        self.bytes.as_ref()[at / 8] >> (at % 8) & 1 == 1
    }

    fn split_crc(&self) -> (&[u8], [u8; CRC_BYTES]) {
        let (before, crc) = self.bytes.as_ref().split_last_chunk().expect("a spare line at least");
        (before, *crc)
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Spare<B> {
    /// Spare lines of a matrix without members, version 0, whatever `bytes` held before.
    ///
    /// # Panics
    /// When `bytes` are not the spare lines of `shape` in number.
    pub fn empty(shape: Shape, bytes: B) -> Self {
        let mut spare = Self::over(shape, bytes);
        spare.bytes.as_mut().fill(0);
        for bit in (0..FORMAT_BITS).filter(|bit| SPARE_FORMAT >> bit & 1 == 1) {
            spare.set_bit(shape.lines() + bit, true);
        }
        spare
    }

    /// Makes a line a member, or changes the content of one.
    ///
    /// # Panics
    /// When the matrix has no line of this number.
    #[inline]
    pub fn insert(&mut self, line: usize, content: &Line) {
        self.set(line, true, crate::crc8(content));
    }

    /// Makes consecutive lines from number `first` on members, or changes the contents of such.
    ///
    /// # Panics
    /// When the matrix does not have all these lines.
    pub fn insert_run(&mut self, first: usize, contents: &[Line]) {
        let lines = self.shape.lines();
        let end = first.checked_add(contents.len()).filter(|end| *end <= lines);
        let Some(end) = end else {
            panic!("{} lines from {first} on of {:?}", contents.len(), self.shape);
        };
        let bytes = self.bytes.as_mut();
        let mut bit = first;
        while bit < end {
            let stop = end.min((bit / 8 + 1) * 8);
            bytes[bit / 8] |= (0xff >> (8 - (stop - bit))) << (bit % 8);
            bit = stop;
        }
        Vector::best().crc8_each(contents, &mut bytes[crcs_at(lines)..][first..end]);
    }

    /// Takes a line out.
    ///
    /// # Panics
    /// When the matrix has no line of this number.
    #[inline]
    pub fn remove(&mut self, line: usize) {
        self.set(line, false, 0);
    }

    /// Makes a line a member, or not, and leaves its CRC. Returns the number of the spare line that
    /// says so.
    ///
    /// # Panics
    /// When the matrix has no line of this number.
    #[inline]
    pub fn set_member(&mut self, line: usize, member: bool) -> usize {
        assert!(line < self.shape.lines(), "line {line} of {:?}", self.shape);
        self.set_bit(line, member);
        line / 8 / LINE_BYTES
    }

    /// Brings the CRC of a line up to date whose words have changed by `difference`, the old ones
    /// exclusive-or the new.
    ///
    /// # Panics
    /// When the matrix has no line of this number.
    #[inline]
    pub fn change(&mut self, line: usize, difference: &Line) {
        // The CRC is linear.
        self.change_crc(line, crate::crc8(difference));
    }

    /// The same by the CRC of the difference. Returns the number of the spare line that has it.
    ///
    /// # Panics
    /// When the matrix has no line of this number.
    #[inline]
    pub fn change_crc(&mut self, line: usize, difference: u8) -> usize {
        assert!(line < self.shape.lines(), "line {line} of {:?}", self.shape);
        let at = crcs_at(self.shape.lines()) + line;
        self.bytes.as_mut()[at] ^= difference;
        at / LINE_BYTES
    }

    /// Sets the version.
    pub fn set_version(&mut self, version: u32) {
        let bytes = self.bytes.as_mut();
        let at = bytes.len() - CRC_BYTES - VERSION_BYTES;
        bytes[at..][..VERSION_BYTES].copy_from_slice(&version.to_le_bytes());
    }

    /// The bytes to write, with their CRC-32C, for page number `page_number`.
    pub fn to_bytes(&mut self, page_number: u64) -> B
    where
        B: Clone,
    {
        self.seal(page_number);
        self.bytes.clone()
    }

    /// Brings the CRC-32C up to date and shows the bytes to write.
    pub fn seal(&mut self, page_number: u64) -> &[u8] {
        let (covered, crc) =
            self.bytes.as_mut().split_last_chunk_mut().expect("a spare line at least");
        *crc = crc32c_of(covered, page_number).to_le_bytes();
        self.bytes.as_ref()
    }

    #[inline]
    fn set(&mut self, line: usize, member: bool, crc: u8) {
        assert!(line < self.shape.lines(), "line {line} of {:?}", self.shape);
        self.set_bit(line, member);
        self.bytes.as_mut()[crcs_at(self.shape.lines()) + line] = crc;
    }

    #[inline]
    fn set_bit(&mut self, at: usize, value: bool) {
        let byte = &mut self.bytes.as_mut()[at / 8];
        *byte = *byte & !(1 << (at % 8)) | u8::from(value) << (at % 8);
    }
}

fn crc32c_of(covered: &[u8], page_number: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(covered), &page_number.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc8;

    fn example(shape: Shape) -> Spare<Vec<u8>> {
        let mut spare = Spare::empty(shape, vec![0xff; shape.spare_lines() * LINE_BYTES]);
        for line in (0..shape.lines()).step_by(3) {
            spare.insert(line, &[line as u64 + 1; 8]);
        }
        spare.set_version(0xaabb_ccdd);
        spare
    }

    #[test]
    fn a_page_has_its_metadata_at_the_documented_bytes() {
        let mut spare = Spare::empty(Shape::PAGE, [0; 64]);
        spare.insert(0, &[1; 8]);
        spare.insert(8, &[2; 8]);
        spare.insert(48, &[3; 8]);
        spare.set_version(0x0403_0201);
        let bytes = spare.to_bytes(5);
        let mut right = [0; 64];
        right[0] = 1; // line 0
        right[1] = 1; // line 8: bit 7 × 1 + 1
        right[6] = 1 | SPARE_FORMAT << 1; // line 48 is bit 48, format bits 49 to 55
        right[7] = crc8(&[1; 8]);
        right[7 + 8] = crc8(&[2; 8]);
        right[7 + 48] = crc8(&[3; 8]);
        right[56..60].copy_from_slice(&[1, 2, 3, 4]);
        let mut covered = right[..60].to_vec();
        covered.extend([5, 0, 0, 0, 0, 0, 0, 0]);
        right[60..].copy_from_slice(&crc32c::crc32c(&covered).to_le_bytes());
        assert_eq!(bytes, right);
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn what_was_written_is_read() {
        for (rows, columns) in [(1, 1), (7, 7), (8, 7), (5, 13), (40, 50)] {
            let shape = Shape::new(rows, columns).expect("sides within bounds");
            let mut written = example(shape);
            let read = Spare::parse(shape, written.to_bytes(9), 9).expect("just written");
            assert_eq!(read.version(), 0xaabb_ccdd);
            assert_eq!(read.members(), LineSet::of(shape.lines(), (0..shape.lines()).step_by(3)));
            for line in 0..shape.lines() {
                let member = line % 3 == 0;
                let crc = if member { crc8(&[line as u64 + 1; 8]) } else { 0 };
                assert_eq!((read.contains(line), read.crcs()[line]), (member, crc));
            }
            assert!(!read.contains(shape.lines()), "the format is no member");
        }
    }

    #[test]
    fn a_line_that_is_taken_out_leaves_nothing() {
        let mut spare = Spare::empty(Shape::PAGE, [0; 64]);
        let before = spare.to_bytes(0);
        spare.insert(20, &[9; 8]);
        spare.remove(20);
        assert_eq!(spare.to_bytes(0), before);
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn a_run_is_inserted_as_its_lines_are_one_by_one() {
        let contents: Vec<Line> = (0..49).map(|line| [line * line + 5; 8]).collect();
        for first in 0..=49 {
            for end in first..=49 {
                let mut run = Spare::empty(Shape::PAGE, [0; 64]);
                run.insert(11, &[1; 8]);
                let mut lines = run;
                run.insert_run(first, &contents[first..end]);
                (first..end).for_each(|line| lines.insert(line, &contents[line]));
                assert_eq!(run.to_bytes(3), lines.to_bytes(3), "{first} to {end}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "2 lines from 48 on")]
    fn a_run_that_leaves_the_matrix_is_refused() {
        Spare::empty(Shape::PAGE, [0; 64]).insert_run(48, &[[1; 8]; 2]);
    }

    #[test]
    fn a_change_is_as_good_as_the_new_content() {
        let (old, new) = ([5; 8], [5, 5, 99, 5, u64::MAX, 5, 5, 0]);
        let mut changed = Spare::empty(Shape::PAGE, [0; 64]);
        changed.insert(20, &old);
        changed.change(20, &std::array::from_fn(|word| old[word] ^ new[word]));
        let mut inserted = Spare::empty(Shape::PAGE, [0; 64]);
        inserted.insert(20, &new);
        assert_eq!(changed.to_bytes(3), inserted.to_bytes(3));
        changed.set_member(20, false);
        assert!(!changed.contains(20));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn every_flipped_bit_is_found() {
        let bytes = example(Shape::PAGE).to_bytes(77);
        for bit in 0..512 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Spare::parse(Shape::PAGE, wrong, 77).err(), Some(Flaw::Checksum));
        }
    }

    #[test]
    fn a_page_that_was_never_written_has_no_spare_line() {
        assert_eq!(Spare::parse(Shape::PAGE, [0; 64], 0).err(), Some(Flaw::Checksum));
    }

    #[test]
    fn an_unknown_format_is_named() {
        let mut spare = Spare::empty(Shape::PAGE, [0; 64]);
        spare.bytes[6] = 0x7f << 1;
        let bytes = spare.to_bytes(0);
        assert_eq!(Spare::parse(Shape::PAGE, bytes, 0).err(), Some(Flaw::Format(127)));
    }
}
