//! The committed headers are those that the code has. With `OUTLAST_WRITE_HEADER=1` they are
//! written.
#![cfg(not(miri))]

use std::path::Path;

/// A header, its configuration, and the files that it is made of, in this order.
fn is_fresh(header: &str, config: &str, sources: &[&str]) {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = crate_dir.join("include").join(header);
    let config = cbindgen::Config::from_file(crate_dir.join(config)).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(crate_dir.join("src").join(source));
    }
    let mut generated = Vec::new();
    builder.generate().unwrap().write(&mut generated);
    // What Rust heads with a word, C says in a sentence.
    let generated = String::from_utf8(generated).unwrap();
    let generated = generated.replace("// # Safety\n", "// The caller sees to it:\n");
    if std::env::var_os("OUTLAST_WRITE_HEADER").is_some() {
        std::fs::write(&committed, &generated).unwrap();
    }
    let found = std::fs::read_to_string(&committed).unwrap_or_default();
    assert!(
        found == generated,
        "include/{header} is stale: run `OUTLAST_WRITE_HEADER=1 cargo test -p outlast-c header`"
    );
}

#[test]
fn the_header_of_archapt_is_not_stale() {
    is_fresh("archapt.h", "cbindgen.toml", &["code.rs", "pool.rs", "transaction.rs", "memory.rs"]);
}

#[test]
fn the_header_of_outlast_is_not_stale() {
    is_fresh(
        "outlast.h",
        "cbindgen-outlast.toml",
        &[
            "handles/code.rs",
            "handles/scheme.rs",
            "handles/pool.rs",
            "handles/lane.rs",
            "handles/memory.rs",
            "handles/reader.rs",
        ],
    );
}
