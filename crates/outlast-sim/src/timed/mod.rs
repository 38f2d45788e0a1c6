//! The timed machine: cores, translation, caches in time, memory controller, device.
//!
//! It drives the same cache state as the atomic driver. Time is the core's clock; what happens
//! later stands in an event queue, and nothing ticks that has nothing to do. `docs/simulator.md`
//! says what is modelled and what is not.
//!
//! - [`MachineConfig`] says what machine; [`PRESETS`] and TOML files name some.
//! - [`System`] runs it, with a [`Scheme`] in its ports and a [`Source`] of instructions for
//!   each core: a [`Stream`], recorded operations ([`LaneOps`]), a trace.
//! - [`RunStats`] is what it counted, [`TimedJournal`] what became durable when.

mod branch;
mod causes;
mod config;
mod controller;
mod core;
mod drain;
mod energy;
mod event;
mod instr;
mod journal;
mod lookup;
mod machine;
mod memory_stats;
mod memory_system;
mod miss;
mod ops;
mod placed;
mod ports;
mod prefetch;
mod primitives;
mod program;
mod requests;
mod scan;
mod set_assoc;
mod slab;
mod stats;
mod stream;
mod system;
mod time;
mod timeline;
mod tlb;
mod trace;
mod uncore;
mod warm;
mod wheel;

pub use causes::{ReadCause, ReadsByCause, WritesByCause};
pub use config::{
    AdrConfig, BitEnergy, BufferConfig, BufferMode, Bytes, Clock, CoreConfig, CoreKind,
    DEFAULT_MACHINE, DramConfig, EnergyConfig, ExtrasConfig, Field, KEYS, LevelConfig,
    MEMORY_PRESETS, MachineConfig, MachineError, Mapping, MemoryConfig, PRESETS, PagePolicy,
    Preset as MachinePreset, Rate, Refresh, Scheduling, Span, TlbConfig,
};
pub use core::PAGE_TABLE;
pub use drain::DrainCursor;
pub use instr::{ACCESSES_MAX, Batch, Instr, InstrKind, Mark, Source, SourceError};
pub use journal::{EpochEnd, TimedJournal};
pub use lookup::{Lookups, Waiting};
pub use machine::Machine;
pub use memory_stats::{CycleHistogram, MemoryEnergy, PersistTimes, QueueStats};
pub use ops::{LaneOps, instructions_of, rest_of};
pub use placed::Placed;
pub use ports::{
    Answer, Asked, Block, Copied, Indirection, Kept, KeptStats, LevelFlush, NonPers, Outbox,
    ReadSeen, ReadTicket, RegisterSave, Route, Scheme, SchemeWrite, StoreSeen, WriteRoute,
    WriteSeen, WriteTicket,
};
pub use primitives::{Primitive, PrimitiveError, primitives};
pub use program::{ProgramMemory, ProgramPlace, ProgramSource};
pub use requests::{MemoryRequest, REQUEST_BYTES_MAX, REQUEST_CYCLE_MAX, Replay, replay};
pub use set_assoc::SetAssoc;
pub use stats::{CoreStats, Counter, Lost, LostCycles, MemoryStats, RunStats};
pub use stream::{InTransactions, Pattern, Stream};
pub use system::{Ended, RunError, Setup, System};
pub use time::Cycle;
pub use timeline::Timeline;
pub use trace::TraceSource;
pub use warm::Warmed;
