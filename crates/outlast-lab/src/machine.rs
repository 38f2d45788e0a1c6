//! Where a measurement ran: what `/proc` and `/sys` tell, and what is left unsaid elsewhere.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The facts about a machine that a reader of results needs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's own name, or its architecture.
    pub cpu_model: String,
    /// Logical processors that this process may use.
    pub cores: u32,
    /// The caches that the first processor sees, smallest first.
    pub caches: Vec<Cache>,
    /// The best instruction for flushing a line, `none` where there is none.
    pub flush_instruction: String,
    /// Whether whole lines can be stored past the caches atomically.
    pub movdir64b: bool,
    /// The operating system and its version.
    pub kernel: String,
    /// Main memory, in bytes; 0 where unknown.
    pub memory_bytes: u64,
}

/// One cache.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is closest to the core.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// In bytes.
    pub size_bytes: u64,
    /// Ways, 0 where unknown.
    pub ways: u32,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let flags = Flags::of(&cpuinfo);
        Self {
            cpu_model: cpu_model(&cpuinfo),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            flush_instruction: flags.flush_instruction().to_owned(),
            movdir64b: flags.has("movdir64b"),
            kernel: kernel(),
            memory_bytes: memory_bytes(&meminfo),
        }
    }

    /// One line for captions.
    pub fn summary(&self) -> String {
        let mut line = format!("{}, {} logical cores", self.cpu_model, self.cores);
        for cache in self.caches.iter().filter(|cache| cache.kind != "instruction") {
            line += &format!(", L{} {}", cache.level, crate::format::bytes(cache.size_bytes));
        }
        if self.memory_bytes > 0 {
            line += &format!(", {} memory", crate::format::bytes(self.memory_bytes));
        }
        line + &format!(", {}, {}", self.flush_instruction, self.kernel)
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    field(cpuinfo, "model name")
        .or_else(|| field(cpuinfo, "Model"))
        .map_or_else(|| std::env::consts::ARCH.to_owned(), str::to_owned)
}

fn kernel() -> String {
    #[cfg(unix)]
    {
        let name = rustix::system::uname();
        format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy())
    }
    #[cfg(not(unix))]
    std::env::consts::OS.to_owned()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib = field(meminfo, "MemTotal").and_then(|text| text.strip_suffix("kB"));
    kib.and_then(|number| number.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// The first `name : value` of a listing.
fn field<'a>(listing: &'a str, name: &str) -> Option<&'a str> {
    listing
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// What the processor can do.
struct Flags<'a>(Vec<&'a str>);

impl<'a> Flags<'a> {
    fn of(cpuinfo: &'a str) -> Self {
        Self(field(cpuinfo, "flags").unwrap_or_default().split_whitespace().collect())
    }

    fn has(&self, flag: &str) -> bool {
        self.0.contains(&flag)
    }

    fn flush_instruction(&self) -> &'static str {
        // `/proc/cpuinfo` calls plain clflush `clflush`, as the manual does.
        ["clwb", "clflushopt", "clflush"].into_iter().find(|f| self.has(f)).unwrap_or("none")
    }
}

/// The caches under one processor's `cache` directory; unreadable ones are left out.
fn caches(directory: &Path) -> Vec<Cache> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut caches: Vec<Cache> =
        entries.flatten().filter_map(|entry| cache(&entry.path())).collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

fn cache(directory: &Path) -> Option<Cache> {
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let size = read("size")?;
    let kib = size.trim().strip_suffix('K')?.parse::<u64>().ok()?;
    Some(Cache {
        level: read("level")?.trim().parse().ok()?,
        kind: read("type")?.trim().to_lowercase(),
        size_bytes: kib * 1024,
        ways: read("ways_of_associativity").and_then(|n| n.trim().parse().ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nvendor_id\t: X\nmodel name\t: Some CPU @ 2 GHz\n\
        flags\t\t: fpu clflush clflushopt\n\nprocessor\t: 1\nmodel name\t: Another\n";

    #[test]
    fn listings_of_the_kernel_are_understood() {
        assert_eq!(cpu_model(CPUINFO), "Some CPU @ 2 GHz");
        assert_eq!(Flags::of(CPUINFO).flush_instruction(), "clflushopt");
        assert!(!Flags::of(CPUINFO).has("clfl"), "whole words only");
        assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       2048 kB\n"), 2 << 20);
    }

    #[test]
    fn what_is_not_told_is_left_unsaid() {
        assert_eq!(cpu_model(""), std::env::consts::ARCH);
        assert_eq!(Flags::of("").flush_instruction(), "none");
        assert_eq!(memory_bytes("garbage"), 0);
        assert!(caches(Path::new("/no/such/place")).is_empty());
        assert!(Machine::this().cores >= 1);
    }

    #[test]
    fn caches_are_read_from_their_directory() {
        let dir = tempfile::tempdir().unwrap();
        for (index, level, kind, size) in
            [("index0", "2", "Unified", "512K"), ("index1", "1", "Data", "32K")]
        {
            let cache = dir.path().join(index);
            fs::create_dir(&cache).unwrap();
            fs::write(cache.join("level"), format!("{level}\n")).unwrap();
            fs::write(cache.join("type"), format!("{kind}\n")).unwrap();
            fs::write(cache.join("size"), format!("{size}\n")).unwrap();
        }
        fs::create_dir(dir.path().join("power")).unwrap();
        let l1 = Cache { level: 1, kind: "data".into(), size_bytes: 32 << 10, ways: 0 };
        let l2 = Cache { level: 2, kind: "unified".into(), size_bytes: 512 << 10, ways: 0 };
        assert_eq!(caches(dir.path()), [l1, l2]);
    }
}
