//! File systems as data: the order that each keeps, and the changes that a sync makes durable.
//!
//! A crash leaves a set of changes that is closed under the model's order and holds everything that
//! syncs have forced. In every model changes of one page, of one name and of one size are kept in
//! order, since the page cache is cumulative: a later state of a page holds the earlier one.

mod btrfs;
mod ext4;
mod f2fs;
mod linux;
mod posix;
mod prefix;
mod xfs;

/// The order of changes that a crash keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Of each page, name and size alone.
    Keys,
    /// Of names, cuts and sizes among each other: the file system's journal.
    Journal,
    /// Of everything.
    Everything,
}

/// The changes that `fsync` of a file makes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forces {
    /// Its data and size.
    Own,
    /// And its newest name, with those of the directories above.
    OwnAndName,
    /// And the journal up to its last change.
    OwnAndJournalToIt,
    /// And the journal so far.
    OwnAndJournal,
    /// All changes before.
    Everything,
}

/// A model of a file system.
#[derive(Debug)]
pub struct Model {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Where its rules stand.
    pub source: &'static str,
    /// The changes that are kept in order.
    pub order: Order,
    /// The changes that `fsync` of a file forces.
    pub fsync: Forces,
    /// Whether `fsync` forces changes of the journal without those before them.
    pub forced_alone: bool,
    /// Whether the size of an append becomes durable only after its data.
    pub size_after_data: bool,
    /// Whether an append within a page that is on the disk journals its size before its data: zeros.
    pub zero_tail: bool,
    /// Whether a rename over another file waits for the data of the new one.
    pub rename_flushes: bool,
    /// Whether a page of a file may be torn at sectors.
    pub torn: bool,
}

/// All models, a row each.
pub const ALL: &[&Model] = &[
    &linux::MODEL,
    &ext4::MODEL,
    &ext4::WRITEBACK,
    &ext4::JOURNAL,
    &xfs::MODEL,
    &btrfs::MODEL,
    &f2fs::MODEL,
    &posix::MODEL,
    &prefix::MODEL,
];

/// The model of a name.
///
/// # Errors
/// There is none; the names that there are.
pub fn find(name: &str) -> Result<&'static Model, String> {
    ALL.iter().copied().find(|model| model.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|model| model.name).collect();
        format!("no model '{name}': there are {}", names.join(", "))
    })
}
