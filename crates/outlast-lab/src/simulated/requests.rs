//! Lists of memory requests, and streams as traces of other simulators.

use super::*;

/// Runs, and writes the memory's requests as they come.
pub(super) fn export(
    system: &mut dyn Machine,
    instructions: u64,
    interval: u64,
    file: &mut dyn Write,
) -> Result<(), Box<dyn std::error::Error>> {
    system.export_requests();
    let (mut left, mut first) = (instructions, None);
    while left > 0 {
        let part = left.min(EXPORT_INSTRUCTIONS);
        let ended = system.run(part)?;
        for mut request in system.take_requests() {
            request.at -= *first.get_or_insert(request.at - request.at % interval);
            writeln!(file, "{request}")?;
        }
        left = if ended == Ended::Finished { 0 } else { left - part };
    }
    Ok(())
}

/// Longer lines are no requests.
const LINE_BYTES_MAX: u64 = 1024;

/// Replays a list of memory requests (`0xADDRESS READ|WRITE CYCLE`, cycles of the memory clock)
/// on a machine's memory alone.
///
/// # Errors
/// When the file cannot be read or a line of it is no request.
pub fn replay_requests(
    machine: &MachineConfig,
    path: &Path,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|error| format!("{name}: {error}"))?;
    let mut requests = Vec::new();
    let (mut file, mut line) = (BufReader::new(file), String::new());
    for number in 1.. {
        line.clear();
        let read = file.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        if read.map_err(|error| format!("{name}: {error}"))? == 0 {
            break;
        }
        if line.len() as u64 == LINE_BYTES_MAX {
            return Err(
                format!("{name}:{number}: a line of {LINE_BYTES_MAX} bytes is no request").into()
            );
        }
        if !line.trim().is_empty() {
            let request = MemoryRequest::parse(&line);
            requests.push(request.map_err(|error| format!("{name}:{number}: {error}"))?);
        }
    }
    if requests.is_empty() {
        return Err(format!("{name}: no requests in it: write 0xADDRESS READ|WRITE CYCLE").into());
    }
    let replay = replay(&machine.memory, &requests);
    let period_ns = machine.memory.clock.period_fs() as f64 / 1e6;
    let record = |metric, value: f64| {
        Record::new(Kind::Sim, &name, MachineScheme::plain().name(), metric, value)
            .config(&machine.name)
    };
    Ok(vec![
        record(Metric::READ_LATENCY, replay.read_latency_clocks * period_ns),
        record(Metric::READ_LATENCY, replay.held_latency_clocks * period_ns).class("from arrival"),
        record(Metric::BANDWIDTH, replay.bandwidth / 1e9),
        record(Metric::CYCLES, replay.clocks as f64).class("memory clock"),
        record(Metric::ROW_HITS, replay.stats.row_hits as f64),
        record(Metric::MEMORY_READS, replay.stats.reads as f64),
        record(Metric::MEMORY_WRITES, replay.stats.writes as f64),
    ])
}

/// Writes the first instructions of a stream as a ChampSim trace, uncompressed.
///
/// # Errors
/// When the file cannot be written.
pub fn save_trace(
    pattern: Pattern,
    seed: u64,
    instructions: u64,
    path: &Path,
) -> std::io::Result<()> {
    let register = |number: u8| if number == 0 { 0 } else { STREAM_REGISTERS + number };
    let mut stream = Stream::new(pattern, seed);
    let mut file = WholeFile::create(path)?;
    for _ in 0..instructions {
        let from = stream.next_instr();
        let mut to = ChampSimInstr {
            ip: from.pc,
            source_registers: from.sources.map(register),
            destination_registers: from.destinations.map(register),
            ..ChampSimInstr::default()
        };
        for (into, at) in to.source_memory.iter_mut().zip(from.load_at()) {
            *into = STREAM_ADDRESSES + at;
        }
        for (into, at) in to.destination_memory.iter_mut().zip(from.store_at()) {
            *into = STREAM_ADDRESSES + at;
        }
        file.write_all(&to.encode())?;
    }
    file.finish()
}
