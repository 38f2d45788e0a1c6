//! What the runtime's own instructions are: one table, measured.
//!
//! Rows are instructions of one call beside its accesses of persistent memory. They were counted
//! by callgrind (valgrind 3.19) around `examples/calls.rs`, built with `--release`:
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
use outlast_pmem::InstructionCosts;

/// empty transaction, load, store, announcement, taking a block, giving one back.
const MEASURED: [(&str, [u32; 6]); 9] = [
    ("none", [344, 45, 276, 18, 431, 145]),
    ("undo", [344, 45, 1459, 9, 825, 235]),
    ("redo", [348, 45, 356, 19, 586, 374]),
    ("swift", [357, 45, 386, 19, 578, 336]),
    ("undo-archapt", [353, 45, 1939, 9, 603, 336]),
    ("redo-archapt", [357, 45, 386, 19, 578, 336]),
    ("atlas", [397, 125, 1616, 36, 610, 230]),
    ("aof", [344, 45, 574, 18, 573, 147]),
    ("rollback", [349, 45, 10_146, 18, 6148, 0]),
];

/// The costs of a scheme's calls; a literal variant has those of its sound one.
pub fn costs(scheme: Scheme) -> InstructionCosts {
    let name = scheme.name().split(':').next().unwrap_or_default();
    let row = MEASURED.iter().find(|row| row.0 == name);
    let [empty, load, store, will_write, alloc, free] = row.map_or([0; 6], |row| row.1);
    InstructionCosts {
        begin: empty / 2,
        load,
        store,
        will_write,
        alloc,
        free,
        commit: empty - empty / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_has_its_prices() {
        for row in outlast::scheme::SCHEMES {
            let costs = costs(row.scheme);
            assert!(costs.begin > 0 && costs.load > 0 && costs.store > 0, "{}", row.name);
        }
    }
}
