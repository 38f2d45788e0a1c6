//! Memory requests without cores: a controller and its devices alone, to be compared with other
//! memory simulators on the same list of requests.

use super::{
    config::MemoryConfig,
    controller::{Controller, Outcome},
    stats::MemoryStats,
    time::Cycle,
};
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset};

/// Addresses of requests are below this. The page tables of a simulated machine, whose requests can be
/// exported, lie from 2^56 on.
pub const REQUEST_BYTES_MAX: u64 = 1 << 57;

/// The last cycle of the memory clock at which a request may be sent: seconds of a memory's time.
/// Refreshes go on meanwhile, which is what takes time here.
pub const REQUEST_CYCLE_MAX: u64 = 10_000_000_000;

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRequest {
    /// Which line.
    pub line: LineAddr,
    /// Whether it writes.
    pub write: bool,
    /// The cycle of the memory clock from which on it may be sent. It is sent then, or as soon
    /// as the request before it has been taken.
    pub at: u64,
}

impl MemoryRequest {
    /// Reads one line of text, `0xADDRESS READ|WRITE CYCLE`: what DRAMsim3 and Ramulator read.
    ///
    /// # Errors
    /// Says in words what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{}' is no request: write 0xADDRESS READ|WRITE CYCLE", text.trim());
        let mut words = text.split_whitespace();
        let (Some(address), Some(kind), Some(cycle), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(wrong());
        };
        let digits = address.strip_prefix("0x").ok_or_else(wrong)?;
        let write = match kind {
            "READ" | "P_MEM_RD" => false,
            "WRITE" | "P_MEM_WR" => true,
            _ => return Err(wrong()),
        };
        let address = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
        let at = cycle.parse().map_err(|_| wrong())?;
        if address >= REQUEST_BYTES_MAX {
            return Err(format!(
                "the address is {address:#x}: take 0x0 to {:#x}",
                REQUEST_BYTES_MAX - 1
            ));
        }
        if at > REQUEST_CYCLE_MAX {
            return Err(format!("the cycle is {at}: take 0 to {REQUEST_CYCLE_MAX}"));
        }
        Ok(Self { line: PoolOffset(address).line(), write, at })
    }
}

impl std::fmt::Display for MemoryRequest {
    /// As [`parse`](Self::parse) reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.write { "WRITE" } else { "READ" };
        write!(f, "{:#x} {kind} {}", self.line.0 * LINE_BYTES, self.at)
    }
}

/// The times of a list of requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Replay {
    /// Cycles of the memory clock until the last data was read and the last write had its
    /// column command.
    pub clocks: u64,
    /// Cycles of the memory clock until the last request was taken and the last data read.
    pub taken_clocks: u64,
    /// Mean time from a read's being taken to its last data, in cycles of the memory clock.
    pub read_latency_clocks: f64,
    /// The same from the cycle that the list asks for: with the time that the read was held back.
    pub held_latency_clocks: f64,
    /// Bytes that the channels carried, per second, up to the end of the last data. A read that joins
    /// another one or finds its line among waiting writes carries none, nor does a write that
    /// another one of its line replaced, or one that still waits.
    pub bandwidth: f64,
    /// The controller's counts. Its cycles are those of the memory clock.
    pub stats: MemoryStats,
}

