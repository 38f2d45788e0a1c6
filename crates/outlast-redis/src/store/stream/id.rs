//! IDs of entries.

use std::fmt;

use outlast::{Abort, PoolOffset};

use crate::store::mem::Mem;

/// An entry's ID: milliseconds since 1970, and a number among the entries of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub(crate) struct Id {
    pub ms: u64,
    pub number: u64,
}

impl Id {
    pub const MIN: Self = Self { ms: 0, number: 0 };
    pub const MAX: Self = Self { ms: u64::MAX, number: u64::MAX };

    /// The ID behind it.
    pub fn next(self) -> Option<Self> {
        match self.number.checked_add(1) {
            Some(number) => Some(Self { number, ..self }),
            None => Some(Self { ms: self.ms.checked_add(1)?, number: 0 }),
        }
    }

    /// The ID before it.
    pub fn previous(self) -> Option<Self> {
        match self.number.checked_sub(1) {
            Some(number) => Some(Self { number, ..self }),
            None => Some(Self { ms: self.ms.checked_sub(1)?, number: u64::MAX }),
        }
    }

    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.number)).to_be_bytes()
    }

    pub fn from_bytes(bytes: &[u8; 16]) -> Self {
        let both = u128::from_be_bytes(*bytes);
        Self { ms: (both >> 64) as u64, number: both as u64 }
    }

    pub(super) fn load(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Self, Abort> {
        let mut bytes = [0; 16];
        mem.load(at, &mut bytes)?;
        Ok(Self::from_bytes(&bytes))
    }

    pub(super) fn store(self, mem: &mut Mem<'_>, at: PoolOffset) -> Result<(), Abort> {
        mem.store(at, &self.to_bytes())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_the_order_of_their_bytes_and_have_neighbours() {
        let ids = [
            Id::MIN,
            Id { ms: 0, number: 1 },
            Id { ms: 0, number: u64::MAX },
            Id { ms: 1, number: 0 },
            Id { ms: 256, number: 3 },
            Id::MAX,
        ];
        for pair in ids.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_bytes() < pair[1].to_bytes());
        }
        for id in ids {
            assert_eq!(Id::from_bytes(&id.to_bytes()), id);
            assert_eq!(id.next().and_then(Id::previous), (id != Id::MAX).then_some(id));
        }
        assert_eq!(Id::MIN.previous(), None);
    }
}
