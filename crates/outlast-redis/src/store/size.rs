//! Sizes that entries are rounded to, so that a value that grows a little stays where it is.

/// Sizes of blocks that the runtime's heap has below a run of chunks.
const CLASSES: [u64; 38] = [
    16, 32, 48, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960, 1024,
    1088, 1152, 1280, 1408, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192,
    10240, 12288, 14336, 16384,
];

/// Above, blocks are as large as they must be.
const HALF_OF_LARGEST: u64 = 256 << 20;

const CLASS_MAX: u64 = CLASSES[CLASSES.len() - 1];

/// The bytes to ask for where `bytes` are needed: an eighth more at most, above the classes.
pub(crate) fn rounded(bytes: u64) -> u64 {
    if bytes <= CLASS_MAX {
        return CLASSES[CLASSES.partition_point(|size| *size < bytes)];
    }
    let step = (bytes.next_power_of_two() / 16).max(4096);
    // The largest block has less than 512 MiB: what fits into it is not rounded beyond it.
    let step = if bytes > HALF_OF_LARGEST { 4096 } else { step };
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_wastes_an_eighth_at_most_and_keeps_what_is_round() {
        assert!(CLASSES.is_sorted());
        for bytes in (1..100_000).chain([1 << 20, (1 << 20) + 1, 500 << 20]) {
            let round = rounded(bytes);
            assert!(round >= bytes && rounded(round) == round, "{bytes}");
            if bytes > 65536 {
                assert!(round - bytes <= bytes / 8, "{bytes}");
            }
        }
    }
}
