//! btrfs: metadata whole at a transaction commit, or one file's by `fsync`; pages are never torn.

use super::{Forces, Model, Order};

/// See the module.
pub const MODEL: Model = Model {
    name: "btrfs",
    about: "btrfs: transactions of metadata, one file's by fsync, copy on write",
    source: "fs/btrfs/tree-log.c; d4682ba, 12fcfd2, a3baaf0, 2f2ff0e",
    order: Order::Journal,
    fsync: Forces::OwnAndName,
    forced_alone: true,
    size_after_data: true,
    zero_tail: false,
    rename_flushes: false,
    torn: false,
};
