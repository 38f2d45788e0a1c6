//! DRAMsim3 as a player of request lists.

use super::Played;
use dramsim3::MemorySystem;
use outlast_sim::timed::{Field, MemoryConfig, MemoryRequest, PagePolicy, Scheduling};
use outlast_trace::LINE_BYTES;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::Path;

/// DRAMsim3 cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// It has no such memory.
    #[error("DRAMsim3 has no memory like this: {0}")]
    Unlike(String),
    /// Its files could not be written or read.
    #[error("a directory for DRAMsim3: {0}")]
    Files(#[from] std::io::Error),
}

/// Clocks after which it writes what it counted, and starts again.
const EPOCH_CLOCKS: u64 = 1 << 20;
/// Writes in an idle channel from which on it serves them; written into its source.
const IDLE_WRITES: u32 = 9;

/// Plays requests in DRAMsim3, with the numbers of one of our memories.
///
/// # Errors
/// When DRAMsim3 has no such memory, or its files cannot be written.
///
/// # Panics
/// When `requests` is empty.
pub fn dramsim3(memory: &MemoryConfig, requests: &[MemoryRequest]) -> Result<Played, PlayError> {
    assert!(!requests.is_empty(), "a list of requests has some");
    let folder = tempfile::tempdir()?;
    let ini = folder.path().join("memory.ini");
    std::fs::write(&ini, configuration(memory)?)?;
    let mut system = MemorySystem::new(&ini, folder.path())
        .map_err(|error| PlayError::Unlike(format!("{error:?}")))?;
    let mut taken_at: FxHashMap<u64, VecDeque<u64>> = FxHashMap::default();
    let (mut clock, mut next, mut under_way) = (0u64, 0, 0u64);
    let (mut latency, mut reads, mut last) = (0u64, 0u64, 0u64);
    while next < requests.len() || under_way > 0 {
        system.tick(|address, write| {
            if !write {
                let taken = taken_at.get_mut(&address).and_then(VecDeque::pop_front);
                latency += clock - taken.expect("it answers what was asked");
                (under_way, reads, last) = (under_way - 1, reads + 1, clock);
            }
        });
        clock += 1;
        if let Some(request) = requests.get(next)
            && request.at <= clock
        {
            let address = request.line.0 * LINE_BYTES;
            if system.can_add(address, request.write) {
                system.add(address, request.write);
                if !request.write {
                    taken_at.entry(address).or_default().push_back(clock);
                    under_way += 1;
                }
                last = last.max(clock);
                next += 1;
            }
        }
    }
    while clock % EPOCH_CLOCKS != 0 {
        system.tick(|_, _| {});
        clock += 1;
    }
    Ok(Played {
        read_latency: latency as f64 / reads.max(1) as f64,
        throughput: 100.0 * requests.len() as f64 / last as f64,
        row_hits: row_hits(folder.path())? as f64 / requests.len() as f64,
    })
}

/// The row hits of all epochs, from the file that DRAMsim3 leaves.
fn row_hits(folder: &Path) -> std::io::Result<u64> {
    let text = std::fs::read_to_string(folder.join("dramsim3epoch.json"))?;
    let count = |key: &str| -> u64 {
        let values = text.split(key).skip(1);
        let digits = values.map(|rest| {
            rest.trim_start_matches(|c: char| !c.is_ascii_digit())
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .unwrap_or_default()
        });
        digits.filter_map(|digits| digits.parse::<u64>().ok()).sum()
    };
    Ok(count("\"num_read_row_hits\"") + count("\"num_write_row_hits\""))
}

/// A memory as DRAMsim3's configuration: 8-bit devices on a 64-bit bus, bursts of eight.
fn configuration(memory: &MemoryConfig) -> Result<String, PlayError> {
    let unlike = |what: &str| Err(PlayError::Unlike(what.to_owned()));
    if memory.scheduling != Scheduling::FrFcfs {
        return unlike("memory.scheduling is not frfcfs");
    }
    if memory.write_queue != memory.read_queue || memory.drain_high != memory.write_queue {
        return unlike("its queues are of one size, and writes are drained when theirs is full");
    }
    if memory.drain_low != 0 || memory.drain_idle != IDLE_WRITES {
        return unlike("memory.drain_low is 0 and memory.drain_idle 9 there");
    }
    if memory.bank_queue == 0 {
        return unlike("memory.bank_queue is 0, and it has a queue for each bank");
    }
    const ROWS: u64 = 1 << 16;
    let period_fs = memory.clock.period_fs();
    let banks = u64::from(memory.groups) * u64::from(memory.banks);
    let channel_mib = (ROWS * memory.row.0 * banks * u64::from(memory.ranks)) >> 20;
    let fields = memory.mapping.0.map(|field| match field {
        Field::Row => "ro",
        Field::Channel => "ch",
        Field::Rank => "ra",
        Field::Bank => "ba",
        Field::Group => "bg",
        Field::Column => "co",
    });
    let mut text = format!(
        "[dram_structure]\nprotocol = DDR4\nbankgroups = {}\nbanks_per_group = {}\nrows = {ROWS}\n\
         columns = {}\ndevice_width = 8\nBL = 8\n[timing]\ntCK = {}\nAL = 0\n",
        memory.groups,
        memory.banks,
        memory.row.0 / 8,
        period_fs as f64 / 1e6,
    );
    for (name, span) in [
        ("CL", memory.t_cl),
        ("CWL", memory.t_cwl),
        ("tRCD", memory.t_rcd),
        ("tRP", memory.t_rp),
        ("tRAS", memory.t_ras),
        ("tRFC", memory.t_rfc),
        ("tREFI", memory.t_refi),
        ("tRRD_S", memory.t_rrd_s),
        ("tRRD_L", memory.t_rrd_l),
        ("tWTR_S", memory.t_wtr_s),
        ("tWTR_L", memory.t_wtr_l),
        ("tFAW", memory.t_faw),
        ("tWR", memory.t_wr),
        ("tRTP", memory.t_rtp),
        ("tCCD_S", memory.t_ccd_s),
        ("tCCD_L", memory.t_ccd_l),
        ("tRTRS", memory.t_rtrs),
    ] {
        let _ = writeln!(text, "{name} = {}", span.cycles(period_fs));
    }
    let page = match memory.page {
        PagePolicy::Open => "OPEN_PAGE",
        PagePolicy::Closed => "CLOSE_PAGE",
    };
    let _ = write!(
        text,
        "[system]\nchannel_size = {channel_mib}\nchannels = {}\nbus_width = 64\n\
         address_mapping = {}\nqueue_structure = PER_BANK\nrefresh_policy = RANK_LEVEL_STAGGERED\n\
         row_buf_policy = {page}\ncmd_queue_size = {}\ntrans_queue_size = {}\n\
         [other]\nepoch_period = {EPOCH_CLOCKS}\noutput_level = 1\n",
        memory.channels,
        fields.concat(),
        memory.bank_queue,
        memory.read_queue,
    );
    Ok(text)
}
