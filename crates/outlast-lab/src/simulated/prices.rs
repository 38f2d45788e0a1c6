//! What the runtime's own instructions are: one table, measured.
//!
//! Rows are instructions of one call beside its accesses of persistent memory. They were counted
//! by callgrind (valgrind 3.19) around `examples/instructions.rs`, built with `--release`:
//! transactions of 8 calls each, 400 and 800 of them, the difference over 400, less that of empty
//! transactions, over 8; instructions inside the medium (`Heap`) do not count, since the machine
//! executes those accesses itself. An empty transaction counts for its beginning and its commit in
//! equal parts. What a commit does for each store counts for the store, what an announcement saves
//! its store can make it negative, and is nothing then. Calls are of single words on lines of
//! their own; longer ones cost a little more, calls on lines that were touched before much less.
//!
//! Not in it: the instructions of the workload and its structures, and what volatile tables of the
//! runtime (write sets, histories) do to the caches.

use outlast::Scheme;
use outlast_pmem::Prices;

/// empty transaction, load, store, announcement, taking a block, giving one back.
const MEASURED: [(&str, [u32; 6]); 9] = [
    ("none", [278, 51, 608, 0, 439, 123]),
    ("undo", [278, 51, 1442, 0, 836, 211]),
    ("redo", [278, 55, 571, 27, 605, 352]),
    ("swift", [287, 55, 594, 27, 586, 215]),
    ("undo-archapt", [287, 628, 2896, 0, 717, 307]),
    ("redo-archapt", [287, 632, 1324, 27, 692, 307]),
    ("atlas", [338, 181, 1583, 27, 613, 208]),
    ("aof", [278, 55, 683, 27, 572, 124]),
    ("rollback", [283, 55, 10_697, 27, 6285, 0]),
];

/// The prices of a scheme's calls; a literal variant has those of its sound one.
pub fn prices(scheme: Scheme) -> Prices {
    let name = scheme.name().split(':').next().unwrap_or_default();
    let row = MEASURED.iter().find(|row| row.0 == name);
    let [empty, load, store, will_write, alloc, free] = row.map_or([0; 6], |row| row.1);
    Prices { begin: empty / 2, load, store, will_write, alloc, free, commit: empty - empty / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_has_its_prices() {
        for row in outlast::SCHEMES {
            let prices = prices(row.scheme);
            assert!(prices.begin > 0 && prices.load > 0 && prices.store > 0, "{}", row.name);
        }
    }
}