/// Sends requests to a memory as trace players do: in their order, at most one in a clock, each
/// when it may be sent and its queue has room. One that has to wait holds back those behind it.
///
/// # Panics
/// When `requests` is empty, one lies beyond [`REQUEST_BYTES_MAX`] or [`REQUEST_CYCLE_MAX`], or
/// the controller takes no more of them.
pub fn replay(config: &MemoryConfig, requests: &[MemoryRequest]) -> Replay {
    assert!(!requests.is_empty(), "a list of requests has some");
    let within = |request: &MemoryRequest| {
        request.line.0 < REQUEST_BYTES_MAX / LINE_BYTES && request.at <= REQUEST_CYCLE_MAX
    };
    assert!(requests.iter().all(within), "requests lie within their ranges");
    let period_fs = config.clock.period_fs();
    // One clock for both: a core cycle is a memory cycle here.
    let mut controller = Controller::new(config, period_fs);
    let channels = config.channels as usize;
    let mut wake_at = vec![Cycle::NEVER; channels];
    let (mut next, mut sent) = (0, vec![0u64; requests.len()]);
    let (mut now, mut last_read, mut last) = (Cycle(0), 0, 0);
    let (mut taken, mut latency, mut held, mut reads) = (0, 0u64, 0u64, 0u64);
    while next < requests.len() || !controller.is_idle() {
        let mut arrived = 0u64;
        if let Some(request) = requests.get(next)
            && request.at <= now.0
            && !controller.is_blocked(request.line, request.write)
        {
            sent[next] = now.0;
            taken = now.0;
            let channel = if request.write {
                controller.write(now, next as u32, request.line)
            } else {
                controller.read(now, next as u32, request.line)
            };
            arrived = 1u64 << channel;
            next += 1;
        }
        for (channel, wake_at) in wake_at.iter_mut().enumerate() {
            let due = *wake_at <= now;
            if due {
                *wake_at = Cycle::NEVER;
            }
            if (due || arrived >> channel & 1 == 1)
                && let Some(at) = controller.wake(now, channel)
            {
                *wake_at = at;
            }
        }
        for outcome in controller.outcomes.drain(..) {
            match outcome {
                Outcome::ReadDone { id, at } => {
                    last_read = last_read.max(at.0);
                    latency += at.0 - sent[id as usize];
                    held += at.0 - requests[id as usize].at;
                    reads += 1;
                }
                Outcome::Written { .. } => last = now.0,
                Outcome::Accepted { .. } | Outcome::Replaced { .. } => {}
            }
        }
        let arrival = requests.get(next).map_or(Cycle::NEVER, |request| {
            if controller.is_blocked(request.line, request.write) {
                Cycle::NEVER
            } else {
                Cycle(request.at).max(now.next())
            }
        });
        let wake = wake_at.iter().copied().min().unwrap_or(Cycle::NEVER);
        now = match arrival.min(wake) {
            // Fewer writes are left than an idle channel serves.
            Cycle::NEVER => {
                assert_eq!(next, requests.len(), "the controller takes no more requests");
                break;
            }
            at => at,
        };
    }
    let clocks = last.max(last_read).max(1);
    let stats = controller.take_stats(Cycle(clocks));
    let carried = stats.row_hits + stats.row_misses + stats.row_conflicts;
    let written = match last {
        0 => 0,
        column => column + config.t_cwl.cycles(period_fs) + config.t_burst.cycles(period_fs),
    };
    let seconds = written.max(clocks) as f64 * period_fs as f64 * 1e-15;
    Replay {
        clocks,
        taken_clocks: taken.max(last_read).max(1),
        read_latency_clocks: latency as f64 / reads.max(1) as f64,
        held_latency_clocks: held as f64 / reads.max(1) as f64,
        bandwidth: LINE_BYTES as f64 * carried as f64 / seconds,
        stats,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_other_simulators_write_them() {
        let request = MemoryRequest::parse("0x12345680 WRITE 77\n").unwrap();
        assert_eq!(request, MemoryRequest { line: LineAddr(0x48d15a), write: true, at: 77 });
        assert_eq!(request.to_string(), "0x12345680 WRITE 77");
        for wrong in ["", "12 READ 4", "0x12 LOAD 4", "0x12 READ", "0x12 READ 4 5", "0xg READ 4"] {
            let error = MemoryRequest::parse(wrong).unwrap_err();
            assert!(error.contains("READ|WRITE"), "{error}");
        }
        for (wrong, says) in [
            ("0xfffffffffffffe00 READ 4", "the address is 0xfffffffffffffe00: take 0x0 to 0x1f"),
            ("0x200000000000000 WRITE 4", "take 0x0 to 0x1ffffffffffffff"),
            ("0x0 READ 10000000000000", "the cycle is 10000000000000: take 0 to 10000000000"),
            ("0x0 READ 18446744073709551615", "the cycle is"),
        ] {
            let error = MemoryRequest::parse(wrong).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
