//! The table of workloads, and how much of one.

use outlast::collections::{FieldPlacement, Fields, Placement};
use outlast::medium::LINE_BYTES;

use crate::array::{Array, Order};
use crate::family::{Kind, Unfit};
use crate::few_words::FewWords;
use crate::layout::Layout;
use crate::linkbench::{Linkbench, Mix};
use crate::pairs::{Draws, Pairs};
use crate::programs::{ProgramKind, StoresAlone};
use crate::queue::Items;
use crate::store::Structure;
use crate::swaps::Swapping;
use crate::tatp::Tatp;
use crate::tpcc::Tpcc;
use crate::ycsb::{Letter, Ycsb};

/// A workload: what it keeps in a pool and what its threads do with that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description, in one line.
    pub about: &'static str,
    pub(crate) kind: Kind,
}

/// How many swaps a transaction makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swaps {
    /// `sps1`.
    One,
    /// `sps8`.
    Eight,
}

/// Every workload there is: a folder or file that gives its family, and its row here. What stands
/// alone comes first: nothing but the timed machine and measurements runs it.
pub fn workloads() -> &'static [Workload] {
    const fn row(name: &'static str, kind: Kind, about: &'static str) -> Workload {
        Workload { name, about, kind }
    }
    const fn program(
        name: &'static str,
        kind: ProgramKind,
        footprint: u64,
        element_bytes: u64,
        about: &'static str,
    ) -> Workload {
        row(name, Kind::Program(StoresAlone { kind, footprint, element_bytes }), about)
    }
    const fn ycsb(name: &'static str, letter: Letter, about: &'static str) -> Workload {
        row(name, Kind::Ycsb(Ycsb(letter)), about)
    }
    const fn pairs(
        name: &'static str,
        structure: Structure,
        draws: Draws,
        about: &'static str,
    ) -> Workload {
        row(name, Kind::Pairs(Pairs { structure, draws, is_inline: false }), about)
    }
    const fn inline(name: &'static str, structure: Structure, about: &'static str) -> Workload {
        let draws = Draws::Evenly;
        row(name, Kind::Pairs(Pairs { structure, draws, is_inline: true }), about)
    }
    const HASH: ProgramKind = ProgramKind::Toggle(Structure::HashMap);
    const RBTREE: ProgramKind = ProgramKind::Toggle(Structure::RbTree);
    const BTREE: ProgramKind = ProgramKind::Toggle(Structure::BTree);
    use ProgramKind::{CritBits, Echo, Graph, Swap, Vacation};
    #[rustfmt::skip]
    const TABLE: &[Workload] = &[
        // The micro-benchmarks of the HWL paper (Table III), integers then strings; then what stands
        // for its WHISPER set, whose footprints are not published: those are ours.
        program("hash-toggle", HASH, 256 * MB, 8, "hash map: a key added if absent, removed if found"),
        program("rbtree-toggle", RBTREE, 256 * MB, 8, "red-black tree: the same"),
        program("sps", Swap, 1024 * MB, 8, "swap of two elements of a vector"),
        program("btree-toggle", BTREE, 256 * MB, 8, "B+tree: a key added if absent, removed if found"),
        program("ssca2", Graph, 16 * MB, 8, "kernels on a scale-free graph"),
        program("hash-string", HASH, 256 * MB, STRING, "hash-toggle with elements of 256 bytes"),
        program("rbtree-string", RBTREE, 256 * MB, STRING, "rbtree-toggle with elements of 256 bytes"),
        program("sps-string", Swap, 1024 * MB, STRING, "sps with elements of 256 bytes"),
        program("btree-string", BTREE, 256 * MB, STRING, "btree-toggle with elements of 256 bytes"),
        program("ssca2-string", Graph, 16 * MB, 64, "ssca2 with edges of 72 bytes"),
        program("ctree", CritBits, 256 * MB, 64, "crit-bit tree: additions, removals"),
        program("hashmap", HASH, 256 * MB, 64, "hash-toggle with elements of 64 bytes"),
        program("echo", Echo, 256 * MB, 64, "versioned key-value store, batches of puts"),
        program("vacation", Vacation, 256 * MB, 8, "reservations in four tables"),
        ycsb("ycsb-a", Letter::A, "YCSB A: 50 % reads, 50 % updates of a field, zipfian"),
        ycsb("ycsb-b", Letter::B, "YCSB B: 95 % reads, 5 % updates of a field, zipfian"),
        ycsb("ycsb-c", Letter::C, "YCSB C: reads only, zipfian"),
        ycsb("ycsb-d", Letter::D, "YCSB D: 95 % reads of the latest, 5 % insertions"),
        ycsb("ycsb-e", Letter::E, "YCSB E: 95 % scans of 1-100 records, 5 % insertions"),
        ycsb("ycsb-f", Letter::F, "YCSB F: 50 % reads, 50 % read-modify-writes, zipfian"),
        ycsb(
            "oltp-ycsb",
            Letter::Oltp,
            "YCSB of OLTP-Bench: 50 % reads, 10 % updates, 10 % read-modify-writes, 15 % scans, \
             5 % insertions, 10 % deletions",
        ),
        row("sps1", Kind::Swap(Swapping), "one swap of two random words of a vector per transaction"),
        row("sps8", Kind::Swaps(Swapping), "eight swaps of two random words of a vector per transaction"),
        inline("hash", Structure::HashMap, "hash map: half additions, half removals"),
        inline("btree", Structure::BTree, "B+tree: half additions, half removals"),
        pairs("hash-bytes", Structure::HashMap, Draws::Evenly, "hash with each pair in a block, as byte strings"),
        pairs("btree-bytes", Structure::BTree, Draws::Evenly, "btree with each pair in a block, as byte strings"),
        pairs("rbtree", Structure::RbTree, Draws::Evenly, "red-black tree: half additions, half removals"),
        pairs("btree-zipf", Structure::BTree, Draws::Zipfian, "btree with zipfian keys"),
        pairs("b-tree-zipf", Structure::ClrsTree, Draws::Zipfian, "B-tree, values in inner nodes too: the same"),
        pairs("rbtree-zipf", Structure::RbTree, Draws::Zipfian, "rbtree with zipfian keys"),
        row("array-stream", Kind::Array(Array(Order::Stream)), "array: lines overwritten in order, eight a transaction"),
        row("array-random", Kind::Array(Array(Order::Random)), "array: lines overwritten at random, eight a transaction"),
        row("queue", Kind::Queue(Items), "queue: one enqueue or one dequeue per transaction, half of each"),
        row("words", Kind::FewWords(FewWords), "a few words, several read and written per transaction"),
        row(
            "tpcc",
            Kind::Tpcc(Tpcc),
            "TPC-C: 45 % NewOrder, 43 % Payment, 4 % each OrderStatus, Delivery, StockLevel",
        ),
        row(
            "tatp",
            Kind::Tatp(Tatp),
            "TATP: 80 % reads, 16 % updates, 2 % insertions, 2 % deletions of a home location register",
        ),
        row(
            "linkbench",
            Kind::Linkbench(Linkbench(Mix::Published)),
            "LinkBench as published: 51 % link lists, 18 % other reads, 31 % writes of a graph",
        ),
        row(
            "linkbench-archapt",
            Kind::Linkbench(Linkbench(Mix::Archapt)),
            "LinkBench with Archapt's shares: 64 % reads, 16 updates, 12 insertions, 4 scans, \
             4 deletions",
        ),
    ];
    TABLE
}

