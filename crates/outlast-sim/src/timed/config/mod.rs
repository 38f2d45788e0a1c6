//! The options of the timed machine: typed values, read from TOML presets and from
//! `--set key=value`, every quantity with its unit.

mod check;
mod error;
mod preset;
mod value;

pub use error::MachineError;
pub use preset::{DEFAULT_MACHINE, MEMORY_PRESETS, PRESETS, Preset};
pub use value::{
    BitEnergy, BufferMode, Bytes, Clock, CoreKind, Field, Mapping, PagePolicy, Rate, Refresh,
    Scheduling, Span,
};

use crate::config::Inclusion;
use crate::policy::Policy;
use error::unknown_key;
use value::Value;

/// The cores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreConfig {
    /// In order or out of order.
    pub kind: CoreKind,
    /// How many there are.
    pub count: u32,
    /// Instruction streams that share a core: 1, or 2 out of order.
    pub threads: u32,
    /// The clock that all cycles count.
    pub clock: Clock,
    /// Instructions that enter the reorder buffer in a cycle.
    pub dispatch_width: u32,
    /// Instructions that begin execution in a cycle.
    pub issue_width: u32,
    /// Instructions that leave the reorder buffer in a cycle.
    pub retire_width: u32,
    /// Loads that begin in a cycle.
    pub load_ports: u32,
    /// Stores that leave the store buffer in a cycle.
    pub store_ports: u32,
    /// Entries of the reorder buffer.
    pub rob: u32,
    /// Entries of the load queue.
    pub load_queue: u32,
    /// Entries of the store queue, which is the store buffer too.
    pub store_queue: u32,
    /// Cycles from a mispredicted branch's execution to the next dispatch.
    pub mispredict_penalty: Span,
    /// Lines that may be on their way from the caches after flushes of this core.
    pub flushes: u32,
    /// Senior stores behind the first whose lines are fetched ahead.
    pub store_prefetch: u32,
    /// Two-bit counters of the branch predictor: a power of two.
    pub predictor_counters: u32,
}

/// The translation look-aside buffers of a core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlbConfig {
    /// Bytes of a page: 4 KiB or 2 MiB, or 0 for a machine that translates nothing.
    pub page: Bytes,
    /// Sets of the first level.
    pub l1_sets: u32,
    /// Ways of the first level.
    pub l1_ways: u32,
    /// Sets of the second level.
    pub l2_sets: u32,
    /// Ways of the second level.
    pub l2_ways: u32,
    /// Time of a second-level lookup.
    pub l2_latency: Span,
    /// Time of a walk's upper levels, which are held in the walker.
    pub walk_latency: Span,
    /// Walks at the same time.
    pub walkers: u32,
}

/// One level of caches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelConfig {
    /// Capacity; 0 for a second level means that there is none.
    pub size: Bytes,
    /// Lines in a set.
    pub ways: u32,
    /// Which line leaves.
    pub policy: Policy,
    /// Time of a lookup here, on top of the levels above.
    pub latency: Span,
    /// Misses at the same time. The second level has as many as the first.
    pub mshrs: u32,
}

/// Features of caches beside their levels; but for `scan_tags`, all of them are off in the presets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtrasConfig {
    /// Lines that a stride prefetcher of the first level fetches ahead; 0 for no prefetcher.
    pub prefetch: u32,
    /// Banks of a first level, each with one access a cycle; 0 for as many as are needed.
    pub l1_banks: u32,
    /// Banks of the last level; 0 for as many as are needed.
    pub llc_banks: u32,
    /// How long an access keeps a bank of the last level.
    pub llc_bank_busy: Span,
    /// Capacity of the last level for each core; 0 where it is as large for any number.
    pub llc_per_core: Bytes,
    /// Whether stores go through the first level to the next at once.
    pub write_through: bool,
    /// Whether locked instructions are performed in the last level.
    pub llc_atomics: bool,
    /// Tags that a scheme's scan reads in a cycle, during which nothing else is looked up; 0 for a
    /// scan that takes no time.
    pub scan_tags: u32,
}

