//! Persistence domains: how far a store must travel to survive, and what survives what.

use std::fmt;
use std::str::FromStr;

/// The part of a machine that keeps its content through the failure one cares about. The order
/// is by how much the platform gives: each domain asks more of it than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Domain {
    /// Only the process dies; every store that retired is there.
    Process,
    /// A file through the page cache; `msync` is the fence.
    Page,
    /// Durable once in the memory controller's write-pending queue: flush, then fence.
    Adr,
    /// The caches are durable too; only streams wait for a fence.
    Eadr,
}

impl Domain {
    /// Every domain, weakest platform first.
    pub const ALL: [Self; 4] = [Self::Process, Self::Page, Self::Adr, Self::Eadr];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Page => "page",
            Self::Adr => "adr",
            Self::Eadr => "eadr",
        }
    }

    /// One line: what the domain promises on a platform that really has it.
    pub const fn promise(self) -> &'static str {
        match self {
            Self::Process => "every store survives the death of the process; none a power failure",
            Self::Page => {
                "what was flushed survives a power failure once the fence returns; \
                 until then its 4 KB pages may reach the medium in any order, torn at sectors"
            }
            Self::Adr => {
                "what was flushed survives a power failure once the fence returns; \
                 until then each 64-byte line may, in any order"
            }
            Self::Eadr => {
                "every visible store survives a power failure without a flush; \
                 stores past the caches do once the fence returns"
            }
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no persistence domain has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no persistence domain: one of process, page, adr, eadr")]
pub struct UnknownDomain(pub String);

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
