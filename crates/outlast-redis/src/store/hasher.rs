//! The hash of keys: keyed by the pool's own secret, so that clients cannot choose collisions.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

/// A pool's secret. What it makes of keys is part of the durable format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    pub secret: (u64, u64),
}

impl Hasher {
    /// Sixty-four bits of a key.
    pub fn hash(self, key: &[u8]) -> u64 {
        let mut state = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        state.write(key);
        state.finish()
    }
}
