//! PiCL in hardware: the SystemVerilog of `rtl/`, simulated by Verilator, cut off at any cycle,
//! recovered and judged, and measured by Yosys.
//!
//! - [`Hardware`] is the RTL with some [`Config`], built into a shared object when a test asks for it.
//! - [`Bench`] runs it: small in-order cores with a timer interrupt that saves their registers
//!   ([`program`] has what they run), the operating system's part, and memory that makes writes durable
//!   in any order.
//! - [`Judge`] recovers an image by the model's production recovery (`outlast-schemes`' scheme `picl`)
//!   and has the epoch oracle of `outlast-crash` compare every byte.
//! - [`Lockstep`] has the model do what the hardware does, event by event: same entries, same tags, same
//!   lines home, same epochs, same memory after a crash.
//! - [`formal`] checks all short runs of the undo log.
//! - [`synthesis`] has Yosys count LUTs, flip-flops and block RAM with and without PiCL.
//! - [`frequency`] has nextpnr place and route parts of both, and compares their clocks.
//!
//! The hardware lays its log out as the model does, checksum included, so recovery reads the image as it
//! is where lines have 64 bytes. With lines of 16 bytes, whose blocks the model packs otherwise, each becomes a
//! line of its own ([`Place`]); header and log are read as they are.
//!
//! ```no_run
//! use outlast_rtl::{Bench, Config, Hardware, Judge, program};
//!
//! let folder = tempfile::tempdir()?;
//! let hardware = match Hardware::build(Config::small(64), folder.path()) {
//!     Ok(hardware) => hardware,
//!     Err(missing) => return Ok(println!("{missing}")),
//! };
//! let programs = program::counters(2, 20);
//! let mut judge = Judge::new(hardware.config())?;
//! let mut bench = Bench::new(&hardware, programs, 1);
//! bench.run(3000, |bench| {
//!     let image = bench.crash();
//!     judge.check(bench, &image).map(|_| ())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bench;
mod config;
mod core;
mod ffi;
pub mod formal;
pub mod frequency;
mod judge;
mod lockstep;
mod memory;
pub mod program;
pub mod synthesis;
mod verilate;

pub use bench::{Bench, Event, Stuck};
pub use config::{Config, Place};
pub use judge::{Judge, Recovered};
pub use lockstep::Lockstep;
pub use verilate::{BuildError, Hardware};

/// The RTL, file by file, the top module first.
const SOURCES: [(&str, &str); 12] = [
    ("top.sv", include_str!("../rtl/top.sv")),
    ("l2.sv", include_str!("../rtl/l2.sv")),
    ("llc.sv", include_str!("../rtl/llc.sv")),
    ("undo_log.sv", include_str!("../rtl/undo_log.sv")),
    ("bloom.sv", include_str!("../rtl/bloom.sv")),
    ("checksum.sv", include_str!("../rtl/checksum.sv")),
    ("log_space.sv", include_str!("../rtl/log_space.sv")),
    ("epochs.sv", include_str!("../rtl/epochs.sv")),
    ("mem_port.sv", include_str!("../rtl/mem_port.sv")),
    ("ram.sv", include_str!("../rtl/ram.sv")),
    ("checks.sv", include_str!("../rtl/checks.sv")),
    ("formal.sv", include_str!("../rtl/formal.sv")),
];
