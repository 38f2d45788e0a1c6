//! xfs: metadata in one log, sizes when the data has been written.

use super::{Forces, Model, Order};

/// See the module.
pub const MODEL: Model = Model {
    name: "xfs",
    about: "xfs: one log of metadata, sizes follow data",
    source: "fs/xfs/xfs_aops.c (size at I/O completion); ba87ea69",
    order: Order::Journal,
    fsync: Forces::OwnAndJournalToIt,
    forced_alone: false,
    size_after_data: true,
    zero_tail: false,
    rename_flushes: false,
    torn: true,
};
