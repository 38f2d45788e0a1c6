//! Our DDR4-3200 beside DRAMsim3's, on the same requests: `cargo run --release -p outlast-peers
//! --features dramsim3 --example memory [fine] [REQUESTS] [SEED]`, or `FILE...` for lists of
//! `0xADDRESS READ|WRITE CYCLE`.

#[cfg(feature = "dramsim3")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use outlast_peers::memory::{Compared, MemoryStream, Streams, compare};
    use outlast_sim::timed::{MachineConfig, MemoryRequest};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let fine = arguments.iter().any(|argument| argument == "fine");
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
    let (requests, seed) = (numbers.next().unwrap_or(50_000), numbers.next().unwrap_or(1));
    let memory = MachineConfig::named("server")?.memory;
    let mut streams = Vec::new();
    for name in arguments.iter().filter(|name| std::path::Path::new(name).is_file()) {
        let text = std::fs::read_to_string(name)?;
        let requests = text.lines().map(MemoryRequest::parse).collect::<Result<Vec<_>, _>>()?;
        streams.push(MemoryStream { name: name.clone(), requests });
    }
    if streams.is_empty() {
        let lists = if fine { Streams::fine } else { Streams::coarse };
        streams = lists(requests as usize, seed);
    }
    println!("{}", Compared::HEAD);
    let mut all = Vec::new();
    for stream in &streams {
        let compared = compare(&memory, stream)?;
        println!("{compared}");
        all.push(compared);
    }
    let within = all.iter().filter(|compared| compared.difference() <= 0.1).count();
    println!("{within} of {} lists within 10 %", all.len());
    Ok(())
}

#[cfg(not(feature = "dramsim3"))]
fn main() {
    println!(
        "built without DRAMsim3: --features dramsim3 builds it, with cmake and a C++ compiler"
    );
}
