//! The table of workloads, and how much of one.

use outlast::LINE_BYTES;
use outlast::collections::{
    FieldPlacement, Fields, Placement, QUEUE_ITEM_BYTES_MAX, RB_VALUE_BYTES_MAX,
};

use crate::content::VALUE_BYTES_MIN;
use crate::linkbench::{self, Graph, Mix};
use crate::store::Structure;
use crate::swaps;
use crate::tpcc::{self, Shape};
use crate::ycsb::Letter;

/// A workload: what it keeps in a pool and what its threads do with that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Ycsb(Letter),
    Swaps(Swaps),
    Pairs(Structure),
    Queue,
    FewWords,
    Tpcc,
    Linkbench(Mix),
}

/// How many swaps a transaction makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swaps {
    /// `sps1`.
    One,
    /// `sps8`.
    Eight,
}

/// Every workload there is.
pub fn workloads() -> &'static [Workload] {
    const fn row(name: &'static str, kind: Kind, about: &'static str) -> Workload {
        Workload { name, about, kind }
    }
    const TABLE: [Workload; 17] = [
        row(
            "ycsb-a",
            Kind::Ycsb(Letter::A),
            "YCSB A: 50 % reads, 50 % updates of a field, zipfian",
        ),
        row("ycsb-b", Kind::Ycsb(Letter::B), "YCSB B: 95 % reads, 5 % updates of a field, zipfian"),
        row("ycsb-c", Kind::Ycsb(Letter::C), "YCSB C: reads only, zipfian"),
        row("ycsb-d", Kind::Ycsb(Letter::D), "YCSB D: 95 % reads of the latest, 5 % insertions"),
        row("ycsb-e", Kind::Ycsb(Letter::E), "YCSB E: 95 % scans of 1-100 records, 5 % insertions"),
        row(
            "ycsb-f",
            Kind::Ycsb(Letter::F),
            "YCSB F: 50 % reads, 50 % read-modify-writes, zipfian",
        ),
        row(
            "oltp-ycsb",
            Kind::Ycsb(Letter::Oltp),
            "YCSB of OLTP-Bench: 50 % reads, 10 % updates, 10 % read-modify-writes, 15 % scans, \
             5 % insertions, 10 % deletions",
        ),
        row(
            "sps1",
            Kind::Swaps(Swaps::One),
            "one swap of two random words of a vector per transaction",
        ),
        row(
            "sps8",
            Kind::Swaps(Swaps::Eight),
            "eight swaps of two random words of a vector per transaction",
        ),
        row("hash", Kind::Pairs(Structure::HashMap), "hash map: half additions, half removals"),
        row("btree", Kind::Pairs(Structure::BTree), "B+tree: half additions, half removals"),
        row(
            "rbtree",
            Kind::Pairs(Structure::RbTree),
            "red-black tree: half additions, half removals",
        ),
        row(
            "queue",
            Kind::Queue,
            "queue: one enqueue or one dequeue per transaction, half of each",
        ),
        row("words", Kind::FewWords, "a few words, several read and written per transaction"),
        row(
            "tpcc",
            Kind::Tpcc,
            "TPC-C: 45 % NewOrder, 43 % Payment, 4 % each OrderStatus, Delivery, StockLevel",
        ),
        row(
            "linkbench",
            Kind::Linkbench(Mix::Published),
            "LinkBench as published: 51 % link lists, 18 % other reads, 31 % writes of a graph",
        ),
        row(
            "linkbench-archapt",
            Kind::Linkbench(Mix::Archapt),
            "LinkBench with Archapt's shares: 64 % reads, 16 updates, 12 insertions, 4 scans, \
             4 deletions",
        ),
    ];
    &TABLE
}

/// Which of the keys each worker draws from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Keys {
    /// All of them.
    #[default]
    Common,
    /// Its own share of them, one of so many: workers with numbers one after the other never meet.
    Apart(u32),
    /// One and the same, or the first two where a transaction needs two.
    One,
}

impl Keys {
    /// The share that a key is in, of `records`.
    pub(crate) fn share_of(self, key: u64, records: u64) -> u64 {
        match self {
            Self::Apart(shares) => ((key + 1) * u64::from(shares) - 1) / records,
            Self::Common | Self::One => 0,
        }
    }

