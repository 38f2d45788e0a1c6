//! An installation in a directory of its own has what its pkg-config files name: the examples are built from it with the
//! flags that they give, and run.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::path::Path;
use std::process::Command;

/// Runs the installer.
fn install(arguments: &[&Path]) -> std::process::Output {
    Command::new(common::crate_file("install")).args(arguments).output().unwrap()
}

#[test]
fn the_examples_build_with_what_pkg_config_says() {
    let dir = tempfile::tempdir().unwrap();
    let (built, prefix) = (dir.path().join("built"), dir.path().join("prefix"));
    std::fs::create_dir(&built).unwrap();
    let missing = install(&[&prefix, &built]);
    assert_eq!(missing.status.code(), Some(2), "nothing was built there");
    assert!(!prefix.exists());
    assert_eq!(install(&[Path::new("here")]).status.code(), Some(2));
    for ending in [".so", ".a"] {
        std::fs::copy(common::library(ending), built.join(format!("liboutlast_c{ending}")))
            .unwrap();
    }
    common::run(Command::new(common::crate_file("install")).args([&prefix, &built]));
    let works: [(&[&str], _); 3] = [
        (&["redo"], ["outlast-archapt", "CC", "cc", "c11", "bank.c"]),
        (&["redo"], ["outlast", "CC", "cc", "c11", "ledger.c"]),
        (&["work"], ["outlast", "CXX", "c++", "c++17", "queue.cpp"]),
    ];
    for (work, [name, variable, usual, standard, example]) in works {
        let Some(compiler) = common::compiler_of(variable, usual) else { continue };
        let flags = flags_of(name, &prefix.join("lib"));
        let program = dir.path().join(example).with_extension("");
        let mut command = Command::new(compiler);
        command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Werror", "-o"]);
        command.arg(&program).arg(common::crate_file("examples").join(example)).args(&flags);
        command.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
        common::run(&mut command);
        let output = common::program(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{example} runs, and wants a pool");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.trim_end().ends_with(env!("CARGO_PKG_VERSION")), "{example}: {said}");
        let pool = dir.path().join(example).with_extension("pool");
        let pool = pool.to_str().unwrap();
        let reported = common::kill_one(&program, &[&[pool], work].concat(), 20);
        assert!(reported >= 20, "{example}: {reported}");
        let shown = common::run(common::program(&program).args([pool, "show"]));
        assert!(!shown.stdout.is_empty(), "{example}: the next process opens the pool");
    }
}

/// What pkg-config says, or the file itself where there is no such program.
fn flags_of(name: &str, lib: &Path) -> Vec<String> {
    let pc = std::fs::read_to_string(lib.join("pkgconfig").join(format!("{name}.pc"))).unwrap();
    assert!(!pc.contains('@'), "{pc}");
    let said = Command::new("pkg-config")
        .args(["--cflags", "--libs", name])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .output();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let Ok(output) = said else {
        println!("there is no pkg-config: the file is read by the test alone");
        let field = |name: &str| pc.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let text = format!("{} {}", field("Cflags: "), field("Libs: "));
        let prefix = lib.parent().unwrap().to_str().unwrap();
        let text = text.replace("${libdir}", lib.to_str().unwrap());
        return words(&text.replace("${includedir}", &format!("{prefix}/include")));
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let flags = String::from_utf8(output.stdout).unwrap();
    assert!(flags.contains("-loutlast_c"), "{flags}");
    words(&flags)
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
