//! How large this machine's caches are, as far as the operating system tells, and a hint to them.

use std::path::Path;
use std::sync::OnceLock;

/// Bytes of the last-level cache that the first processor uses; `None` where the system does not
/// say. On a virtual machine this is what the host chose to show, which may be more than it gives.
pub fn last_level_cache_bytes() -> Option<u64> {
    static FOUND: OnceLock<Option<u64>> = OnceLock::new();
    *FOUND.get_or_init(|| last_level(Path::new("/sys/devices/system/cpu/cpu0/cache")))
}

/// Fetches the line where `place` starts, ready to be changed. A hint; nothing where the processor
/// has no such instruction.
#[inline(always)]
pub fn prefetch_write<T>(place: *const T) {
    crate::cpu::prefetch_write(place.cast());
}

/// Fetches the line where `place` starts, to be read. A hint too.
#[inline(always)]
pub fn prefetch_read<T>(place: *const T) {
    crate::cpu::prefetch_read(place.cast());
}

fn last_level(caches: &Path) -> Option<u64> {
    let index = std::fs::read_dir(caches).ok()?.filter_map(|entry| {
        let dir = entry.ok()?.path();
        let read = |name| std::fs::read_to_string(dir.join(name)).ok();
        if read("type")?.trim() == "Instruction" {
            return None;
        }
        let level: u32 = read("level")?.trim().parse().ok()?;
        Some((level, parse_size(read("size")?.trim())?))
    });
    index.max().map(|(_, bytes)| bytes)
}

/// As the kernel writes sizes: `32768K`, `19M`, or plain bytes.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_size("32768K"), Some(32 << 20));
        assert_eq!(parse_size("19M"), Some(19 << 20));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("KK"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn the_highest_level_that_holds_data_counts() {
        let dir = tempfile::tempdir().unwrap();
        for (index, level, kind, size) in
            [(0, 1, "Data", "32K"), (1, 1, "Instruction", "32K"), (2, 2, "Unified", "1024K")]
        {
            let at = dir.path().join(format!("index{index}"));
            std::fs::create_dir(&at).unwrap();
            for (name, text) in [("level", level.to_string()), ("type", kind.into())] {
                std::fs::write(at.join(name), text + "\n").unwrap();
            }
            std::fs::write(at.join("size"), size).unwrap();
        }
        assert_eq!(last_level(dir.path()), Some(1 << 20));
        assert_eq!(last_level(&dir.path().join("none")), None);
    }
}
