//! What the pkg-config file names is there: an installation in a directory of its own, from
//! which the example is built with the flags that it gives.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::path::Path;
use std::process::Command;

fn filled_in(prefix: &Path) -> String {
    let pc = std::fs::read_to_string(common::crate_file("outlast-archapt.pc.in")).unwrap();
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
fn the_example_builds_with_what_pkg_config_says() {
    let Some(cc) = common::compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (lib, include) = (dir.path().join("lib"), dir.path().join("include"));
    std::fs::create_dir_all(lib.join("pkgconfig")).unwrap();
    std::fs::create_dir(&include).unwrap();
    std::fs::copy(common::crate_file("include/archapt.h"), include.join("archapt.h")).unwrap();
    std::fs::copy(common::library(".so"), lib.join("liboutlast_c.so")).unwrap();
    let pc = filled_in(dir.path());
    std::fs::write(lib.join("pkgconfig/outlast-archapt.pc"), &pc).unwrap();

    let field = |name: &str| {
        let line = pc.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
        line.replace("${libdir}", lib.to_str().unwrap())
            .replace("${includedir}", include.to_str().unwrap())
    };
    let own = format!("{} {}", field("Cflags: "), field("Libs: "));
    let flags = match Command::new("pkg-config")
        .args(["--cflags", "--libs", "outlast-archapt"])
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
    let program = dir.path().join("bank");
    let mut command = Command::new(cc);
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    command.arg(common::crate_file("examples/bank.c")).args(flags.split_whitespace());
    common::run(&mut command);
    let output = Command::new(&program).env("LD_LIBRARY_PATH", &lib).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "it runs, and wants a pool");
}

/// Every function of the header is in the shared library.
#[test]
fn the_library_has_what_the_header_names() {
    let header = std::fs::read_to_string(common::crate_file("include/archapt.h")).unwrap();
    let names = header.lines().filter(|line| !line.starts_with("//")).filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        before.rsplit([' ', '*']).next().filter(|name| name.starts_with("Archapt_"))
    });
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 24, "{names:?}");
    let library = std::fs::read(common::library(".so")).unwrap();
    for name in names {
        let with_end = [name.as_bytes(), b"\0"].concat();
        assert!(library.windows(with_end.len()).any(|bytes| bytes == with_end), "{name}");
    }
}
