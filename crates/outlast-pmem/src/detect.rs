//! Which persistence domain a file has, as the operating system tells it.
//!
//! Three questions, in this order. Does the file live in memory only (tmpfs)? Then only the
//! death of the process is survived. Does `MAP_SYNC` fail? Then the page cache stands between
//! the mapping and the medium. Otherwise the file is mapped directly (DAX), and
//! `/sys/bus/nd/devices/region*/persistence_domain` says whether the caches are durable. With
//! several regions the weakest counts, because the file may lie on any of them; what the kernel
//! does not know is flushed.

use std::fs;
use std::path::Path;

use outlast_trace::Domain;

/// What really holds the bytes of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Ordinary volatile memory (tmpfs and its kin).
    Dram,
    /// The page cache in front of a storage device.
    PageCache,
    /// The medium itself, mapped without a page cache.
    Direct,
}

/// What was found about a file, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detection {
    /// The strongest domain that the platform vouches for.
    pub domain: Domain,
    /// What holds the bytes.
    pub backing: Backing,
    /// Why, in words for people.
    pub reason: String,
}

impl Detection {
    /// One line about a mapping that runs in `domain` although this was found: names the
    /// domain, says what it is an emulation of if it is one, and gives the reason.
    pub fn describe(&self, domain: Domain) -> String {
        // Asking for less than there is (adr on an eadr machine) is no emulation.
        if domain <= self.domain {
            return format!("{domain} ({})", self.reason);
        }
        let on = match self.backing {
            Backing::Dram => "DRAM",
            Backing::PageCache => "the page cache",
            Backing::Direct => "adr memory",
        };
        format!("{domain} emulated on {on} ({})", self.reason)
    }
}

/// Where the kernel describes its persistent-memory regions.
pub(crate) const ND_DEVICES: &str = "/sys/bus/nd/devices";

/// Judges a file by its file system and by whether it could be mapped with `MAP_SYNC`.
///
/// `volatile_fs` names the file system if it lives in memory only; `nd_devices` is
/// [`ND_DEVICES`] or a tree that looks like it.
pub(crate) fn detect(volatile_fs: Option<&str>, mapped_sync: bool, nd_devices: &Path) -> Detection {
    if let Some(name) = volatile_fs {
        return Detection {
            domain: Domain::Process,
            backing: Backing::Dram,
            reason: format!("the file lies on {name}, which lives in memory only"),
        };
    }
    if !mapped_sync {
        return Detection {
            domain: Domain::Page,
            backing: Backing::PageCache,
            reason: "the file system does not map the file directly (no MAP_SYNC)".to_owned(),
        };
    }
    let (domain, found) = platform_domain(nd_devices);
    Detection { domain, backing: Backing::Direct, reason: format!("MAP_SYNC is granted; {found}") }
}

/// The weakest persistence domain among the platform's regions, and where it was read.
fn platform_domain(nd_devices: &Path) -> (Domain, String) {
    let mut regions: Vec<(String, String)> = fs::read_dir(nd_devices)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let said = fs::read_to_string(entry.path().join("persistence_domain")).ok()?;
            name.starts_with("region").then(|| (name, said.trim().to_owned()))
        })
        .collect();
    regions.sort();
    match regions.iter().find(|(_, said)| said != "cpu_cache") {
        Some((name, said)) if said == "memory_controller" => {
            (Domain::Adr, format!("{name} says memory_controller"))
        }
        Some((name, said)) => (Domain::Adr, format!("{name} says {said:?}, so lines are flushed")),
        None if regions.is_empty() => {
            (Domain::Adr, "no region tells its domain, so lines are flushed".to_owned())
        }
        None => (Domain::Eadr, "every region says cpu_cache".to_owned()),
    }
}

// Miri has no directories to make a tree in.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Region names, each with what its `persistence_domain` says.
    type Regions<'a> = &'a [(&'a str, &'a str)];

    /// A tree like the kernel's.
    fn regions(said: Regions<'_>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, domain) in said {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("persistence_domain"), domain).unwrap();
        }
        root
    }

    fn direct(said: Regions<'_>) -> Detection {
        detect(None, true, regions(said).path())
    }

    #[test]
    fn regions_tell_the_domain_and_the_weakest_counts() {
        let cases: [(Regions<'_>, Domain, &str); 6] = [
            (&[("region0", "cpu_cache\n")], Domain::Eadr, "every region says cpu_cache"),
            (&[("region0", "memory_controller\n")], Domain::Adr, "region0 says memory_controller"),
            (&[("region0", "unknown\n")], Domain::Adr, "region0 says \"unknown\""),
            (
                &[("region0", "cpu_cache\n"), ("region1", "memory_controller\n")],
                Domain::Adr,
                "region1",
            ),
            // A bus device of another kind has no say.
            (&[("region0", "cpu_cache\n"), ("nmem0", "unknown\n")], Domain::Eadr, "every region"),
            (&[], Domain::Adr, "no region tells"),
        ];
        for (said, domain, reason) in cases {
            let found = direct(said);
            assert_eq!(found.domain, domain, "{said:?}");
            assert_eq!(found.backing, Backing::Direct);
            assert!(found.reason.contains(reason), "{said:?}: {}", found.reason);
        }
    }

    #[test]
    fn a_missing_bus_keeps_flushing() {
        assert_eq!(detect(None, true, Path::new("/no/such/bus")).domain, Domain::Adr);
    }

    #[test]
    fn without_direct_mapping_regions_have_no_say() {
        let eadr = regions(&[("region0", "cpu_cache\n")]);
        assert_eq!(detect(None, false, eadr.path()).domain, Domain::Page);
        assert_eq!(detect(Some("tmpfs"), true, eadr.path()).domain, Domain::Process);
    }

    #[test]
    fn what_is_emulated_is_called_so() {
        let tmpfs = detect(Some("tmpfs"), false, Path::new(ND_DEVICES));
        assert!(
            tmpfs.describe(Domain::Adr).starts_with("adr emulated on DRAM (the file lies on tmpfs")
        );
        assert!(tmpfs.describe(Domain::Process).starts_with("process (the file"));
        let file = detect(None, false, Path::new(ND_DEVICES));
        assert!(file.describe(Domain::Eadr).starts_with("eadr emulated on the page cache"));
        assert!(file.describe(Domain::Process).starts_with("process (the file system"));
        let adr = direct(&[("region0", "memory_controller")]);
        assert!(adr.describe(Domain::Eadr).starts_with("eadr emulated on adr memory"));
        assert!(direct(&[("region0", "cpu_cache")]).describe(Domain::Adr).starts_with("adr (MAP"));
    }
}
