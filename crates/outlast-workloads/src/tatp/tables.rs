//! The trees, their keys, and what their rows hold.
//!
//! Keys are numbers whose big-endian bytes order the trees; a row begins with a stamp that vouches
//! for all behind it ([`rows`](crate::rows)), then come the numbers that may change.
//!
//! ```text
//! table       key                             row behind its stamp
//! subscriber  s                               vlr 4, bit 1 | 9 bits, 10 hex, 10 bytes: 29, msc 4,
//!                                             sub_nbr 15
//! access      s << 16 | type << 8             data1 1, data2 1, data3 3, data4 5
//! facility    s << 16 | type << 8             data_a 1 | is_active 1, error_cntrl 1, data_b 5
//! forwarding  s << 16 | type << 8 | start     end 1, numberx 15
//! numbers     sub_nbr, 15 digits              s 8: an index, without a stamp
//! ```
//!
//! What is there at first, and what nothing changes, follows from the subscriber: one to four kinds
//! of access, one to four facilities of which 85 % are active, up to three forwardings of each.

use outlast::collections::{ByteTree, Placement, Trees};
use outlast::{Abort, PoolOffset, Transact};

use crate::rows::{STAMP_BYTES, seal, unseal};
use crate::{Random, Version};
use outlast_trace::mix;

/// The trees, in the order in which an audit follows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    Subscriber,
    Access,
    Facility,
    Forwarding,
    /// The index of numbers.
    Numbers,
}

impl Table {
    pub(super) const ALL: [Self; 5] =
        [Self::Subscriber, Self::Access, Self::Facility, Self::Forwarding, Self::Numbers];
}

/// The trees of all tables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tables([ByteTree; Table::ALL.len()]);

impl Tables {
    /// Empty tables, as the pool's root object.
    pub(super) fn create<T: Transact>(tx: &mut T, placement: Placement) -> Result<Self, Abort> {
        let trees = Table::ALL.iter().map(|_| ByteTree::create(tx, placement));
        let trees = trees.collect::<Result<Vec<_>, _>>()?;
        Trees::create(tx, &trees)?.set_root(tx)?;
        Ok(Self(trees.try_into().expect("a tree for each table")))
    }

    /// The tables at `root`; `None` when there are other ones.
    pub(super) fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Option<Self>, Abort> {
        Ok(Trees::open(tx, root)?.try_into().ok().map(Self))
    }

    #[inline]
    pub(super) fn of(&self, table: Table) -> ByteTree {
        self.0[table as usize]
    }
}

/// Types of access, and of facilities.
pub(super) const TYPES: u8 = 4;
/// The hours at which forwarding begins.
pub(super) const STARTS: [u8; 3] = [0, 8, 16];
/// The last hour at which it ends.
pub(super) const END_MAX: u8 = 24;
/// Digits of a number.
pub(super) const DIGITS: usize = 15;

/// Rows of a subscriber that facts tell apart.
const FACTS: u64 = 1 + 4 + 4 + 12;

/// A row's key, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowKey {
    pub(super) table: Table,
    pub(super) s: u64,
    /// 1 to 4, and 0 for the subscriber itself.
    pub(super) kind: u8,
    /// The hour, of a forwarding.
    pub(super) start: u8,
}

impl RowKey {
    pub(super) fn subscriber(s: u64) -> Self {
        Self { table: Table::Subscriber, s, kind: 0, start: 0 }
    }

    pub(super) fn access(s: u64, kind: u8) -> Self {
        Self { table: Table::Access, s, kind, start: 0 }
    }

    pub(super) fn facility(s: u64, kind: u8) -> Self {
        Self { table: Table::Facility, s, kind, start: 0 }
    }

    pub(super) fn forwarding(s: u64, kind: u8, start: u8) -> Self {
        Self { table: Table::Forwarding, s, kind, start }
    }

    pub(super) fn bytes(self) -> [u8; 8] {
        let key = match self.table {
            Table::Subscriber => self.s,
            _ => self.s << 16 | u64::from(self.kind) << 8 | u64::from(self.start),
        };
        key.to_be_bytes()
    }

    /// The key of a table, if it can be one of `subscribers` subscribers.
    pub(super) fn read(table: Table, bytes: &[u8], subscribers: u64) -> Option<Self> {
        let key = bytes.try_into().map(u64::from_be_bytes).ok()?;
        let read = match table {
            Table::Subscriber => Self::subscriber(key),
            _ => Self { table, s: key >> 16, kind: (key >> 8) as u8, start: key as u8 },
        };
        let has_kind = (1..=TYPES).contains(&read.kind);
        let is_possible = match table {
            Table::Subscriber => true,
            Table::Access | Table::Facility => has_kind && read.start == 0,
            Table::Forwarding => has_kind && STARTS.contains(&read.start),
            Table::Numbers => false,
        };
        (is_possible && (1..=subscribers).contains(&read.s)).then_some(read)
    }

    /// The row's key in facts.
    pub(super) fn fact(self) -> u64 {
        let kind = u64::from(self.kind);
        let place = match self.table {
            Table::Subscriber | Table::Numbers => 0,
            Table::Access => kind,
            Table::Facility => 4 + kind,
            Table::Forwarding => 9 + 3 * (kind - 1) + u64::from(self.start) / 8,
        };
        (self.s - 1) * FACTS + place
    }

