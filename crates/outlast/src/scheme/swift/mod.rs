//! Redo logging whose commits flush nothing but their record: data is left to the cache until the part of
//! the log that covers it is to be used again.
//!
//! The commit is that of [`redo`](super::redo) (REDO-1 to REDO-5); what is pending of it, and numbers, are
//! PENDING and NUMBER in [`tx`](crate::tx). Instead of flushing what it has put in place, a lane covers old
//! records a few at a time (DEFER-1 to DEFER-3 in [`deferred`](crate::writeback)), and the floor passes them
//! (SWEEP-1 to SWEEP-4).

use crate::scheme::{Discipline, Facts};

pub(crate) struct Swift;

impl Discipline for Swift {
    const FACTS: Facts = Facts { is_stepped: true, covers: true, ..Facts::REDO };
}