/// Residual energy at a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdrConfig {
    /// Lines that it writes of those that a scheme keeps outside the array; 0 for all.
    pub drain_lines: u32,
}

/// Costs of the processor's activities, in picojoule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnergyConfig {
    /// An instruction.
    pub instr_pj: u32,
    /// A cycle of a core, whatever happens in it.
    pub static_pj: u32,
    /// Eight bytes of the first level.
    pub l1_pj: u32,
    /// Eight bytes of the second level.
    pub l2_pj: u32,
    /// Eight bytes of the last level.
    pub llc_pj: u32,
}

/// The memory and its controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryConfig {
    /// The clock that the timings below count.
    pub clock: Clock,
    /// Channels, each with queues of its own.
    pub channels: u32,
    /// Ranks of a channel.
    pub ranks: u32,
    /// Bank groups of a rank.
    pub groups: u32,
    /// Banks of a group.
    pub banks: u32,
    /// Bytes of a row.
    pub row: Bytes,
    /// Which address bits choose what.
    pub mapping: Mapping,
    /// In which order requests are served.
    pub scheduling: Scheduling,
    /// The treatment of rows after an access.
    pub page: PagePolicy,
    /// Entries of a channel's read queue.
    pub read_queue: u32,
    /// Requests that each bank has a queue for, behind the channel's two; 0 for none. Banks with
    /// queues take turns.
    pub bank_queue: u32,
    /// Column commands of a row after which it is closed as soon as timing allows when an older
    /// request wants another row of the bank; 0 for no limit.
    pub row_hits: u32,
    /// Entries of a channel's write queue.
    pub write_queue: u32,
    /// Writes at which reads have to wait.
    pub drain_high: u32,
    /// Writes at which they no longer have to.
    pub drain_low: u32,
    /// Writes from which on an idle channel serves them.
    pub drain_idle: u32,
    /// Whether the write queue is in the persistence domain.
    pub adr: bool,
    /// Where it is not: whether a line is durable when its row's buffer has it, or when its cells
    /// are written.
    pub row_durable: bool,
    /// The scope of a refresh.
    pub refresh: Refresh,
    /// Lines on their way from the last cache to the write queues at which fills have to wait.
    pub write_buffer: u32,
    /// Time of a request's way to the controller, and again of the answer's way back.
    pub path: Span,
    /// Bandwidth of the link to the memory, in each direction.
    pub link: Rate,
    /// Column read to first data.
    pub t_cl: Span,
    /// Column write to first data.
    pub t_cwl: Span,
    /// Activate to column command.
    pub t_rcd: Span,
    /// Precharge to activate.
    pub t_rp: Span,
    /// Activate to precharge.
    pub t_ras: Span,
    /// Data on the bus for one line.
    pub t_burst: Span,
    /// Column commands of different bank groups.
    pub t_ccd_s: Span,
    /// Column commands of one bank group.
    pub t_ccd_l: Span,
    /// Activates of different bank groups.
    pub t_rrd_s: Span,
    /// Activates of one bank group.
    pub t_rrd_l: Span,
    /// Any four activates of a rank.
    pub t_faw: Span,
    /// Last write data to precharge: the time in which cells are written.
    pub t_wr: Span,
    /// Last write data to read, different groups.
    pub t_wtr_s: Span,
    /// Last write data to read, same group.
    pub t_wtr_l: Span,
    /// Read to precharge.
    pub t_rtp: Span,
    /// Bubble between ranks, and between reading and writing.
    pub t_rtrs: Span,
    /// From one refresh to the next; 0 for memory that needs none.
    pub t_refi: Span,
    /// Time of a refresh.
    pub t_rfc: Span,
    /// Refresh of one bank to activate of it.
    pub t_rfc_pb: Span,
    /// Refresh of one bank to activate of another of its rank.
    pub t_rrefd: Span,
    /// Writes that a line's cells bear; 0 where no source says.
    pub endurance: u32,
    /// Energy of a bit read from a row buffer.
    pub row_read: BitEnergy,
    /// Energy of a bit written to a row buffer.
    pub row_write: BitEnergy,
    /// Energy of a bit read from the array.
    pub array_read: BitEnergy,
    /// Energy of a bit written to the array.
    pub array_write: BitEnergy,
}

