//! Files of one's own transactions through their parser. What is read prints as text that reads the same; what it
//! stores is within its memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_fuzz::seeds;
use outlast_workloads::own::OwnWork;

const SEEDS: [&str; 3] = [
    "outlast-work 1\nmemory 64\ntx\nend\n",
    "outlast-work 1 # a comment\r\nmemory 0x2000\nlanes 2\ninit 0x40 100 0x7\n\ntx 0\n  load 0x40 2\n  \
     think 20\n  store 0x40 90 -110\nend\ntx 1\nstore 0x1000 1\nend\n",
    "outlast-work 1\nmemory 128\nlanes 3\ntx 2\nstore 0 18446744073709551615\nend\ntx 1\nload 120\nend\n\
     tx\nend\n",
];

fuzz_target!(init: seeds(SEEDS), |input: &[u8]| {
    let Ok(work) = OwnWork::from_bytes(input) else { return };
    let text = work.to_string();
    let again: OwnWork = text.parse().expect("printed text is read");
    assert_eq!(again, work);
    assert_eq!(again.to_string(), text);
    let memory = work.memory_at_end();
    assert_eq!(memory.len() as u64, work.words());
    let parts = [64, 4096].map(|bytes| work.lanes_meet_within(bytes));
    assert!(parts[1] || !parts[0], "lanes that meet in a line meet in its page");
});
