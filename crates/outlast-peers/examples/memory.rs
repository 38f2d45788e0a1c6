//! Our DDR4-3200 beside DRAMsim3's, on the same requests: `cargo run --release -p outlast-peers
//! --features dramsim3 --example memory [fine] [REQUESTS] [SEED]`.

#[cfg(feature = "dramsim3")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use outlast_peers::memory::{Compared, Streams, compare};
    use outlast_sim::timed::MachineConfig;

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let fine = arguments.iter().any(|argument| argument == "fine");
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
    let (requests, seed) = (numbers.next().unwrap_or(50_000), numbers.next().unwrap_or(1));
    let memory = MachineConfig::named("server")?.memory;
    let lists = if fine { Streams::fine } else { Streams::coarse };
    println!("{}", Compared::HEAD);
    let mut all = Vec::new();
    for stream in lists(requests as usize, seed) {
        let compared = compare(&memory, &stream)?;
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
