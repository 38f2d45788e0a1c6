//! Runs one kind of the runtime's calls a number of times, for an instruction counter around it:
//! `calls SCHEME CALL CALLS TRANSACTIONS`. `simulated/costs.rs` says how the table of
//! costs is made from that.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{BlockKind, Pool, Runner, Scheme, Transact};
use outlast_pmem::Heap;
use outlast_trace::{ByteRange, PoolOffset};

const BYTES: u64 = 32 << 20;
/// Lines that calls go round in.
const LINES: u64 = 512;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize| -> u64 { args[at].parse().expect("a number") };
    let scheme: Scheme = args[1].parse().expect("a scheme");
    let (call, calls, transactions) = (args[2].as_str(), number(3), number(4));
    let create = CreateOptions { lanes: 1, ..CreateOptions::default() };
    let open = OpenOptions { sample_bits: 0, ..OpenOptions::with_scheme(scheme) };
    let pool = Pool::create_on(Heap::new(BYTES), &create, &open).expect("the pool is made");
    let mut lane = pool.lane().expect("there is a lane");
    let array = lane.run(|tx| tx.alloc(64 * LINES, BlockKind::General)).expect("there is room");
    let mut line = 0;
    for _ in 0..transactions {
        lane.run(|tx| {
            for _ in 0..calls {
                line = (line + 7) % LINES;
                let at = PoolOffset(array.0 + 64 * line);
                match call {
                    "load" => drop(tx.load_u64(at)?),
                    "store" => tx.store_u64(at, line)?,
                    "will_write" => {
                        tx.will_write(&[ByteRange::new(at, 8)])?;
                        tx.store_u64(at, line)?;
                    }
                    "alloc" => drop(tx.alloc(64, BlockKind::General)?),
                    "free" => {
                        let block = tx.alloc(64, BlockKind::General)?;
                        tx.free(block)?;
                    }
                    other => panic!("no call is named {other}"),
                }
            }
            Ok(())
        })
        .expect("the transaction commits");
    }
}
