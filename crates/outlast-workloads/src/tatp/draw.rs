//! Which transaction comes next, and of whom.

use crate::{OpKind, Random};

/// A transaction with what it asks for. Types count from 1; times are hours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    GetSubscriberData { s: u64 },
    GetNewDestination { s: u64, facility: u8, start: u8, end: u8 },
    GetAccessData { s: u64, access: u8 },
    UpdateSubscriberData { s: u64, facility: u8, bit: u8, data: u8 },
    UpdateLocation { s: u64, location: u32 },
    InsertCallForwarding { s: u64, facility: u8, start: u8, end: u8, number: u64 },
    DeleteCallForwarding { s: u64, facility: u8, start: u8 },
}

impl Request {
    pub(super) fn kind(&self) -> OpKind {
        match self {
            Self::GetSubscriberData { .. } => OpKind::GetSubscriberData,
            Self::GetNewDestination { .. } => OpKind::GetNewDestination,
            Self::GetAccessData { .. } => OpKind::GetAccessData,
            Self::UpdateSubscriberData { .. } => OpKind::UpdateSubscriberData,
            Self::UpdateLocation { .. } => OpKind::UpdateLocation,
            Self::InsertCallForwarding { .. } => OpKind::InsertCallForwarding,
            Self::DeleteCallForwarding { .. } => OpKind::DeleteCallForwarding,
        }
    }

    /// Whether it is rolled back where it does not find what it is to change.
    pub(super) fn may_fail(&self) -> bool {
        matches!(
            self,
            Self::UpdateSubscriberData { .. }
                | Self::InsertCallForwarding { .. }
                | Self::DeleteCallForwarding { .. }
        )
    }
}

/// The mask of the non-uniform distribution, as published for each population.
fn mask(subscribers: u64) -> u64 {
    match subscribers {
        ..=1_000_000 => 65_535,
        1_000_001..=10_000_000 => 1_048_575,
        _ => 2_097_151,
    }
}

/// A subscriber: some are asked for far more often than others.
pub(super) fn subscriber(random: &mut Random, subscribers: u64) -> u64 {
    let often = random.below(mask(subscribers) + 1);
    (often | (1 + random.below(subscribers))) % subscribers + 1
}

pub(super) fn request(random: &mut Random, subscribers: u64) -> Request {
    let share = random.below(100);
    let s = subscriber(random, subscribers);
    let mut below = |n: u64| random.below(n) as u8;
    let (facility, start) = (1 + below(4), 8 * below(3));
    match share {
        0..35 => Request::GetSubscriberData { s },
        35..45 => Request::GetNewDestination { s, facility, start, end: 1 + below(24) },
        45..80 => Request::GetAccessData { s, access: facility },
        80..82 => Request::UpdateSubscriberData { s, facility, bit: below(2), data: below(256) },
        82..96 => Request::UpdateLocation { s, location: random.next_u64() as u32 },
        96..98 => {
            let end = 1 + below(24);
            let number = 1 + random.below(subscribers);
            Request::InsertCallForwarding { s, facility, start, end, number }
        }
        _ => Request::DeleteCallForwarding { s, facility, start },
    }
}
