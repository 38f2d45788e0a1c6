//! Keys and values, by their numbers.

use outlast_trace::mix;

/// A shape of keys and values.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataSet {
    pub name: &'static str,
    pub key_bytes: usize,
    pub value_bytes: usize,
}

/// One value of many is replaced.
pub(super) const UPDATES: DataSet = DataSet { name: "updates", key_bytes: 8, value_bytes: 100 };

/// redb's published benchmark.
pub(super) const ROWS: DataSet = DataSet { name: "rows", key_bytes: 24, value_bytes: 150 };

impl DataSet {
    /// Bytes of `keys` keys and their values.
    pub fn bytes(&self, keys: u64) -> u64 {
        keys * (self.key_bytes + self.value_bytes) as u64
    }

    /// Key number `n`: distinct for each, in no order.
    pub fn key(&self, n: u64) -> Vec<u8> {
        // The mixing is invertible, so that the first 8 bytes are distinct.
        filled(mix(n), self.key_bytes)
    }

    /// A value for key number `n` that its `version` decides.
    pub fn value(&self, n: u64, version: u64) -> Vec<u8> {
        filled(mix(n ^ version.rotate_left(32) ^ 0x5851_f42d_4c95_7f2d), self.value_bytes)
    }
}

fn filled(mut word: u64, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        out.extend_from_slice(&word.to_be_bytes());
        word = mix(word);
    }
    out.truncate(bytes);
    out
}
