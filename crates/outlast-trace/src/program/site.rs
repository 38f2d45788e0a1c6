//! Instructions of a program, as far as a machine needs to know them.

use super::section::{Bad, Bytes, put};

/// The kind of an instruction, besides its accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum SiteKind {
    /// Nothing else.
    #[default]
    Plain = 0,
    /// A branch that depends on flags or a register's value.
    Conditional = 1,
    /// A jump to an address in the instruction.
    Jump = 2,
    /// A jump to an address in a register or in memory.
    IndirectJump = 3,
    /// A call of an address in the instruction.
    Call = 4,
    /// A call of an address in a register or in memory.
    IndirectCall = 5,
    /// A return.
    Return = 6,
    /// A system call.
    System = 7,
    /// A read-modify-write with the bus locked.
    Locked = 8,
    /// A store past the caches.
    StoreNt = 9,
    /// `sfence`.
    Sfence = 10,
    /// `mfence`.
    Mfence = 11,
    /// `lfence`.
    Lfence = 12,
    /// `clwb`.
    Clwb = 13,
    /// `clflushopt`.
    ClflushOpt = 14,
    /// `clflush`.
    Clflush = 15,
    /// A string instruction with a repeat prefix: each piece of its work is an execution.
    Repeated = 16,
}

impl SiteKind {
    /// All of them, each at its number.
    pub const ALL: [Self; 17] = [
        Self::Plain,
        Self::Conditional,
        Self::Jump,
        Self::IndirectJump,
        Self::Call,
        Self::IndirectCall,
        Self::Return,
        Self::System,
        Self::Locked,
        Self::StoreNt,
        Self::Sfence,
        Self::Mfence,
        Self::Lfence,
        Self::Clwb,
        Self::ClflushOpt,
        Self::Clflush,
        Self::Repeated,
    ];

    /// Whether the instruction goes on elsewhere, at least at times.
    pub fn is_branch(self) -> bool {
        (Self::Conditional as u8..=Self::Return as u8).contains(&(self as u8))
    }
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Site {
    /// Its address.
    pub at: u64,
    /// Its bytes.
    pub len: u8,
    /// Its kind.
    pub kind: SiteKind,
    /// Registers it reads, as ChampSim numbers those that matter; 0 is none.
    pub sources: [u8; 4],
    /// Registers it writes; 0 is none.
    pub destinations: [u8; 2],
}

/// Appends a block.
pub(super) fn put_block(into: &mut Vec<u8>, sites: &[Site]) {
    put(into, sites.len() as u64);
    let mut expected = 0;
    for site in sites {
        put(into, super::fold(site.at.wrapping_sub(expected) as i64));
        expected = site.at.wrapping_add(site.len.into());
        into.extend([site.len, site.kind as u8]);
        into.extend(site.sources);
        into.extend(site.destinations);
    }
}

/// Reads a block.
pub(super) fn read_block(from: &mut Bytes<'_>, sites: &mut Vec<Site>) -> Result<usize, Bad> {
    let count = from.count(9)?;
    let mut expected = 0u64;
    for _ in 0..count {
        let at = expected.wrapping_add_signed(super::unfold(from.number()?));
        let &[len, kind, a, b, c, d, e, f] = from.take(8)? else { return Err(Bad) };
        let kind = *SiteKind::ALL.get(usize::from(kind)).ok_or(Bad)?;
        expected = at.wrapping_add(len.into());
        sites.push(Site { at, len, kind, sources: [a, b, c, d], destinations: [e, f] });
    }
    Ok(count)
}