    /// The keys of the worker `id`, of `records`, of which a transaction needs `least`: the first,
    /// and how many.
    pub(crate) fn of(self, id: u8, records: u64, least: u64) -> (u64, u64) {
        match self {
            Self::Common => (0, records),
            Self::Apart(shares) => {
                let shares = u64::from(shares);
                let share = (u64::from(id) + shares - 1) % shares;
                let at = |share| records * share / shares;
                (at(share), at(share + 1) - at(share))
            }
            Self::One => (0, least),
        }
    }
}

/// How much of a workload. [`Workload::scale`] gives the published one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    /// Records (YCSB), words (sps, words), keys to draw from (hash, btree, rbtree), of which half
    /// are there at first, items that are there at first (queue), warehouses (TPC-C), or nodes
    /// (LinkBench).
    pub records: u64,
    /// Which of them a worker draws from (sps, hash, btree, rbtree).
    pub keys: Keys,
    /// Operations expected of all workers together; YCSB D and E make room for their insertions.
    pub operations: u64,
    /// Fields of a record (YCSB).
    pub fields: u64,
    /// Bytes in a field, 16 or more (YCSB).
    pub field_bytes: u64,
    /// Bytes in a value or an item, 8 or more (hash, btree, rbtree, queue).
    pub value_bytes: u64,
    /// The dictionary that keeps the records (YCSB). Scans need the B+tree.
    pub structure: Structure,
    /// Where keys and values go (all but sps, rbtree, queue and words).
    pub placement: Placement,
    /// Where the fields of a record and their values go; `None` lays the values end to end, with
    /// nothing beside them (YCSB).
    pub fields_placed: Option<FieldPlacement>,
    /// Words on one line: 8 shares lines, 1 gives each word its own (words).
    pub words_per_line: u64,
    /// Districts of a warehouse (TPC-C).
    pub districts: u64,
    /// Customers of a district, and as many orders at first (TPC-C).
    pub customers: u64,
    /// Items, and as many stocks in each warehouse (TPC-C).
    pub items: u64,
}

impl Scale {
    /// Bytes in a record.
    pub fn record_bytes(&self) -> usize {
        (self.fields * self.field_bytes) as usize
    }

    /// How records lie in their values, where they are more than their fields' values end to end.
    pub(crate) fn record_fields(&self) -> Option<Fields> {
        self.fields_placed.map(|placement| Fields::new(placement, self.fields, self.field_bytes))
    }

    /// Bytes of the value that holds a record.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.record_fields().map_or(self.record_bytes() as u64, |fields| fields.record_bytes())
    }
}

/// A scale that a workload cannot have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{workload}: {what} is {value}; {wanted}")]
pub struct BadScale {
    workload: &'static str,
    what: &'static str,
    value: u64,
    wanted: &'static str,
}

fn keys_in_words(keys: Keys) -> String {
    match keys {
        Keys::Common => String::new(),
        Keys::Apart(shares) => format!(", {shares} shares of the keys"),
        Keys::One => ", one hot key".to_owned(),
    }
}

