//! The least that ext4, xfs, btrfs and f2fs promise together.

use super::{Forces, Model, Order};

/// See the module.
pub const MODEL: Model = Model {
    name: "linux",
    about: "the least that ext4, xfs, btrfs and f2fs promise",
    source: "the other models; btrfs d4682ba, 12fcfd2, a3baaf0: fsync keeps a file's names",
    order: Order::Keys,
    fsync: Forces::OwnAndName,
    forced_alone: true,
    size_after_data: false,
    zero_tail: true,
    rename_flushes: false,
    torn: true,
};
