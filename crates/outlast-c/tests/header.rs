//! The committed header is the one that the code has. With `OUTLAST_WRITE_HEADER=1` it is written.
#![cfg(not(miri))]

use std::path::Path;

#[test]
fn the_header_is_not_stale() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = crate_dir.join("include/archapt.h");
    let mut generated = Vec::new();
    cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).unwrap())
        .with_src(crate_dir.join("src/code.rs"))
        .with_src(crate_dir.join("src/pool.rs"))
        .with_src(crate_dir.join("src/transaction.rs"))
        .with_src(crate_dir.join("src/memory.rs"))
        .generate()
        .unwrap()
        .write(&mut generated);
    // What Rust heads with a word, C says in a sentence.
    let generated = String::from_utf8(generated).unwrap();
    let generated = generated.replace("// # Safety\n", "// The caller sees to it:\n");
    if std::env::var_os("OUTLAST_WRITE_HEADER").is_some() {
        std::fs::write(&committed, &generated).unwrap();
    }
    let found = std::fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        found == generated,
        "include/archapt.h is stale: run `OUTLAST_WRITE_HEADER=1 cargo test -p outlast-c header`"
    );
}
