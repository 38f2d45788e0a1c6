//! The options of the caches, checked before anything is built.

use crate::policy::Policy;
use outlast_trace::LINE_BYTES;
use outlast_trace::instead_of;
use std::{fmt, str::FromStr};

/// Size, shape and replacement of one cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Capacity in bytes: a whole number of sets of `ways` lines.
    pub size_bytes: u64,
    /// Lines in a set.
    pub ways: u32,
    /// Which line leaves when a set is full.
    pub policy: Policy,
}

impl CacheConfig {
    /// A cache of `size_bytes` in sets of `ways` lines, replaced in true LRU order.
    pub const fn new(size_bytes: u64, ways: u32) -> Self {
        Self { size_bytes, ways, policy: Policy::Lru }
    }

    /// The number of sets.
    ///
    /// # Errors
    /// When there are no ways, or the size is not a whole number of sets, or there are more
    /// lines than [`MAX_CACHE_LINES`].
    pub fn sets(&self) -> Result<u64, ConfigError> {
        if self.ways == 0 {
            return Err(ConfigError::NoWays);
        }
        let set_bytes = u64::from(self.ways) * LINE_BYTES;
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(set_bytes) {
            return Err(ConfigError::PartialSet {
                size_bytes: self.size_bytes,
                ways: self.ways,
                below: self.size_bytes / set_bytes * set_bytes,
                above: (self.size_bytes / set_bytes + 1).saturating_mul(set_bytes),
            });
        }
        if self.size_bytes / LINE_BYTES > MAX_CACHE_LINES {
            return Err(ConfigError::TooLarge { size_bytes: self.size_bytes });
        }
        Ok(self.size_bytes / set_bytes)
    }
}

/// The largest cache that can be built, in lines (64 GiB of data).
pub const MAX_CACHE_LINES: u64 = 1 << 30;

/// Whether the lower levels hold what the upper ones hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Inclusion {
    /// Every line of an upper level is in each level below it too. Evicting it below removes it
    /// above, and its dirty data with it.
    #[default]
    Inclusive,
    /// A line that only one lane uses is in one level only: it moves up on a hit and down when
    /// it is evicted. Lines that several lanes share may also stay in the shared level.
    Exclusive,
}

/// The caches of a machine: a private first level for each lane, perhaps a private second
/// level, and one shared last level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HierarchyConfig {
    /// Number of lanes, each with private caches of its own.
    pub lanes: u16,
    /// Each lane's first level. Where its policy is [`Policy::Adversarial`], lines are also
    /// written back unasked, whatever the other levels do.
    pub l1: CacheConfig,
    /// Each lane's second level, if there is one.
    pub l2: Option<CacheConfig>,
    /// The level that all lanes share.
    pub llc: CacheConfig,
    /// How the levels relate.
    pub inclusion: Inclusion,
    /// Lines that each lane's write-combining buffer holds.
    pub wc_lines: u16,
    /// Whether stores go through the first level to the next at once, so that it holds no line
    /// that is newer than that. Inclusive machines only.
    pub l1_write_through: bool,
}

impl HierarchyConfig {
    /// The same machine with another number of lanes.
    pub const fn with_lanes(mut self, lanes: u16) -> Self {
        self.lanes = lanes;
        self
    }

    /// The same machine with `policy` in every cache.
    pub const fn with_policy(mut self, policy: Policy) -> Self {
        self.l1.policy = policy;
        if let Some(l2) = &mut self.l2 {
            l2.policy = policy;
        }
        self.llc.policy = policy;
        self
    }

    /// The same machine with its levels related otherwise.
    pub const fn with_inclusion(mut self, inclusion: Inclusion) -> Self {
        self.inclusion = inclusion;
        self
    }

    /// Whether such a machine can be built.
    ///
    /// # Errors
    /// Names the first value that cannot be, and what would be right.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.lanes == 0 {
            return Err(ConfigError::NoLanes);
        }
        if self.wc_lines == 0 {
            return Err(ConfigError::NoWcLines);
        }
        if self.l1_write_through && self.inclusion == Inclusion::Exclusive {
            return Err(ConfigError::WriteThrough);
        }
        let levels = [("l1", Some(self.l1)), ("l2", self.l2), ("llc", Some(self.llc))];
        for (level, config) in levels {
            if let Some(config) = config {
                config
                    .sets()
                    .map_err(|source| ConfigError::Level { level, source: Box::new(source) })?;
            }
        }
        Ok(())
    }
}

/// A machine with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Preset {
    /// Two lines a lane over four shared ones: nearly every store meets an eviction.
    Tiny,
    /// 32 KiB a lane over 256 KiB shared.
    Small,
    /// 48 KiB and 1.25 MiB a lane over 19.25 MiB shared, the last level exclusive.
    Server,
}