impl Workload {
    /// The workload of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        workloads().iter().find(|workload| workload.name == name)
    }

    /// How many swaps a transaction makes, where that is all it does.
    pub fn swaps(&self) -> Option<Swaps> {
        match self.kind {
            Kind::Swaps(swaps) => Some(swaps),
            _ => None,
        }
    }

    /// The published scale: a million records of 1 KB, a million words, 100 k keys of 200 k; 1,000 items; four
    /// words on one line; one warehouse of 10 districts with 3,000 customers each and 100,000
    /// items; ten million nodes.
    pub fn scale(&self) -> Scale {
        let (records, structure) = match self.kind {
            Kind::Ycsb(Letter::E | Letter::Oltp) => (1_000_000, Structure::BTree),
            Kind::Ycsb(_) => (1_000_000, Structure::HashMap),
            Kind::Swaps(_) => (1_000_000, Structure::HashMap),
            Kind::Pairs(structure) => (200_000, structure),
            Kind::Queue => (1_000, Structure::HashMap),
            Kind::FewWords => (4, Structure::HashMap),
            Kind::Tpcc => (1, Structure::BTree),
            Kind::Linkbench(_) => (10_000_000, Structure::BTree),
        };
        Scale {
            records,
            keys: Keys::Common,
            operations: if self.kind == Kind::Tpcc { 100_000 } else { records },
            fields: 10,
            field_bytes: 100,
            value_bytes: 8,
            structure,
            placement: Placement::Together,
            fields_placed: None,
            words_per_line: LINE_BYTES / 8,
            districts: 10,
            customers: 3_000,
            items: 100_000,
        }
    }

    /// A scale whose data is loaded in less than a second: 50,000 records (YCSB), 300 customers a
    /// district and 10,000 items (TPC-C), 50,000 nodes (LinkBench), the others as published.
    pub fn quick_scale(&self) -> Scale {
        let scale = self.scale();
        match self.kind {
            Kind::Ycsb(_) | Kind::Linkbench(_) => Scale { records: 50_000, ..scale },
            Kind::Tpcc => Scale { customers: 300, items: 10_000, ..scale },
            _ => scale,
        }
    }

    /// A scale of about so many keys: what crash tests run. Dictionaries start with half of the
    /// keys that they are drawn from; TPC-C has one warehouse with fewer of everything; a node of
    /// LinkBench is some five rows with its links and their counts.
    pub fn scale_of(&self, keys: u64) -> Scale {
        let scale = self.scale();
        match self.kind {
            Kind::Pairs(_) => Scale { records: 2 * keys, ..scale },
            Kind::Tpcc => {
                // A customer is some 15 rows with the first order; a fifth are items and stocks.
                let districts = (keys / 500).clamp(1, Shape::DISTRICTS_MAX);
                let customers = (keys * 4 / 5 / 15 / districts).clamp(3, Shape::CUSTOMERS_MAX);
                let items = (keys / 10).clamp(10, Shape::ITEMS_MAX);
                Scale { records: 1, districts, customers, items, ..scale }
            }
            Kind::Linkbench(_) => Scale { records: (keys / 5).max(8), ..scale },
            _ => Scale { records: keys, ..scale },
        }
    }

    /// The scale in words, as results state it.
    pub fn describe(&self, scale: &Scale) -> String {
        let Scale { records, value_bytes, .. } = scale;
        match self.kind {
            Kind::Ycsb(_) => {
                let bytes = scale.record_bytes();
                let fields = match scale.fields_placed {
                    None => "",
                    Some(FieldPlacement::Together) => ", each field with its value",
                    Some(FieldPlacement::Apart) => ", fields and values apart",
                };
                format!("YCSB: {records} records of {bytes} bytes{fields}")
            }
            Kind::Swaps(_) => format!("sps: {records} words{}", keys_in_words(scale.keys)),
            Kind::Pairs(_) => format!(
                "{}: {} of {records} keys, {value_bytes} bytes each{}",
                self.name,
                records / 2,
                keys_in_words(scale.keys)
            ),
            Kind::Queue => format!("queue: {records} items, {value_bytes} bytes each"),
            Kind::FewWords => format!("{records} words"),
            Kind::Tpcc => format!(
                "TPC-C: {records} warehouses of {} districts with {} customers each, {} items",
                scale.districts, scale.customers, scale.items
            ),
            Kind::Linkbench(_) => format!("LinkBench: {records} nodes"),
        }
    }

    /// Whether the workload can have this scale.
    ///
    /// # Errors
    /// [`BadScale`] names what it cannot have.
    pub fn check(&self, scale: &Scale) -> Result<(), BadScale> {
        let bad = |what, value, wanted| Err(BadScale { workload: self.name, what, value, wanted });
        let needed = match self.kind {
            Kind::Swaps(_) => 2,
            Kind::Pairs(_) => 1,
            _ if scale.keys == Keys::Common => 0,
            _ => {
                let wanted = "sps1, sps8, hash, btree and rbtree can have keys apart, or one";
                return bad("keys to draw from", scale.records, wanted);
            }
        };
        if let Keys::Apart(shares) = scale.keys
            && (shares == 0 || scale.records / u64::from(shares) < needed)
        {
            return bad("shares of the keys", u64::from(shares), "1 to one for each key, or two");
        }
        match self.kind {
            Kind::Ycsb(letter) => {
                if scale.records == 0 || scale.records > 1 << 32 {
                    return bad("records", scale.records, "1 to 4,294,967,296 are possible");
                }
                if scale.fields == 0 || scale.fields > 256 {
                    return bad("fields", scale.fields, "1 to 256 are possible");
                }
                if !(16..=1 << 16).contains(&scale.field_bytes) {
                    return bad("field bytes", scale.field_bytes, "16 to 65,536 are possible");
                }
                if scale.structure == Structure::RbTree {
                    return bad("structure", 0, "its keys are longer than a red-black tree's");
                }
                if letter.mix().scan > 0 && scale.structure != Structure::BTree {
                    return bad("structure", 0, "scans need the B+tree");
                }
            }
            Kind::Swaps(_) if !(2..=swaps::WORDS_MAX).contains(&scale.records) => {
                return bad("records", scale.records, "2 to 16,777,216 words are possible");
            }
            Kind::Swaps(_) => {}
            Kind::Pairs(structure) => {
                if !(1..=1 << 32).contains(&scale.records) {
                    return bad("records", scale.records, "1 to 4,294,967,296 are possible");
                }
                if !(VALUE_BYTES_MIN as u64..=1 << 20).contains(&scale.value_bytes) {
                    return bad("value bytes", scale.value_bytes, "8 to 1,048,576 are possible");
                }
                if structure == Structure::RbTree && scale.value_bytes > RB_VALUE_BYTES_MAX {
                    return bad("value bytes", scale.value_bytes, "8 to 65,536 are possible");
                }
            }
            Kind::Queue => {
                if !(1..=1 << 32).contains(&scale.records) {
                    return bad("records", scale.records, "1 to 4,294,967,296 are possible");
                }
                if !(VALUE_BYTES_MIN as u64..=QUEUE_ITEM_BYTES_MAX).contains(&scale.value_bytes) {
                    return bad("value bytes", scale.value_bytes, "8 to 65,536 are possible");
                }
            }
            Kind::FewWords => {
                if !(1..=1 << 20).contains(&scale.records) {
                    return bad("records", scale.records, "1 to 1,048,576 words are possible");
                }
                if !matches!(scale.words_per_line, 1 | 2 | 4 | 8) {
                    return bad(
                        "words per line",
                        scale.words_per_line,
                        "1, 2, 4 or 8 are possible",
                    );
                }
            }
            Kind::Tpcc => {
                if let Err((what, value, wanted)) = Shape::of(scale).check() {
                    return bad(what, value, wanted);
                }
            }
            Kind::Linkbench(_) if !(8..=linkbench::NODES_MAX / 2).contains(&scale.records) => {
                return bad("records", scale.records, "8 to 134,217,727 nodes are possible");
            }
            Kind::Linkbench(_) => {}
        }
        Ok(())
    }

    /// Bytes that the blocks of the workload need at most, rounding to size classes included, its
    /// expected insertions as well; a pool wants its own headers, logs and slack beside them.
    pub fn heap_bytes(&self, scale: &Scale) -> u64 {
        const FIXED: u64 = 1 << 20;
        let words = |words: u64| FIXED + 8 * words;
        let bytes = match self.kind {
            Kind::Ycsb(letter) => {
                let records = scale.records + scale.operations * letter.mix().insert / 100 * 2;
                // A key of 23 bytes and its lengths, up to a quarter lost to size classes, and
                // the share of a segment or of a leaf and its ancestors.
                FIXED + records * ((scale.stored_bytes() + 64) * 5 / 4 + 64)
            }
            Kind::Pairs(_) => FIXED + scale.records * ((scale.value_bytes + 32) * 5 / 4 + 64),
            // Blocks that are not full, and places that are longer than their items.
            Kind::Queue => FIXED + 2 * (scale.records + 16) * (scale.value_bytes + 64),
            Kind::Swaps(_) => words(scale.records),
            Kind::FewWords => words(scale.records * self.stride(scale)),
            Kind::Tpcc => tpcc::heap_bytes(Shape::of(scale), scale.operations),
            Kind::Linkbench(_) => {
                linkbench::heap_bytes(&Graph::new(scale.records), scale.operations)
            }
        };
        // Scattered values begin up to 48 bytes into their blocks, and keys have blocks of theirs.
        if scale.placement == Placement::Scattered { bytes + bytes / 2 } else { bytes }
    }

    /// The distance between words in use.
    pub(crate) fn stride(&self, scale: &Scale) -> u64 {
        match self.kind {
            Kind::FewWords => LINE_BYTES / 8 / scale.words_per_line,
            _ => 1,
        }
    }
}
