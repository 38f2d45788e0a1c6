//! What the pkg-config files name is there: an installation in a directory of its own, from
//! which the examples are built with the flags that they give.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::path::Path;
use std::process::Command;

/// A pkg-config file, its header and its example.
const ARCHAPT: [&str; 3] = ["outlast-archapt", "archapt.h", "bank.c"];
const OUTLAST: [&str; 3] = ["outlast", "outlast.h", "ledger.c"];

fn filled_in(name: &str, prefix: &Path) -> String {
    let pc = std::fs::read_to_string(common::crate_file(&format!("{name}.pc.in"))).unwrap();
    let prefix = prefix.to_str().unwrap();
    let pc = pc
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.to_owned() + "\n")
        .collect::<String>()
        .replace("@PREFIX@", prefix)
        .replace("@LIBDIR@", "${prefix}/lib")
        .replace("@INCLUDEDIR@", "${prefix}/include")
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    assert!(!pc.contains('@'), "{pc}");
    pc
}

#[test]
fn the_examples_build_with_what_pkg_config_says() {
    builds(ARCHAPT);
    builds(OUTLAST);
}

fn builds([name, header, example]: [&str; 3]) {
    let Some(cc) = common::compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (lib, include) = (dir.path().join("lib"), dir.path().join("include"));
    std::fs::create_dir_all(lib.join("pkgconfig")).unwrap();
    std::fs::create_dir(&include).unwrap();
    std::fs::copy(common::crate_file("include").join(header), include.join(header)).unwrap();
    std::fs::copy(common::library(".so"), lib.join("liboutlast_c.so")).unwrap();
    let pc = filled_in(name, dir.path());
    std::fs::write(lib.join("pkgconfig").join(format!("{name}.pc")), &pc).unwrap();

    let field = |name: &str| {
        let line = pc.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        line.replace("${libdir}", lib.to_str().unwrap())
            .replace("${includedir}", include.to_str().unwrap())
    };
    let own = format!("{} {}", field("Cflags: "), field("Libs: "));
    let flags = match Command::new("pkg-config")
        .args(["--cflags", "--libs", name])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .output()
    {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let flags = String::from_utf8(output.stdout).unwrap();
            assert!(flags.contains("-loutlast_c"), "{flags}");
            flags
        }
        Err(_) => {
            println!("there is no pkg-config: the file is read by the test alone");
            own
        }
    };
    let program = dir.path().join("program");
    let mut command = Command::new(cc);
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    command.arg(common::crate_file("examples").join(example)).args(flags.split_whitespace());
    common::run(&mut command);
    let output = Command::new(&program).env("LD_LIBRARY_PATH", &lib).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "it runs, and wants a pool");
}

/// Every function of the headers is in the shared library.
#[test]
fn the_library_has_what_the_headers_name() {
    let library = std::fs::read(common::library(".so")).unwrap();
    for (header, start, least) in [("archapt.h", "Archapt_", 24), ("outlast.h", "outlast_", 24)] {
        let text = std::fs::read_to_string(common::crate_file("include").join(header)).unwrap();
        let is_call = |line: &&str| !line.starts_with("//") && !line.starts_with("typedef");
        let names = text.lines().filter(is_call).filter_map(|line| {
            let (before, _) = line.split_once('(')?;
            before.rsplit([' ', '*']).next().filter(|name| name.starts_with(start))
        });
        let names: Vec<&str> = names.collect();
        assert!(names.len() >= least, "{names:?}");
        for name in names {
            let with_end = [name.as_bytes(), b"\0"].concat();
            assert!(library.windows(with_end.len()).any(|bytes| bytes == with_end), "{name}");
        }
    }
}
