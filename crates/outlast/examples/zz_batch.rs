//! temp
use outlast::collections::{ByteTree, Dictionary, Placement};
use outlast::*;
use std::time::Instant;
fn main() {
    let path = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let batches: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let size: u64 = std::env::args().nth(3).unwrap().parse().unwrap();
    let _ = std::fs::remove_file(&path);
    let create = CreateOptions { lanes: 1, lane_bytes: 4 << 20, ..CreateOptions::default() };
    let open = OpenOptions { grow_limit_bytes: 2 << 30, ..OpenOptions::with_scheme(Scheme::Swift) };
    let map = MapOptions { domain: Some(Domain::Page), max_len: 2 << 30, ..MapOptions::default() };
    let pool = FilePool::create(&path, 40 << 20, &create, &open, &map).unwrap();
    let mut lane = pool.lane().unwrap();
    let tree = lane
        .run(|tx| {
            let tree = ByteTree::create(tx, Placement::Together)?;
            tx.set_root(tree.root(), RootKind::BTree)?;
            Ok(tree)
        })
        .unwrap();
    let mut x = 88172645463325252u64;
    let mut rnd = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let value = [7u8; 150];
    let mut put = |lane: &mut Lane<'_, _>, n: u64| {
        let keys: Vec<[u8; 24]> = (0..n)
            .map(|_| {
                let mut k = [0u8; 24];
                for i in 0..3 {
                    k[i * 8..i * 8 + 8].copy_from_slice(&rnd().to_be_bytes());
                }
                k
            })
            .collect();
        lane.run(|tx| keys.iter().try_for_each(|k| tree.insert(tx, k, &value).map(|_| ())))
            .unwrap();
    };
    for _ in 0..100 {
        put(&mut lane, 1000);
    }
    let syncs = pool.medium().syncs();
    let mut times = Vec::new();
    for _ in 0..batches {
        let t = Instant::now();
        put(&mut lane, size);
        times.push(t.elapsed().as_micros());
    }
    let syncs = pool.medium().syncs() - syncs;
    times.sort();
    println!(
        "p50 {} us p90 {} max {} mean {} syncs {}",
        times[times.len() / 2],
        times[times.len() * 9 / 10],
        times[times.len() - 1],
        times.iter().sum::<u128>() / times.len() as u128,
        syncs as f64 / batches as f64
    );
}
