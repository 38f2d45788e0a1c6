//! Stores through mappings, one by one.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outlast_check::capture::{CaptureError, Options, capture, marks::Marks};
use outlast_check::run::{Change, Run, Step};

const STORES: &str = r#"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    int file = open(words[1], O_CREAT | O_RDWR, 0644);
    if (ftruncate(file, 16384)) return 1;
    volatile char *map = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    map[0] = 'a';              /* page 0, then page 1, then page 0 again: no call in between */
    map[4096] = 'b';
    map[0] = 'c';
    memset((char *)map + 8192, 'd', 3);
    char *to = (char *)map + 8190;
    long left = 4;             /* a repeated instruction across a border of pages */
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(left) : "a"('e') : "memory");
    int zeros = open("/dev/zero", O_RDONLY);
    if (read(zeros, (char *)map + 12288, 5) != 5) return 2;     /* the kernel stores */
    map[12288] = 'f';
    if (mprotect((char *)map, 4096, PROT_READ)) return 3;
    if (mprotect((char *)map, 4096, PROT_READ | PROT_WRITE)) return 4;
    map[1] = 'g';
    if (fork() == 0) { map[2] = 'h'; _exit(0); }
    wait(0);
    map[3] = 'i';
    return 0;
}
"#;

fn captured(source: &str, exact: bool) -> Option<Run> {
    if Command::new("cc").arg("--version").output().is_err() || cfg!(not(target_arch = "x86_64")) {
        println!("missing: cc for x86-64, whose stores are not looked at");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (text, program) = (folder.path().join("stores.c"), folder.path().join("stores"));
    fs::write(&text, source).unwrap();
    let compiled = Command::new("cc").args(["-O1", "-o"]).args([&program, &text]).status();
    assert!(compiled.unwrap().success(), "the program compiles");
    let dir = folder.path().join("data");
    fs::create_dir(&dir).unwrap();
    match capture(&options(&dir, &program, exact)) {
        Ok(run) => Some(run),
        Err(error @ CaptureError::Refused(_)) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn options(dir: &Path, program: &Path, exact: bool) -> Options {
    Options {
        dir: dir.to_owned(),
        command: vec![program.into(), dir.join("file").into()],
        folder: None,
        marks: Marks::default(),
        time: Duration::from_secs(60),
        reads: false,
        exact,
        fault: None,
    }
}

/// Stores in order: place and bytes.
fn stores(run: &Run) -> Vec<(u64, String)> {
    run.events
        .iter()
        .filter_map(|event| match &event.step {
            Step::Change(Change::Data { offset, bytes, .. }) => {
                Some((*offset, String::from_utf8_lossy(bytes).into_owned()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn each_store_through_a_mapping_is_a_change() {
    let Some(run) = captured(STORES, true) else { return };
    assert_eq!(run.ended.to_string(), "status 0", "the program notices nothing");
    let stores = stores(&run);
    let place = |offset: u64, bytes: &str| {
        let found = stores.iter().position(|(at, text)| *at == offset && text == bytes);
        found.unwrap_or_else(|| panic!("{bytes} at {offset} of {stores:?}"))
    };
    let first = [place(0, "a"), place(4096, "b"), place(0, "c")];
    assert!(first.is_sorted(), "{stores:?}");
    let last = [
        place(8190, "ee"),
        place(8192, "ee"),
        place(12288, "f"),
        place(1, "g"),
        place(2, "h"),
        place(3, "i"),
    ];
    assert!(last[2..].is_sorted() && last[0] < last[2] && last[1] < last[2], "{stores:?}");
}

#[test]
fn without_it_a_version_between_two_calls_is_not_seen() {
    let Some(run) = captured(STORES, false) else { return };
    assert!(stores(&run).iter().all(|(_, text)| !text.starts_with('a')), "{:?}", stores(&run));
}

/// The tracer and a lone program share a processor, which the program is not to notice.
#[test]
fn a_program_is_told_all_of_its_processors() {
    let source = r#"
        #define _GNU_SOURCE
        #include <sched.h>
        #include <stdio.h>
        int main(int count, char **words) {
            cpu_set_t set;
            if (sched_getaffinity(0, sizeof set, &set)) return 1;
            FILE *file = fopen(words[1], "w");
            fprintf(file, "%d", CPU_COUNT(&set));
            return fclose(file);
        }
    "#;
    let Some(run) = captured(source, false) else { return };
    // Not what a quota leaves of them.
    let own = outlast_check::sys::Processors::of(0).unwrap().bytes();
    let all: u32 = own.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(stores(&run), [(0, all.to_string())]);
}

/// A store that the program may not make is its own fault, guarded or not.
#[test]
fn a_fault_of_the_program_stays_one() {
    let source = r#"
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main(int count, char **words) {
            int file = open(words[1], O_CREAT | O_RDWR, 0644);
            if (ftruncate(file, 4096)) return 1;
            volatile char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            map[0] = 'a';
            if (mprotect((char *)map, 4096, PROT_READ)) return 2;
            map[0] = 'b';
            return 0;
        }
    "#;
    let Some(run) = captured(source, true) else { return };
    assert_eq!(run.ended.to_string(), "signal 11");
    assert_eq!(stores(&run), [(0, "a".to_owned())]);
}
