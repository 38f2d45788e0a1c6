//! Workloads as programs over transactions: TPC-C, TATP, LinkBench, YCSB, arrays, swaps, additions
//! and removals, a queue, words.
//!
//! A [`Workload`] comes from the table of [`workloads`]. It loads its data into a pool through
//! any [`Runner`](outlast::Runner), and hands out [`Worker`]s, one for a thread; each draws its
//! operations from its seed and runs each as one transaction. A worker that is given a
//! [`Witness`] reports what its transactions read and wrote as pairs of key and [`Version`];
//! [`Workload::audit`] reads the versions of all keys back from a pool's raw bytes and checks
//! every byte of every value. The two together are what an oracle needs; it is not in here, and
//! nothing in here judges.
//!
//! [`Workload::check_consistency`] asks the same of a running pool, of TPC-C and LinkBench also
//! what must hold of their tables together.
//!
//! [`Bare`] runs transactions as hardware schemes want them and records their operations. What
//! [stands alone](Workload::stands_alone) is run for its stores: no oracle can judge what it leaves.
//!
//! [`Workload::open`] makes a workload of transactions that a file lists: work of one's [`own`].
//!
//! [`Volatile`] is the reference runner: transactions on plain memory, with checks and injected
//! conflicts.
//!
//! ```
//! use outlast_workloads::{Facts, OpKind, Volatile, Workload};
//!
//! let workload = Workload::named("ycsb-a").unwrap();
//! let scale = outlast_workloads::Scale { records: 100, ..workload.scale() };
//! let mut pool = Volatile::new();
//! let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {})?;
//! let mut worker = workload.worker(&scale, &loaded, 1, 1, 0);
//! let mut facts = Facts::default();
//! for _ in 0..1000 {
//!     let kind = worker.step_with(&mut pool, &mut facts)?;
//!     assert_eq!(facts.writes.len(), usize::from(kind == OpKind::Update));
//!     worker.draw();
//! }
//! # Ok::<(), outlast::Abort>(())
//! ```
#![forbid(unsafe_code)]

mod array;
mod audit;
mod bare;
mod clrs;
pub mod content;
mod facts;
mod family;
mod few_words;
mod layout;
mod linkbench;
mod load;
pub mod machine;
pub mod own;
mod pairs;
mod programs;
mod queue;
mod rows;
mod sequence;
mod store;
mod swaps;
mod tatp;
mod tpcc;
mod volatile;
mod worker;
mod workload;
mod ycsb;
pub mod zipf;

pub use bare::{Bare, BareTx, WorkInstructions};
pub use facts::{Facts, State, Version, Witness};
pub use layout::{Layout, UnknownLayout};
pub use load::Loaded;
pub use outlast_trace::Random;
pub use sequence::InsertSequence;
pub use store::Structure;
pub use swaps::{SwapDraw, initial_word};
pub use tpcc::{Statements, terminals as tpcc_terminals};
pub use volatile::{Footprint, Volatile, VolatileTx};
pub use worker::{OpKind, Worker};
pub use workload::{BadScale, Keys, Scale, Swaps, Workload, judged_workloads, workloads};
