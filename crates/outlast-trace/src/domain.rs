//! Persistence domains: how far a store must travel to survive, and what survives what.
//!
//! A domain is a variant of [`Domain`] and its row in [`Domain::row`]: the media, the models of caches and
//! the crash checker ask the row.

use std::fmt;
use std::str::FromStr;

/// The part of a machine that keeps its content through the failure one cares about. The order
/// is by how much the platform gives: each domain asks more of it than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Domain {
    /// Only the process dies; every store that retired is there.
    Process,
    /// A file through the page cache; `msync` is the fence.
    Page,
    /// Durable once in the memory controller's write-pending queue: flush, then fence.
    #[default]
    Adr,
    /// The caches are durable too; only streams wait for a fence.
    Eadr,
}

/// How a domain makes stores durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainRow {
    /// The name on the command line and in results.
    pub name: &'static str,
    /// One line: what the domain promises on a platform that really has it.
    pub promise: &'static str,
    /// Whether the failure is a loss of power, not only the death of a process.
    pub is_power: bool,
    /// Whether a fence writes pages of a file.
    pub is_paged: bool,
    /// Whether stores are durable as they become visible, without a flush.
    pub has_durable_stores: bool,
    /// Whether stores past the caches are durable without a fence.
    pub has_durable_streams: bool,
    /// Bytes of the unit that becomes durable in one piece, and whose stores do in their order.
    pub unit_bytes: u64,
}

impl Domain {
    /// Every domain, weakest platform first.
    pub const ALL: [Self; 4] = [Self::Process, Self::Page, Self::Adr, Self::Eadr];

    /// How it makes stores durable.
    pub const fn row(self) -> &'static DomainRow {
        match self {
            Self::Process => &DomainRow {
                name: "process",
                promise: "every store survives the death of the process; none a power failure",
                is_power: false,
                is_paged: false,
                has_durable_stores: true,
                has_durable_streams: true,
                unit_bytes: 64,
            },
            Self::Page => &DomainRow {
                name: "page",
                promise: "what was flushed survives a power failure once the fence returns; \
                          until then its 4 KB pages may reach the medium in any order, torn at sectors",
                is_power: true,
                is_paged: true,
                has_durable_stores: false,
                has_durable_streams: false,
                unit_bytes: 512,
            },
            Self::Adr => &DomainRow {
                name: "adr",
                promise: "what was flushed survives a power failure once the fence returns; \
                          until then each 64-byte line may, in any order",
                is_power: true,
                is_paged: false,
                has_durable_stores: false,
                has_durable_streams: false,
                unit_bytes: 64,
            },
            Self::Eadr => &DomainRow {
                name: "eadr",
                promise: "every visible store survives a power failure without a flush; \
                          stores past the caches do once the fence returns",
                is_power: true,
                is_paged: false,
                has_durable_stores: true,
                has_durable_streams: false,
                unit_bytes: 64,
            },
        }
    }

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// One line: what the domain promises on a platform that really has it.
    pub const fn promise(self) -> &'static str {
        self.row().promise
    }

    /// Whether it needs persistent memory, mapped without a page cache.
    pub const fn is_memory(self) -> bool {
        self.row().is_power && !self.row().is_paged
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no persistence domain has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownDomain(pub String);

impl fmt::Display for UnknownDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Domain::ALL.map(Domain::name).join(", ");
        write!(f, "`{}` is no persistence domain: one of {known}", self.0)
    }
}

impl std::error::Error for UnknownDomain {}

impl FromStr for Domain {
    type Err = UnknownDomain;

    fn from_str(name: &str) -> Result<Self, UnknownDomain> {
        Self::ALL
            .into_iter()
            .find(|domain| domain.name() == name)
            .ok_or_else(|| UnknownDomain(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for domain in Domain::ALL {
            assert_eq!(domain.to_string().parse(), Ok(domain));
            assert!(!domain.promise().contains('\n'));
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let error = "ADR".parse::<Domain>().unwrap_err().to_string();
        assert_eq!(error, "`ADR` is no persistence domain: one of process, page, adr, eadr");
    }
}
