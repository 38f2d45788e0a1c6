//! The calls that led to an operation: a helper that flushes and fences has many callers, and one
//! of them is the place to look at.

use std::backtrace::Backtrace;
use std::fmt;
use std::path::Path;

use outlast_pmem::Site;

/// The most callers that are reported.
const CALLERS_MAX: usize = 4;

/// A call on the way to an operation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Caller {
    /// The source file.
    pub file: String,
    /// The line in it.
    pub line: u32,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The calls between the one into the medium, which `site` names, and the check that runs the
/// program; innermost first. None where the program has no debug information. Where it is optimised, a call that
/// ends a function is a jump, and that function is left out.
pub(super) fn callers(trace: &Backtrace, site: &Site) -> Vec<Caller> {
    let frames = frames(&trace.to_string());
    let location = site.location;
    let is_site = |frame: &Caller| {
        is_same_file(&frame.file, location.file()) && frame.line == location.line()
    };
    let Some(site) = frames.iter().position(is_site) else { return Vec::new() };
    let mut callers = frames[site..].to_vec();
    callers.dedup();
    callers.remove(0);
    callers.truncate(CALLERS_MAX);
    callers
}

/// The frames of the program that have a place in a source file.
fn frames(trace: &str) -> Vec<Caller> {
    let places = trace.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    let mut frames = Vec::new();
    for place in places {
        let mut parts = place.rsplitn(3, ':');
        let (Some(_), Some(line), Some(file)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if is_of_the_check(file) {
            break;
        }
        let is_std = file.starts_with("/rustc/") || file.contains("/library/");
        if let (false, Ok(line)) = (is_std, line.parse()) {
            let file = file.strip_prefix("./").unwrap_or(file).to_owned();
            frames.push(Caller { file, line });
        }
    }
    frames
}

/// Whether a frame belongs to what runs the program.
fn is_of_the_check(file: &str) -> bool {
    let here = Path::new(file!());
    let source = here.parent().and_then(Path::parent).unwrap_or(here);
    let own = [
        here.with_file_name("run.rs"),
        here.with_file_name("program.rs"),
        source.join("check.rs"),
        source.with_file_name("caught.rs"),
    ];
    own.iter().any(|own| is_same_file(file, &own.to_string_lossy()))
}

/// Whether two paths can be of one file, told from different folders.
fn is_same_file(a: &str, b: &str) -> bool {
    let (a, b) = (Path::new(a.trim_start_matches("./")), Path::new(b.trim_start_matches("./")));
    a.ends_with(b) || b.ends_with(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_std_and_of_the_check_are_left_out() {
        let trace = "   0: <Recorder as Medium>::fence\n             at ../outlast-pmem/src/recorder.rs:300:9\n   \
                     1: persist\n             at ./src/lib.rs:21:5\n   \
                     2: call_once\n             at /rustc/abc/library/core/src/ops/function.rs:250:5\n   \
                     3: one\n             at ./src/bin/probes.rs:7:9\n   \
                     4: {closure#0}\n             at /x/crates/outlast-check/src/memory/check/run.rs:90:4\n   \
                     5: main\n             at ./src/bin/probes.rs:99:9\n";
        let places: Vec<String> = frames(trace).iter().map(Caller::to_string).collect();
        assert_eq!(
            places,
            ["../outlast-pmem/src/recorder.rs:300", "src/lib.rs:21", "src/bin/probes.rs:7"]
        );
    }

    #[test]
    fn files_are_the_same_whatever_folder_they_are_told_from() {
        assert!(is_same_file("./tests/a/b.rs", "crates/x/tests/a/b.rs"));
        assert!(is_same_file("/home/u/x/src/lib.rs", "src/lib.rs"));
        assert!(!is_same_file("src/lib.rs", "src/other.rs"));
    }
}