/// Volatile memory beside the persistent one, with channels of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DramConfig {
    /// Addresses from here on are volatile memory; 0 for a machine that has none.
    pub from: Bytes,
    /// The memory's preset.
    pub memory: Option<MemoryConfig>,
}

/// Volatile memory in front of the persistent one, in channels of `dram.*`: a cache on the memory's side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferConfig {
    /// Its treatment of writes; or that there is none.
    pub mode: BufferMode,
    /// Capacity.
    pub size: Bytes,
    /// Lines in a set.
    pub ways: u32,
    /// Which line leaves.
    pub policy: Policy,
    /// Time of a lookup of its tags, before either memory is read.
    pub lookup: Span,
}

impl BufferConfig {
    /// Whether it has newer bytes than memory.
    pub fn writes_back(&self) -> bool {
        self.mode == BufferMode::WriteBack
    }
}

/// A whole machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineConfig {
    /// The preset or file that it came from, with what was changed.
    pub name: String,
    /// The cores.
    pub core: CoreConfig,
    /// Translation.
    pub tlb: TlbConfig,
    /// First level, private.
    pub l1: LevelConfig,
    /// Second level, private.
    pub l2: LevelConfig,
    /// Last level, shared.
    pub llc: LevelConfig,
    /// How the levels relate.
    pub inclusion: Inclusion,
    /// Lines of a core's write-combining buffer.
    pub wc_lines: u32,
    /// Time to ask another core's caches, on top of the last level's.
    pub snoop: Span,
    /// Prefetching, banks, writing through.
    pub extras: ExtrasConfig,
    /// Costs of activities.
    pub energy: EnergyConfig,
    /// Residual energy.
    pub adr: AdrConfig,
    /// The memory.
    pub memory: MemoryConfig,
    /// The volatile memory beside it.
    pub dram: DramConfig,
    /// The buffer in front of it.
    pub buffer: BufferConfig,
}

/// The table of keys: name, field, and what it is.
macro_rules! keys {
    ($($key:literal => $($field:ident).+, $about:literal;)*) => {
        /// Every key of a configuration, with what it is in a few words.
        pub const KEYS: &[(&str, &str)] = &[$(($key, $about)),*];

        impl MachineConfig {
            /// Sets one value. `origin` says where it was asked for.
            ///
            /// # Errors
            /// When there is no such key, or the value is not of its kind.
            pub fn set(&mut self, origin: &str, key: &str, text: &str) -> Result<(), MachineError> {
                match key {
                    $($key => put(&mut self.$($field).+, origin, key, text),)*
                    "memory.preset" => self.set_memory(origin, text),
                    "dram.preset" => self.set_dram_memory(origin, text),
                    _ if key.starts_with("dram.") => self.set_dram(origin, key, text),
                    _ => Err(unknown_key(origin, key)),
                }
            }

            /// The value of a key, as it would be set; `None` where there is no such key.
            pub fn get(&self, key: &str) -> Option<String> {
                match key {
                    $($key => Some(Value::show(&self.$($field).+)),)*
                    _ => None,
                }
            }
        }
    };
}