/// Every workload that an oracle can judge: what the runtime's campaigns run.
pub fn judged_workloads() -> impl Iterator<Item = &'static Workload> {
    workloads().iter().filter(|workload| workload.stands_alone().is_none())
}

const MB: u64 = 1 << 20;
/// String elements: four lines.
const STRING: u64 = 256;

/// Which of the keys each worker draws from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Keys {
    /// All of them.
    #[default]
    Common,
    /// Its own share of them, of this number: workers with consecutive numbers never meet.
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
    /// Items that a transaction overwrites (array).
    pub batch: u64,
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

pub(crate) fn keys_in_words(keys: Keys) -> String {
    match keys {
        Keys::Common => String::new(),
        Keys::Apart(shares) => format!(", {shares} shares of the keys"),
        Keys::One => ", one hot key".to_owned(),
    }
}

/// The fewest keys of a workload on the timed machine.
const KEYS_MIN: u64 = 20;

impl Workload {
    /// The workload of that name: a row of the table, or a file that was [opened](Self::open).
    pub fn named(name: &str) -> Option<&'static Self> {
        let of_table = workloads().iter().find(|workload| workload.name == name);
        of_table.or_else(|| crate::own::opened(name))
    }

    /// Why no oracle can judge what it leaves; nothing where one can.
    pub fn stands_alone(&self) -> Option<&'static str> {
        self.kind.stands_alone()
    }

    /// How many swaps a transaction makes, where that is all it does.
    pub fn swaps(&self) -> Option<Swaps> {
        match self.kind {
            Kind::Swap(_) => Some(Swaps::One),
            Kind::Swaps(_) => Some(Swaps::Eight),
            _ => None,
        }
    }

    /// The published scale: a million records of 1 KB, a million words, 100 k keys of 200 k; 1,000 items; four
    /// words on one line; one warehouse of 10 districts with 3,000 customers each and 100,000
    /// items; ten million nodes.
    pub fn scale(&self) -> Scale {
        self.kind.scale(Scale {
            records: 1,
            keys: Keys::Common,
            operations: 0,
            fields: 10,
            field_bytes: 100,
            value_bytes: 8,
            structure: Structure::HashMap,
            placement: Placement::Together,
            fields_placed: None,
            words_per_line: LINE_BYTES / 8,
            districts: 10,
            customers: 3_000,
            items: 100_000,
            batch: 1,
        })
    }

    /// A scale whose data is loaded in less than a second: 50,000 records (YCSB), 300 customers a
    /// district and 10,000 items (TPC-C), 50,000 nodes (LinkBench), the others as published.
    pub fn quick_scale(&self) -> Scale {
        self.kind.quick_scale(self.scale())
    }

    /// As published, but where that would take some twenty gigabytes in the pool of each scheme
    /// (LinkBench: half a million nodes).
    pub fn full_scale(&self) -> Scale {
        self.kind.full_scale(self.scale())
    }

    /// Nanoseconds that a transaction takes at least on average, under whichever scheme.
    pub fn tx_ns_min(&self) -> u64 {
        self.kind.tx_ns_min()
    }

    /// A scale of about `keys` keys: what crash tests run. Dictionaries start with half of the
    /// keys that they are drawn from; TPC-C has one warehouse with fewer of everything; a node of
    /// LinkBench is some five rows with its links and their counts.
    pub fn scale_of(&self, keys: u64) -> Scale {
        self.kind.scale_of(keys, self.scale())
    }

    /// The scale in words, as results state it.
    pub fn describe(&self, scale: &Scale) -> String {
        self.kind.describe(self.name, scale)
    }

    /// Whether the workload can have this scale.
    ///
    /// # Errors
    /// [`BadScale`] names what it cannot have.
    pub fn check(&self, scale: &Scale) -> Result<(), BadScale> {
        let bad = |(what, value, wanted)| BadScale { workload: self.name, what, value, wanted };
        match (self.kind.keys_apart(), scale.keys) {
            (_, Keys::Common) | (Some(_), Keys::One) => {}
            (None, _) => {
                let wanted = "sps1, sps8, hash, btree and rbtree can have keys apart, or one";
                return Err(bad(("keys to draw from", scale.records, wanted)));
            }
            (Some(needed), Keys::Apart(shares)) => {
                let shares = u64::from(shares);
                if shares == 0 || scale.records / shares < needed {
                    let wanted = "1 to one for each key, or two";
                    return Err(bad(("shares of the keys", shares, wanted)));
                }
            }
        }
        self.kind.check(scale).map_err(bad)
    }

    /// Bytes that the blocks of the workload need at most, rounding to size classes included, its
    /// expected insertions as well; a pool wants its own headers, logs and slack beside them.
    pub fn heap_bytes(&self, scale: &Scale) -> u64 {
        let bytes = self.kind.heap_bytes(scale);
        // Scattered values begin up to 48 bytes into their blocks, and keys have blocks of theirs.
        if scale.placement == Placement::Scattered { bytes + bytes / 2 } else { bytes }
    }

    /// Whether the items of a transaction can be chosen ([`Scale::batch`]).
    pub fn has_batches(&self) -> bool {
        self.kind.has_batches()
    }

    /// Bytes of its data on the timed machine as published, or ours where nothing is.
    pub fn footprint(&self) -> u64 {
        self.kind.on_machine().footprint
    }

    /// Keys in `footprint` bytes; `None` for a workload that stands alone, which goes by its bytes.
    pub fn keys_in(&self, footprint: u64) -> Option<u64> {
        self.stands_alone().is_none().then(|| self.keys_of(footprint))
    }

    /// Bytes of `keys` keys; `None` for a workload that stands alone.
    pub fn footprint_of(&self, keys: u64) -> Option<u64> {
        if let Some(work) = self.own() {
            return Some(work.memory_bytes());
        }
        let key_bytes = self.kind.on_machine().key_bytes;
        self.stands_alone().is_none().then(|| keys.max(KEYS_MIN) * key_bytes)
    }

    /// The scale of a part of `footprint` bytes on the timed machine.
    pub(crate) fn scale_in(&self, footprint: u64) -> Scale {
        // Programs of the machine are those of the papers: blocks that are allocated and freed.
        let scale = self.laid_out(&self.scale_of(self.keys_of(footprint)), Layout::Plain);
        Scale { operations: scale.records, ..scale }
    }

    fn keys_of(&self, footprint: u64) -> u64 {
        if let Some(work) = self.own() {
            return work.words();
        }
        let keys_min = if self.stands_alone().is_some() { 0 } else { KEYS_MIN };
        (footprint / self.kind.on_machine().key_bytes).max(keys_min)
    }
}

/// Of a number outside of what is possible.
pub(crate) fn within(
    what: &'static str,
    value: u64,
    possible: std::ops::RangeInclusive<u64>,
    wanted: &'static str,
) -> Result<(), Unfit> {
    if possible.contains(&value) { Ok(()) } else { Err((what, value, wanted)) }
}
