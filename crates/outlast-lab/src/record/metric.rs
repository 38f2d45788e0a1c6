//! The metrics that records have: names and units, which others rely on.

/// A metric's name and unit. Names are stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Metric {
    /// As records spell it.
    pub name: &'static str,
    /// As records spell it.
    pub unit: &'static str,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $unit:literal;)*) => {
        impl Metric {
            $($(#[$doc])* pub const $constant: Metric = Metric { name: $name, unit: $unit };)*
        }
    };
}

metrics! {
    /// Transactions per second of wall time.
    THROUGHPUT = "throughput", "tx/s";
    /// Transactions per CPU second of the whole process.
    THROUGHPUT_CPU = "throughput_cpu", "tx/s";
    /// Transactions per second over those of SQLite's write-ahead log, in the same rounds.
    SPEED_OVER_WAL = "speed_over_wal", "ratio";
    /// Commands that a server answers per second.
    COMMANDS = "commands", "1/s";
    /// CPU time of a server's process for a command.
    SERVER_CPU = "server_cpu", "us";
    /// Transactions per CPU second over those of another (the class), in the same rounds.
    RELATIVE_SPEED = "relative_speed", "ratio";
    /// Transactions per second of wall time over those with fewer threads, in the same rounds.
    SCALING = "scaling", "ratio";
    /// The same by CPU seconds of the whole process.
    SCALING_CPU = "scaling_cpu", "ratio";
    /// Transactions of the thread that ran the fewest over an even share of them.
    LEAST_SHARE = "least_share", "ratio";
    /// Wall time of a transaction.
    TX_TIME = "tx_time", "ns";
    /// Median time from call to acknowledgement, which is durable (see `ack`).
    LATENCY_P50 = "latency_p50", "ns";
    /// 99th percentile of the same.
    LATENCY_P99 = "latency_p99", "ns";
    /// Median time from a transaction's arrival to its acknowledgement, in an open loop.
    OPEN_LATENCY_P50 = "open_latency_p50", "ns";
    /// 99th percentile of the same.
    OPEN_LATENCY_P99 = "open_latency_p99", "ns";
    /// Transactions answered per second of wall time in an open loop.
    OPEN_THROUGHPUT = "open_throughput", "tx/s";
    /// Lines flushed per transaction.
    FLUSHED_LINES = "flushed_lines", "lines/tx";
    /// Fences per transaction.
    FENCES = "fences", "fences/tx";
    /// Lines streamed past the caches per transaction.
    STREAMED_LINES = "streamed_lines", "lines/tx";
    /// Calls per transaction that wait for the device.
    SYNCS = "syncs", "syncs/tx";
    /// Throughput over that of an append and one sync, in the same rounds.
    FLOOR_SHARE = "floor_share", "ratio";
    /// Bytes of a database's files that are allocated.
    DISK_BYTES = "disk_bytes", "B";
    /// Those of them that its log takes for good.
    DISK_LOG_BYTES = "disk_log_bytes", "B";
    /// The others over the bytes of keys and values.
    SPACE_RATIO = "space_ratio", "ratio";
    /// All of them over the bytes of keys and values.
    SPACE_RATIO_ALL = "space_ratio_all", "ratio";
    /// From opening a database whose last process was killed to its first value.
    FIRST_OPENING = "first_opening", "ms";
    /// Dirty bytes over the bytes of flushed lines.
    DIRTINESS = "dirtiness", "ratio";
    /// Flushes of the heap's lines, on an emulated cache.
    DATA_FLUSHES = "data_flushes", "lines/tx";
    /// Those of them that found the line dirty.
    DIRTY_DATA_FLUSHES = "dirty_data_flushes", "lines/tx";
    /// Flushes of log lines, on an emulated cache.
    LOG_FLUSHES = "log_flushes", "lines/tx";
    /// Dirty lines of the heap that left the emulated cache by themselves.
    DATA_EVICTIONS = "data_evictions", "lines/tx";
    /// Flushes of the heap's lines that undo logging issues and this scheme does not: on the same
    /// layout, or on that of the class.
    DATA_FLUSHES_SAVED = "data_flushes_saved", "%";
    /// The same, of those that find the line dirty.
    DIRTY_DATA_FLUSHES_SAVED = "dirty_data_flushes_saved", "%";
    /// As `data_flushes_saved`, with the lines of checksums and of the log.
    ALL_FLUSHES_SAVED = "all_flushes_saved", "%";
    /// As `dirty_data_flushes_saved`, with the lines of checksums and of the log.
    ALL_DIRTY_FLUSHES_SAVED = "all_dirty_flushes_saved", "%";
    /// Flushes of lines of checksums, on an emulated cache.
    SUMS_FLUSHES = "sums_flushes", "lines/tx";
    /// Those of them that found the line dirty.
    DIRTY_SUMS_FLUSHES = "dirty_sums_flushes", "lines/tx";
    /// As `data_flushes_saved`, with the lines of checksums.
    SUMMED_FLUSHES_SAVED = "summed_flushes_saved", "%";
    /// As `dirty_data_flushes_saved`, with the lines of checksums.
    DIRTY_SUMMED_FLUSHES_SAVED = "dirty_summed_flushes_saved", "%";
    /// Of the flushes of undo logging on an unaligned layout, those saved by the layout (the class
    /// says which are counted).
    SAVED_BY_COALESCING = "saved_by_coalescing", "%";
    /// The others saved: those that are skipped.
    SAVED_BY_SKIPPING = "saved_by_skipping", "%";
    /// Stored bytes over the bytes of those flushed lines that were dirty in the emulated cache.
    DIRTINESS_FOUND = "dirtiness_found", "ratio";
    /// As `dirtiness`, with the log's lines.
    DIRTINESS_ALL = "dirtiness_all", "ratio";
    /// The share of flushes of the heap's lines, by the number of words stored to (the class).
    FLUSHES_BY_WORDS = "flushes_by_words", "%";
    /// Flushes of the heap's lines that undo logging saves by what lies beside what.
    COALESCING_SAVED = "coalescing_saved", "%";
    /// Memory that write-back by age takes.
    HISTORY_BYTES = "history_bytes", "B";
    /// The share of touched blocks, by the number of transactions that touch them (the class).
    REUSE = "reuse", "%";
    /// Throughput below that of `none`.
    THROUGHPUT_LOSS = "throughput_loss", "%";
    /// Throughput above that of another scheme (the class).
    THROUGHPUT_GAIN = "throughput_gain", "%";
    /// Throughput above that of undo logging, with a memory (the class) of the timed machine.
    GAIN_OVER_UNDO = "gain_over_undo", "%";
    /// 99th percentile of latency below that of another scheme (the class).
    LATENCY_P99_SAVED = "latency_p99_saved", "%";
    /// The share of flushes and fences in what a scheme adds to a transaction.
    PERSISTENCE_SHARE = "persistence_share", "%";
    /// Throughput with `clwb` above that with `clflushopt`.
    CLWB_GAIN = "clwb_gain", "%";
    /// Opening a pool that has crashed with a full log: mapping, recovery, volatile parts.
    RECOVERY_TIME = "recovery_time", "ms";
    /// Transactions that this opening has repeated or put back.
    RECOVERED = "recovered", "count";
    /// Time of one object of the micro-benchmark; the scheme is what is done to it.
    OBJECT_TIME = "object_time", "ns";
    /// Lines flushed for it.
    OBJECT_LINES = "object_lines", "lines";
    /// Time saved against flushing the object.
    OBJECT_TIME_SAVED = "object_time_saved", "%";
    /// Time of a transaction beyond that of `none` in the same round.
    PERSISTENCE_COST = "persistence_cost", "ns";
    /// The same, over that of the better of the peers in the same round.
    PERSISTENCE_COST_RATIO = "persistence_cost_ratio", "ratio";
    /// As `persistence_cost`, in CPU time of the whole process.
    PERSISTENCE_COST_CPU = "persistence_cost_cpu", "ns";
    /// As `persistence_cost_ratio`, in CPU time of the whole process.
    PERSISTENCE_COST_RATIO_CPU = "persistence_cost_ratio_cpu", "ratio";
    /// The part of a transaction spent on making log records.
    TIME_LOG = "time_log", "ns";
    /// The part spent on flushing and streaming.
    TIME_FLUSH = "time_flush", "ns";
    /// The part spent waiting in fences.
    TIME_FENCE = "time_fence", "ns";
    /// The part that the work itself takes.
    TIME_REST = "time_rest", "ns";
    /// Time of a number of lines with one fence; the scheme is the pattern.
    FLOOR = "floor", "ns";
    /// What the floor predicts for a transaction's flushed lines and fences.
    FLOOR_PREDICTED = "floor_predicted", "ns";
    /// The cost of persistence over what the floor predicts.
    FLOOR_DISTANCE = "floor_distance", "ratio";
    /// Thread schedules tried.
    SCHEDULES = "schedules", "count";
    /// Crash points tried.
    CRASH_POINTS = "crash_points", "count";
    /// Images recovered and judged.
    IMAGES_VERIFIED = "images_verified", "count";
    /// How many of them differ.
    IMAGES_DISTINCT = "images_distinct", "count";
    /// Images recovered and judged per CPU second.
    VERIFY_RATE = "verify_rate", "images/s";
    /// Pages of 4 KiB that a core of this machine sums byte by byte.
    PAGES_SUMMED = "pages_summed", "pages/s";
    /// Images verified for each page that the same core sums.
    VERIFIED_OVER_PAGES = "verified_over_pages", "ratio";
    /// Acknowledged transactions lost.
    LOST = "lost", "count";
    /// Transactions found in part.
    TORN = "torn", "count";
    /// Damage that recovery found and could not correct.
    UNCORRECTABLE = "uncorrectable", "count";
    /// Objects whose durable bytes were older at a crash than what was acknowledged.
    STALE_OBJECTS = "stale_objects", "count";
    /// Of these, made right by recovery from live log records.
    REPAIRED_BY_LOG = "repaired_by_log", "count";
    /// The others, whose log was gone: the I-obj of Archapt's Table IV.
    INCONSISTENT_OBJECTS = "inconsistent_objects", "count";
    /// Stale objects that recovery itself found to be wrong.
    DETECTED = "detected", "count";
    /// Of the detected, put right from checksums.
    CORRECTED = "corrected", "count";
    /// Objects that are wrong after a recovery that complained of nothing.
    SILENTLY_WRONG = "silently_wrong", "count";
    /// Pools that recovery gave up, or that it left with an unsound allocator.
    REFUSED = "refused", "count";
    /// Of one planted bug (1 or 0), or of all: found by the checker.
    PLANTED_KILLED = "planted_killed", "count";
    /// Planted bugs tried.
    PLANTED_TOTAL = "planted_total", "count";
    /// Images judged until a planted bug was found.
    IMAGES_TO_KILL = "images_to_kill", "count";
    /// Of one control (1 or 0): flagged though nothing is wrong.
    CONTROL_FLAGGED = "control_flagged", "count";
    /// Simulated instructions per CPU second of the host.
    SIM_SPEED = "sim_speed", "instr/s";
    /// Instructions per cycle.
    IPC = "ipc", "instr/cycle";
    /// Instructions that a simulated run retired.
    INSTRUCTIONS = "instructions", "count";
    /// Core cycles that it took.
    CYCLES = "cycles", "count";
    /// Lookups that found their line; the class is the level.
    CACHE_HITS = "cache_hits", "count";
    /// Lookups that did not; the class is the level.
    CACHE_MISSES = "cache_misses", "count";
    /// Page walks.
    PAGE_WALKS = "page_walks", "count";
    /// Branches predicted wrongly.
    MISPREDICTED = "mispredicted", "count";
    /// Lines read from simulated memory.
    MEMORY_READS = "memory_reads", "count";
    /// Lines that residual energy has to write at a crash; the class is the mean or the most.
    DRAIN_LINES = "drain_lines", "count";
    /// The time of the memory for them; the class is the mean or the most.
    DRAIN_TIME = "drain_time", "ns";
    /// The energy that takes; the class is the mean or the most.
    DRAIN_ENERGY = "drain_energy", "nJ";
    /// Lines written to simulated memory; the class is the cause.
    MEMORY_WRITES = "memory_writes", "count";
    /// Lines written to simulated memory per transaction; the class is the cause.
    MEMORY_WRITES_TX = "memory_writes_tx", "lines/tx";
    /// Instructions per transaction in a simulated run.
    INSTRUCTIONS_TX = "instructions_tx", "instr/tx";
    /// Accesses that found their row open.
    ROW_HITS = "row_hits", "count";
    /// Accesses that found no row open in their bank.
    ROW_MISSES = "row_misses", "count";
    /// Accesses that found another row open.
    ROW_CONFLICTS = "row_conflicts", "count";
    /// Time from a read's arrival at the memory controller to its last data: the mean, or the
    /// class.
    READ_LATENCY = "read_latency", "ns";
    /// Time from a write's arrival at the memory controller until its cells are written: the mean,
    /// or the class.
    WRITE_LATENCY = "write_latency", "ns";
    /// Time from a line's leaving the caches, or the scheme, until it is durable: by cause, the
    /// mean or what else the class says.
    PERSIST_LATENCY = "persist_latency", "ns";
    /// Requests that waited in the memory's queues, on average over time; the class is the queue.
    QUEUE_OCCUPANCY = "queue_occupancy", "requests";
    /// The most that waited in one channel.
    QUEUE_MAX = "queue_max", "count";
    /// Cycles in which a channel's queue took no more, of all channels.
    QUEUE_FULL_CYCLES = "queue_full_cycles", "count";
    /// Dynamic energy of the memory, or a part of it (the class), where a source gives energies.
    MEMORY_ENERGY = "memory_energy", "nJ";
    /// Bytes read and written, in 10^9 a second.
    BANDWIDTH = "bandwidth", "GB/s";
    /// Cycles in which a core's oldest instruction was a fence that waited, of all cores.
    FENCE_CYCLES = "fence_cycles", "count";
    /// Time in which the line of a hardware log that is written most wears out without wear
    /// levelling, at the rate of the run, where a source says what a line bears.
    LOG_LIFETIME = "log_lifetime", "days";
    /// Events of the simulator per simulated instruction.
    SIM_EVENTS = "sim_events", "events/instr";
    /// Ticks of simulated cores per simulated instruction.
    SIM_TICKS = "sim_ticks", "ticks/instr";
    /// Cycles in which a core retired nothing, of all cores; the class is the cause.
    LOST_CYCLES = "lost_cycles", "count";
    /// Lines that a prefetcher asked for.
    PREFETCHES = "prefetches", "count";
    /// Energy of the processor by a simple activity model.
    PROCESSOR_ENERGY = "processor_energy", "nJ";
    /// Throughput over that of plain memory, which promises nothing, on the same work.
    SPEED_OVER_PLAIN = "speed_over_plain", "ratio";
    /// Instructions of each core in an epoch.
    EPOCH_INSTRUCTIONS = "epoch_instructions", "instr";
    /// Epochs that persisted.
    EPOCHS_PERSISTED = "epochs_persisted", "count";
    /// Lookups in the memory's address indirection, where it is charged.
    AIT_LOOKUPS = "ait_lookups", "count";
    /// Bytes written to simulated memory over the bytes that transactions stored.
    WRITE_AMPLIFICATION = "write_amplification", "ratio";
    /// Lines read from simulated memory per transaction; the class is the cause.
    MEMORY_READS_TX = "memory_reads_tx", "lines/tx";
    /// Dynamic energy of the memory per transaction.
    MEMORY_ENERGY_TX = "memory_energy_tx", "nJ/tx";
    /// Durable writes of a line; the class is which of the lines that were written.
    LINE_WRITES = "line_writes", "count";
    /// How unevenly these wear: 0 where all are written alike, towards 1 where one takes all writes.
    WEAR_GINI = "wear_gini", "ratio";
    /// Memory that a scheme takes beside the data.
    EXTRA_SPACE = "extra_space", "B";
    /// Lines that an executed recovery read: the median of several crashes.
    RECOVERY_READS = "recovery_reads", "lines";
    /// Lines that it wrote.
    RECOVERY_WRITES = "recovery_writes", "lines";
    /// Time of the simulated memory for these, as fast as it takes requests.
    RECOVERY_MEMORY_TIME = "recovery_memory_time", "ns";
    /// CPU time of the host that executed it.
    RECOVERY_HOST_TIME = "recovery_host_time", "ns";
    /// What one operation takes; the workload is the operation.
    PRIMITIVE = "primitive", "ns";
}

impl Metric {
    /// What a crash of a scheme that promises durability must not leave.
    pub const HARM: [Metric; 5] =
        [Self::LOST, Self::TORN, Self::UNCORRECTABLE, Self::SILENTLY_WRONG, Self::REFUSED];

    /// Whether it is one of them.
    pub fn is_harm(self) -> bool {
        Self::HARM.contains(&self)
    }
}