    /// Bytes that may change, behind the stamp.
    pub(super) fn changing(self) -> usize {
        match self.table {
            Table::Subscriber => 5,
            Table::Facility => 1,
            _ => 0,
        }
    }

    /// Bytes of the row.
    pub(super) fn row_bytes(self) -> usize {
        STAMP_BYTES
            + match self.table {
                Table::Subscriber => 5 + 29 + 4 + DIGITS,
                Table::Access => 10,
                Table::Facility => 1 + 7,
                Table::Forwarding => 1 + DIGITS,
                Table::Numbers => 0,
            }
    }

    /// The row as it is loaded.
    pub(super) fn loaded(self) -> Row {
        let mut row = Row { bytes: [0; ROW_BYTES_MAX], len: self.row_bytes() };
        let mut random = Random::new(mix(self.fact()) ^ 0x7461_7470);
        let numbers = &mut row.bytes[STAMP_BYTES..row.len];
        match self.table {
            Table::Subscriber => {
                numbers[..4].copy_from_slice(&(random.next_u64() as u32).to_le_bytes());
                let bits = &mut numbers[4..14];
                bits.iter_mut().for_each(|bit| *bit = random.below(2) as u8);
                numbers[14..24].iter_mut().for_each(|hex| *hex = random.below(16) as u8);
                numbers[24..38].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
                numbers[38..].copy_from_slice(&digits(self.s));
            }
            Table::Access => {
                numbers[..2].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
                letters(&mut random, &mut numbers[2..]);
            }
            Table::Facility => {
                numbers[0] = random.below(256) as u8;
                numbers[1] = u8::from(random.below(100) < 85);
                numbers[2] = random.below(256) as u8;
                letters(&mut random, &mut numbers[3..]);
            }
            Table::Forwarding => {
                numbers[0] = self.start + 1 + random.below(8) as u8;
                numbers[1..].copy_from_slice(&digits(random.below(1_000_000_000_000_000)));
            }
            Table::Numbers => {}
        }
        row.stamp(self, Version::LOADED);
        row
    }
}

fn letters(random: &mut Random, out: &mut [u8]) {
    out.iter_mut().for_each(|letter| *letter = b'A' + random.below(26) as u8);
}

/// A number as the benchmark writes it, with zeros in front.
pub(super) fn digits(mut number: u64) -> [u8; DIGITS] {
    let mut out = [b'0'; DIGITS];
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out
}

/// Longest row: a subscriber's.
pub(super) const ROW_BYTES_MAX: usize = STAMP_BYTES + 5 + 29 + 4 + DIGITS;
/// The same, as an audit wants it.
pub(super) const VALUE_BYTES_MAX: u64 = ROW_BYTES_MAX as u64;

/// A row with its stamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) bytes: [u8; ROW_BYTES_MAX],
    pub(super) len: usize,
}

impl Row {
    pub(super) fn value(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The bytes behind the stamp.
    pub(super) fn numbers(&mut self) -> &mut [u8] {
        &mut self.bytes[STAMP_BYTES..self.len]
    }

    /// Makes it a version of that key's row.
    pub(super) fn stamp(&mut self, key: RowKey, version: Version) {
        let stamp = seal(key.fact(), version, &self.bytes[STAMP_BYTES..self.len]);
        self.bytes[..STAMP_BYTES].copy_from_slice(&stamp);
    }
}

/// The version of a row, if it is one of that key.
pub(super) fn version_of(key: RowKey, value: &[u8]) -> Option<Version> {
    let numbers = value.get(STAMP_BYTES..).filter(|_| value.len() == key.row_bytes())?;
    unseal(key.fact(), value, numbers)
}

/// Which rows a subscriber has at first: kinds of access and facilities as masks, and of each
/// facility the forwardings.
pub(super) fn first_rows(s: u64) -> (u8, u8, [u8; TYPES as usize]) {
    let mut random = Random::new(mix(s) ^ 0x726f_7773);
    let mut some = |of: u8, count: u64| {
        let mut mask = 0u8;
        while u64::from(mask.count_ones()) < count {
            mask |= 1 << random.below(u64::from(of));
        }
        mask
    };
    let counts = Random::new(mix(s) ^ 0x636f_756e).next_u64();
    let count = |place: u32| counts >> (8 * place) & 3;
    let (access, facilities) = (some(TYPES, 1 + count(0)), some(TYPES, 1 + count(1)));
    let forwardings = std::array::from_fn(|kind| match facilities >> kind & 1 {
        1 => some(STARTS.len() as u8, count(2 + kind as u32)),
        _ => 0,
    });
    (access, facilities, forwardings)
}

/// Visits every row that is loaded for a subscriber.
pub(super) fn each_first_row(s: u64, mut visit: impl FnMut(RowKey)) {
    let (access, facilities, forwardings) = first_rows(s);
    visit(RowKey::subscriber(s));
    for kind in 1..=TYPES {
        if access >> (kind - 1) & 1 == 1 {
            visit(RowKey::access(s, kind));
        }
        if facilities >> (kind - 1) & 1 == 1 {
            visit(RowKey::facility(s, kind));
        }
        for (nth, start) in STARTS.into_iter().enumerate() {
            if forwardings[usize::from(kind) - 1] >> nth & 1 == 1 {
                visit(RowKey::forwarding(s, kind, start));
            }
        }
    }
}