impl Preset {
    /// Every preset: its name and what it is, in one line.
    pub const ALL: [(Preset, &str, &str); 3] = [
        (Preset::Tiny, "tiny", "2-line L1, 4-line LLC: nearly every store meets an eviction"),
        (Preset::Small, "small", "32 KiB 8-way L1, 256 KiB 16-way inclusive LLC"),
        (
            Preset::Server,
            "server",
            "48 KiB 12-way L1, 1.25 MiB 20-way L2, 19.25 MiB 11-way exclusive LLC",
        ),
    ];

    /// The preset's machine, with one lane and true LRU.
    pub const fn config(self) -> HierarchyConfig {
        let (l1, l2, llc, inclusion) = match self {
            Preset::Tiny => (
                CacheConfig::new(2 * LINE_BYTES, 2),
                None,
                CacheConfig::new(4 * LINE_BYTES, 4),
                Inclusion::Inclusive,
            ),
            Preset::Small => (
                CacheConfig::new(32 << 10, 8),
                None,
                CacheConfig::new(256 << 10, 16),
                Inclusion::Inclusive,
            ),
            Preset::Server => (
                CacheConfig::new(48 << 10, 12),
                Some(CacheConfig::new(1280 << 10, 20)),
                CacheConfig::new(19_712 << 10, 11),
                Inclusion::Exclusive,
            ),
        };
        HierarchyConfig { lanes: 1, l1, l2, llc, inclusion, wc_lines: 10, l1_write_through: false }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

impl FromStr for Preset {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::ALL
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0)
            .ok_or_else(|| ConfigError::UnknownPreset { name: name.to_owned() })
    }
}

/// A machine that cannot be built. Each message names the value and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A cache without ways holds nothing.
    #[error("a cache with 0 ways holds nothing: give it at least 1")]
    NoWays,
    /// The size is not a whole number of sets.
    #[error(
        "{size_bytes} bytes are not a whole number of sets of {ways} lines of 64 bytes: {}",
        whole_sets(*below, *above)
    )]
    PartialSet {
        /// The size asked for.
        size_bytes: u64,
        /// The ways asked for.
        ways: u32,
        /// The largest smaller size that works, or 0.
        below: u64,
        /// The smallest larger size that works.
        above: u64,
    },
    /// More lines than can be indexed.
    #[error("a cache of {size_bytes} bytes is too large: at most {} bytes", MAX_CACHE_LINES * LINE_BYTES)]
    TooLarge {
        /// The size asked for.
        size_bytes: u64,
    },
    /// One level of a machine cannot be built.
    #[error("{level}: {source}")]
    Level {
        /// `l1`, `l2` or `llc`.
        level: &'static str,
        /// The mistake in it.
        source: Box<ConfigError>,
    },
    /// A machine without lanes runs nothing.
    #[error("a machine with 0 lanes runs nothing: give it at least 1")]
    NoLanes,
    /// Non-temporal stores have to pass through a buffer.
    #[error("0 write-combining lines: a lane needs at least 1")]
    NoWcLines,
    /// Where a line is in one level only, there is no next level to write to.
    #[error("a first level writes through in an inclusive machine only: take inclusive caches")]
    WriteThrough,
    /// No policy has this name.
    #[error(
        "no replacement policy is named '{name}'; {}",
        instead_of(name, Policy::ALL.iter().map(|row| row.1))
    )]
    UnknownPolicy {
        /// The name given.
        name: String,
    },
    /// No preset has this name.
    #[error(
        "no cache preset is named '{name}'; {}",
        instead_of(name, Preset::ALL.iter().map(|row| row.1))
    )]
    UnknownPreset {
        /// The name given.
        name: String,
    },
}

fn whole_sets(below: u64, above: u64) -> String {
    if below == 0 { format!("take at least {above}") } else { format!("take {below} or {above}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_can_be_built_and_are_found_by_name() {
        for (preset, name, _) in Preset::ALL {
            preset.config().with_lanes(4).validate().unwrap();
            assert_eq!(name.parse::<Preset>(), Ok(preset));
            assert_eq!(preset.to_string(), name);
        }
        assert_eq!(Preset::Server.config().llc.sets(), Ok(28_672));
        assert!("Tiny".parse::<Preset>().is_err());
    }

    #[test]
    fn what_cannot_be_built_is_named_in_one_line() {
        let mut config = Preset::Small.config();
        config.llc.size_bytes = 1000;
        let message = config.validate().unwrap_err().to_string();
        assert_eq!(
            message,
            "llc: 1000 bytes are not a whole number of sets of 16 lines of 64 bytes: \
             take at least 1024"
        );
        let message = CacheConfig::new(1100, 16).sets().unwrap_err().to_string();
        assert!(message.ends_with("take 1024 or 2048"), "{message}");
        assert_eq!(CacheConfig::new(64, 0).sets(), Err(ConfigError::NoWays));
        assert!(CacheConfig::new(0, 1).sets().is_err());
        assert!(CacheConfig::new(1 << 40, 1).sets().is_err());
        assert_eq!(Preset::Tiny.config().with_lanes(0).validate(), Err(ConfigError::NoLanes));
        let mut config = Preset::Tiny.config();
        config.wc_lines = 0;
        assert_eq!(config.validate(), Err(ConfigError::NoWcLines));
    }
}