keys! {
    "core.kind" => core.kind, "inorder or ooo";
    "core.count" => core.count, "number of cores";
    "core.threads" => core.threads, "instruction streams of a core: 1 or 2";
    "core.clock" => core.clock, "core clock";
    "core.dispatch_width" => core.dispatch_width, "instructions dispatched a cycle";
    "core.issue_width" => core.issue_width, "instructions begun a cycle";
    "core.retire_width" => core.retire_width, "instructions retired a cycle";
    "core.load_ports" => core.load_ports, "loads begun a cycle";
    "core.store_ports" => core.store_ports, "stores drained a cycle";
    "core.rob" => core.rob, "reorder buffer entries";
    "core.load_queue" => core.load_queue, "load queue entries";
    "core.store_queue" => core.store_queue, "store queue and store buffer entries";
    "core.mispredict_penalty" => core.mispredict_penalty, "refill after a wrong branch";
    "core.flushes" => core.flushes, "flushes under way";
    "core.store_prefetch" => core.store_prefetch, "stores whose lines are fetched ahead";
    "core.predictor_counters" => core.predictor_counters, "branch predictor counters";
    "tlb.page" => tlb.page, "page size";
    "tlb.l1_sets" => tlb.l1_sets, "sets of the first level";
    "tlb.l1_ways" => tlb.l1_ways, "ways of the first level";
    "tlb.l2_sets" => tlb.l2_sets, "sets of the second level";
    "tlb.l2_ways" => tlb.l2_ways, "ways of the second level";
    "tlb.l2_latency" => tlb.l2_latency, "second-level lookup";
    "tlb.walk_latency" => tlb.walk_latency, "upper levels of a walk";
    "tlb.walkers" => tlb.walkers, "walks at the same time";
    "l1.size" => l1.size, "capacity of each first level";
    "l1.ways" => l1.ways, "ways";
    "l1.policy" => l1.policy, "replacement";
    "l1.latency" => l1.latency, "lookup";
    "l1.mshrs" => l1.mshrs, "misses at the same time";
    "core.instr_pj" => energy.instr_pj, "energy of an instruction, pJ";
    "core.static_pj" => energy.static_pj, "energy of a core's cycle, pJ";
    "l1.access_pj" => energy.l1_pj, "energy of eight bytes, pJ";
    "l2.access_pj" => energy.l2_pj, "energy of eight bytes, pJ";
    "llc.access_pj" => energy.llc_pj, "energy of eight bytes, pJ";
    "l1.prefetch" => extras.prefetch, "lines prefetched along a stride; 0 for none";
    "l1.banks" => extras.l1_banks, "banks, one access a cycle each; 0 for no limit";
    "l1.write_through" => extras.write_through, "stores reach the next level at once";
    "l2.size" => l2.size, "capacity of each second level; 0 B for none";
    "l2.ways" => l2.ways, "ways";
    "l2.policy" => l2.policy, "replacement";
    "l2.latency" => l2.latency, "lookup, on top of the first level's";
    "llc.size" => llc.size, "capacity of the last level";
    "llc.per_core" => extras.llc_per_core, "capacity for each core in use, in place of size; 0 B: no";
    "llc.ways" => llc.ways, "ways";
    "llc.policy" => llc.policy, "replacement";
    "llc.latency" => llc.latency, "lookup, on top of the levels above";
    "llc.mshrs" => llc.mshrs, "misses at the same time";
    "llc.atomics" => extras.llc_atomics, "locked instructions are performed there";
    "llc.banks" => extras.llc_banks, "banks; 0 for no limit";
    "llc.bank_busy" => extras.llc_bank_busy, "time an access keeps its bank";
    "caches.inclusion" => inclusion, "inclusive or exclusive";
    "caches.wc_lines" => wc_lines, "write-combining lines of a core";
    "caches.scan_tags" => extras.scan_tags, "tags that a scan reads in a cycle; 0: takes no time";
    "caches.snoop" => snoop, "asking another core's caches";
    "adr.drain_lines" => adr.drain_lines, "kept lines drained at a crash; 0: all";
    "dram.from" => dram.from, "where volatile memory begins; 0 B: none";
    "buffer.mode" => buffer.mode, "DRAM before the memory: none, write-through, write-back";
    "buffer.size" => buffer.size, "capacity of that buffer";
    "buffer.ways" => buffer.ways, "ways";
    "buffer.policy" => buffer.policy, "replacement";
    "buffer.lookup" => buffer.lookup, "lookup of its tags, before any memory";
    "memory.clock" => memory.clock, "the clock of the timings";
    "memory.channels" => memory.channels, "channels";
    "memory.ranks" => memory.ranks, "ranks of a channel";
    "memory.groups" => memory.groups, "bank groups of a rank";
    "memory.banks" => memory.banks, "banks of a group";
    "memory.row" => memory.row, "bytes of a row";
    "memory.mapping" => memory.mapping, "address fields, high to low";
    "memory.scheduling" => memory.scheduling, "fcfs or frfcfs";
    "memory.page" => memory.page, "open or closed rows";
    "memory.read_queue" => memory.read_queue, "read queue of a channel";
    "memory.bank_queue" => memory.bank_queue, "queue of a bank, behind; 0 for none";
    "memory.row_hits" => memory.row_hits, "commands of a row, others waiting; 0: any";
    "memory.write_queue" => memory.write_queue, "write queue of a channel";
    "memory.drain_high" => memory.drain_high, "writes at which reads wait";
    "memory.drain_low" => memory.drain_low, "writes at which they go on";
    "memory.drain_idle" => memory.drain_idle, "writes served when idle";
    "memory.adr" => memory.adr, "write queue survives a crash";
    "memory.row_durable" => memory.row_durable, "without adr, row buffers survive one";
    "memory.refresh" => memory.refresh, "all-bank or per-bank";
    "memory.write_buffer" => memory.write_buffer, "lines between caches and write queues";
    "memory.path" => memory.path, "way to the controller, and back";
    "memory.link" => memory.link, "bandwidth of the link, each way";
    "memory.tCL" => memory.t_cl, "read to data";
    "memory.tCWL" => memory.t_cwl, "write to data";
    "memory.tRCD" => memory.t_rcd, "activate to column";
    "memory.tRP" => memory.t_rp, "precharge to activate";
    "memory.tRAS" => memory.t_ras, "activate to precharge";
    "memory.tBURST" => memory.t_burst, "data of one line";
    "memory.tCCD_S" => memory.t_ccd_s, "column to column, other group";
    "memory.tCCD_L" => memory.t_ccd_l, "column to column, same group";
    "memory.tRRD_S" => memory.t_rrd_s, "activate to activate, other group";
    "memory.tRRD_L" => memory.t_rrd_l, "activate to activate, same group";
    "memory.tFAW" => memory.t_faw, "four activates";
    "memory.tWR" => memory.t_wr, "write data to precharge";
    "memory.tWTR_S" => memory.t_wtr_s, "write data to read, other group";
    "memory.tWTR_L" => memory.t_wtr_l, "write data to read, same group";
    "memory.tRTP" => memory.t_rtp, "read to precharge";
    "memory.tRTRS" => memory.t_rtrs, "bus turnaround";
    "memory.tREFI" => memory.t_refi, "refresh interval; 0 ns for none";
    "memory.tRFC" => memory.t_rfc, "refresh time";
    "memory.tRFCpb" => memory.t_rfc_pb, "refresh of one bank";
    "memory.tRREFD" => memory.t_rrefd, "refresh of a bank to activate of another";
    "memory.endurance" => memory.endurance, "writes that a line bears; 0: not given";
    "memory.row_read" => memory.row_read, "row buffer read, energy of a bit";
    "memory.row_write" => memory.row_write, "row buffer write, energy of a bit";
    "memory.array_read" => memory.array_read, "array read, energy of a bit";
    "memory.array_write" => memory.array_write, "array write, energy of a bit";
}

fn put<V: Value>(field: &mut V, origin: &str, key: &str, text: &str) -> Result<(), MachineError> {
    *field = V::parse(text).ok_or_else(|| MachineError::BadValue {
        origin: origin.to_owned(),
        key: key.to_owned(),
        text: text.to_owned(),
        expects: V::EXPECTS.to_owned(),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
