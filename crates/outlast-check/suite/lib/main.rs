//! The workload and the dump of a store in Rust: the transactions of `suite.py`.
mod store;

use std::io::Write;

use store::{SEVERAL, Store};

/// Any failure of a store.
pub type Failure = Box<dyn std::error::Error>;
/// A key and its value.
pub type Pair = (String, String);

fn value(i: u32) -> String {
    let letter = char::from(b'a' + (i % 26) as u8).to_string();
    format!("{i}:{}", letter.repeat(50 + 900 * (i as usize % 6)))
}

fn pairs(i: u32) -> Vec<Pair> {
    let mut pairs = vec![(format!("k{}", i % 5), value(i))];
    if SEVERAL {
        pairs.push((format!("m{}", i % 3), value(i + 1000)));
        pairs.push(("n".to_owned(), i.to_string()));
    }
    pairs
}

fn say(text: String) {
    println!("{text}");
    std::io::stdout().flush().expect("standard output");
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let dir = std::path::Path::new(&words[1]);
    let mut store = Store::open(dir, &words[2..])?;
    if words[0] == "dump" {
        for (key, value) in store.items()? {
            println!("{key} {value}");
        }
        return Ok(());
    }
    let transactions: u32 = std::env::var("SUITE_TRANSACTIONS").map_or(8, |text| text.parse().expect("a number"));
    for i in 1..=transactions {
        say(format!("I {i}"));
        store.put(&pairs(i))?;
        say(format!("A {i}"));
        if i == transactions / 2 {
            drop(store);
            store = Store::open(dir, &words[2..])?;
        }
    }
    Ok(())
}
