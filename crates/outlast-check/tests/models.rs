//! Each rule of each model: what a crash may leave under it, and what it may not. Short programs are laid out in full.

use std::collections::{BTreeMap, BTreeSet};

use outlast_check::models;
use outlast_check::order::{Grain, Ordered};
use outlast_check::run::{Call, Change, Event, Growth, NodeId, Run, Step, Sync};
use outlast_check::search::bases;
use outlast_check::tree::{Node, ROOT, Tree};

const PAGE: u64 = 4096;
/// More pending changes than this are not laid out in full.
const UNITS_MAX: usize = 16;

/// A program, call by call.
struct Program {
    run: Run,
    now: Tree,
    files: BTreeMap<&'static str, NodeId>,
}

impl Program {
    fn new() -> Self {
        let run = Run::empty("dir".into());
        Self { now: run.base.clone(), run, files: BTreeMap::new() }
    }

    /// A file that is there, durable, before the run.
    fn with(mut self, name: &'static str, content: &[u8]) -> Self {
        let file = self.node(name, Node::File(Default::default()));
        let size = content.len() as u64;
        let named = Change::Name { dir: ROOT, name: name.into(), node: Some(file) };
        let sized = Change::Size { node: file, from: 0, to: size, growth: Growth::Append };
        for change in [named, sized] {
            self.both(&change);
        }
        for (page, bytes) in content.chunks(PAGE as usize).enumerate() {
            let offset = page as u64 * PAGE;
            self.both(&Change::Data { node: file, offset, bytes: bytes.to_vec() });
        }
        self
    }

    fn both(&mut self, change: &Change) {
        self.run.base.apply(change);
        self.now.apply(change);
    }

    fn node(&mut self, name: &'static str, node: Node) -> NodeId {
        self.run.base.add(node.clone());
        let id = self.now.add(node);
        self.files.insert(name, id);
        id
    }

    fn step(&mut self, step: Step) {
        if let Step::Change(change) = &step {
            self.now.apply(change);
        }
        self.run.calls.push(Call { tid: 1, text: String::new(), place: String::new() });
        let call = self.run.calls.len() as u32 - 1;
        self.run.events.push(Event { call, step });
    }

    fn create(mut self, name: &'static str) -> Self {
        let node = Some(self.node(name, Node::File(Default::default())));
        self.step(Step::Change(Change::Name { dir: ROOT, name: name.into(), node }));
        self
    }

    fn mkdir(mut self, name: &'static str) -> Self {
        let node = Some(self.node(name, Node::Dir(BTreeMap::new())));
        self.step(Step::Change(Change::Name { dir: ROOT, name: name.into(), node }));
        self
    }

    fn write(mut self, name: &'static str, offset: u64, bytes: &[u8]) -> Self {
        let node = self.files[name];
        let from = self.now.content(node).unwrap().size;
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.len().min((PAGE - at % PAGE) as usize));
            self.step(Step::Change(Change::Data { node, offset: at, bytes: part.to_vec() }));
            (at, rest) = (at + part.len() as u64, behind);
        }
        let tail = from.next_multiple_of(PAGE).min(at);
        if tail > from {
            let growth = Growth::Tail;
            self.step(Step::Change(Change::Size { node, from, to: tail, growth }));
        }
        if at > tail.max(from) {
            let (from, growth) = (tail.max(from), Growth::Append);
            self.step(Step::Change(Change::Size { node, from, to: at, growth }));
        }
        self
    }

    fn append(self, name: &'static str, bytes: &[u8]) -> Self {
        let end = self.now.content(self.files[name]).unwrap().size;
        self.write(name, end, bytes)
    }

    fn truncate(mut self, name: &'static str, to: u64) -> Self {
        let node = self.files[name];
        let from = self.now.content(node).unwrap().size;
        self.step(Step::Change(if to < from {
            Change::Cut { node, to }
        } else {
            Change::Size { node, from, to, growth: Growth::Explicit }
        }));
        self
    }

    fn rename(mut self, from: &'static str, to: &'static str) -> Self {
        let node = self.files[from];
        self.files.insert(to, node);
        let (from, to) = ((ROOT, from.into()), (ROOT, to.into()));
        self.step(Step::Change(Change::Move { from, to, node, exchanged: None }));
        self
    }

    fn unlink(mut self, name: &'static str) -> Self {
        self.step(Step::Change(Change::Name { dir: ROOT, name: name.into(), node: None }));
        self
    }

    fn fsync(mut self, name: &'static str) -> Self {
        self.step(Step::Sync(Sync::File(self.files[name])));
        self
    }

    fn fdatasync(mut self, name: &'static str) -> Self {
        self.step(Step::Sync(Sync::Data(self.files[name], 0..u64::MAX)));
        self
    }

    fn sync_file_range(mut self, name: &'static str) -> Self {
        self.step(Step::Sync(Sync::Started(self.files[name], 0..u64::MAX)));
        self
    }

    fn failed_fsync(mut self, name: &'static str) -> Self {
        self.step(Step::Unsynced(self.files[name]));
        self
    }

    fn fsync_dir(mut self) -> Self {
        self.step(Step::Sync(Sync::Dir(ROOT)));
        self
    }

    fn sync(mut self) -> Self {
        self.step(Step::Sync(Sync::All));
        self
    }

    /// All directories that a crash may leave at the end of the program, as text.
    fn leaves(&self, model: &str, sector: usize) -> BTreeSet<String> {
        let model = models::find(model).unwrap();
        let ordered = Ordered::new(&self.run, model, Grain { bytes: sector }, None);
        let moment = ordered.moments.last().unwrap();
        let base = bases(&self.run, &ordered).pop().unwrap();
        let pending = ordered.pending(moment);
        assert!(pending.len() <= UNITS_MAX, "{} changes are pending", pending.len());
        let mut found = BTreeSet::new();
        for bits in 0_u32..1 << pending.len() {
            let kept = pending.iter().enumerate().filter(|(index, _)| bits & (1 << index) != 0);
            let kept = ordered.with_needs(moment, &kept.map(|(_, &unit)| unit).collect());
            assert!(ordered.allows(moment, moment.below, &kept), "a closed set is allowed");
            found.insert(shown(&base.tree(&ordered, &kept)));
        }
        found
    }
}

/// A directory as text: each name with its content, letters by their runs: `log=a4096 b512 new`.
fn shown(tree: &Tree) -> String {
    let Node::Dir(names) = tree.node(ROOT) else { panic!("the root is a directory") };
    let mut text = String::new();
    for (name, &node) in names {
        text.push_str(&String::from_utf8_lossy(name));
        if let Some(content) = tree.content(node) {
            text.push('=');
            let mut bytes = vec![0; content.size as usize];
            content.read(0, &mut bytes);
            for run in bytes.chunk_by(|one, other| one == other) {
                let letter = if run[0] == 0 { '0' } else { char::from(run[0]) };
                text.push_str(&format!("{letter}{} ", run.len()));
            }
        } else {
            text.push('/');
        }
        text = text.trim_end().to_owned() + " ";
    }
    text.trim_end().to_owned()
}

const ALL: [&str; 9] =
    ["linux", "ext4", "ext4-writeback", "ext4-journal", "xfs", "btrfs", "f2fs", "posix", "prefix"];

fn letters(letter: u8, count: u64) -> Vec<u8> {
    vec![letter; count as usize]
}

/// Models of all that may leave `state` behind `program`.
#[track_caller]
fn may(program: &Program, state: &str, allowed: &[&str]) {
    let by: Vec<&str> =
        ALL.into_iter().filter(|model| program.leaves(model, 4096).contains(state)).collect();
    assert_eq!(by, allowed, "'{state}' of {:?}", program.leaves("linux", 4096));
}

#[test]
fn every_model_is_tried() {
    assert_eq!(models::ALL.iter().map(|model| model.name).collect::<Vec<_>>(), ALL);
}

/// ext4: ext4_da_should_update_i_disksize; the repro `foo`, sync, `bar` of "ext4: defer updating i_disksize until
/// endio" (2023-03-24).
#[test]
fn an_append_in_a_block_on_the_disk_may_be_zeros() {
    let program = Program::new().with("log", b"aaa").append("log", b"bbb");
    may(&program, "log=a3 03", &["linux", "ext4", "ext4-writeback", "posix"]);
}

/// ext4, xfs: sizes of appends on new blocks follow their data (data=ordered; size at I/O completion, ba87ea69).
#[test]
fn an_append_on_new_blocks_has_its_data() {
    let program = Program::new().with("log", &letters(b'a', PAGE)).append("log", b"bbb");
    may(&program, "log=a4096 03", &["linux", "ext4-writeback", "posix"]);
}

/// Two pages of one append come in either order where sizes wait for their own data alone.
#[test]
fn a_size_waits_for_the_data_before_it() {
    let program =
        Program::new().with("log", b"").append("log", &letters(b'a', PAGE)).append("log", b"b");
    may(&program, "log=04096 b1", &["linux", "ext4-writeback", "posix"]);
}

/// A rename over a file (auto_da_alloc of admin-guide/ext4).
#[test]
fn a_rename_over_a_file_flushes_the_new_one() {
    let over = Program::new().with("new", b"").with("old", b"aaa").append("new", b"bbb");
    let over = over.rename("new", "old");
    may(&over, "old=", &["linux", "ext4-writeback", "xfs", "btrfs", "f2fs", "posix"]);
}

/// The same to a name that was free: a file of no bytes is what users report of ext4.
#[test]
fn a_rename_to_a_new_name_flushes_nothing() {
    let to_new = Program::new().with("new", b"").append("new", b"bbb").rename("new", "old");
    may(&to_new, "old=", &["linux", "ext4", "ext4-writeback", "xfs", "btrfs", "f2fs", "posix"]);
}

/// POSIX says nothing of the name; all of Linux's keep it (btrfs a3baaf0, f2fs fsync_mode=strict, journals of the rest).
#[test]
fn fsync_of_a_new_file_keeps_its_name() {
    let program = Program::new().create("log").append("log", b"aaa").fsync("log");
    may(&program, "", &["posix"]);
    may(&program, "log=a3", &ALL);
}

/// One journal (ext4, xfs): what was named before is kept, too. btrfs and f2fs write one file's (tree-log.c).
#[test]
fn fsync_keeps_earlier_names_where_there_is_one_journal() {
    let program = Program::new().mkdir("before").create("log").fsync("log");
    may(&program, "log=", &["linux", "btrfs", "f2fs", "posix"]);
    let other = Program::new().create("log").mkdir("behind").fsync("log");
    // xfs writes its log up to the file's own last change.
    may(&other, "log=", &["linux", "xfs", "btrfs", "f2fs", "posix"]);
}

/// The order of names: one journal, transactions, or none promised in common.
#[test]
fn names_are_kept_in_order_but_for_the_least_promise() {
    let program = Program::new().mkdir("first").mkdir("second");
    may(&program, "second/", &["linux", "posix"]);
}

/// `fsync` of a directory keeps its names (btrfs 2f2ff0e).
#[test]
fn fsync_of_a_directory_keeps_names_not_content() {
    let program = Program::new().create("log").append("log", b"aaa").fsync_dir();
    may(&program, "", &[]);
    may(&program, "log=", &["linux", "ext4", "ext4-writeback", "xfs", "btrfs", "f2fs", "posix"]);
}

/// An unlink is no more durable than another name.
#[test]
fn an_unlinked_file_comes_back_until_the_directory_is_synced() {
    let program = Program::new().with("log", b"aaa").unlink("log");
    may(&program, "log=a3", &ALL);
    may(&program.fsync_dir(), "log=a3", &[]);
}

/// `fdatasync` is `fsync` where the size is pending; else it forces no journal.
#[test]
fn fdatasync_forces_a_size_and_no_other_metadata() {
    let grown = Program::new().with("log", b"").append("log", b"aaa").fdatasync("log");
    may(&grown, "log=", &[]);
    let written = Program::new().with("log", b"aaa").mkdir("other").write("log", 0, b"bbb");
    let written = written.fdatasync("log");
    may(&written, "log=a3", &[]);
    let without = ["linux", "ext4", "ext4-writeback", "xfs", "btrfs", "f2fs", "posix"];
    may(&written, "log=b3", &without);
}

/// man sync_file_range: no flush of the disk's cache. The next sync flushes it.
#[test]
fn sync_file_range_forces_nothing_until_another_sync() {
    let program = Program::new().with("log", b"aaa").with("other", b"").write("log", 0, b"bbb");
    let program = program.sync_file_range("log");
    may(&program, "log=a3 other=", &ALL);
    let then = program.append("other", b"c").fsync("other");
    may(&then, "log=a3 other=c1", &[]);
}

/// Failed fsync (Rebello and others, ATC'20): pages are clean, no later sync writes them.
#[test]
fn a_failed_sync_leaves_its_pages_out_of_later_ones() {
    let program = Program::new().with("log", b"aaa").write("log", 0, b"bbb");
    let program = program.failed_fsync("log").fsync("log");
    may(&program, "log=a3", &ALL);
}

/// Blocks are copied on write in btrfs, and written twice with data=journal: sectors come one by one elsewhere.
#[test]
fn pages_are_torn_where_blocks_are_written_in_place() {
    let program =
        Program::new().with("log", &letters(b'a', PAGE)).write("log", 0, &letters(b'b', 1024));
    let torn = "log=b512 a3584";
    let by: Vec<&str> =
        ALL.into_iter().filter(|model| program.leaves(model, 512).contains(torn)).collect();
    assert_eq!(by, ["linux", "ext4", "ext4-writeback", "xfs", "f2fs", "posix"]);
    may(&program, torn, &[]);
}

/// Space that is asked for is a size of its own.
#[test]
fn a_file_that_was_grown_reads_as_zeros() {
    let program = Program::new().with("log", b"").truncate("log", 3).write("log", 0, b"aaa");
    may(&program, "log=03", &ALL);
}

/// A cut is in the journal; data of before it never comes back behind it.
#[test]
fn data_before_a_cut_stays_cut() {
    let program = Program::new().with("log", b"aaa").truncate("log", 0).append("log", b"b");
    for model in ALL {
        let leaves = program.leaves(model, 4096);
        assert!(
            leaves.iter().all(
                |state| ["log=a3", "log=", "log=b1", "log=01", "log=b1 a2"].contains(&&**state)
            ),
            "{leaves:?}"
        );
    }
    // New data on old pages takes a new block.
    may(&program, "log=b1 a2", &[]);
}

/// A journal forces a cut while data of before it is pending: the data does not come back when the file grows again.
#[test]
fn pending_data_does_not_outlive_a_cut_that_is_durable() {
    let program =
        Program::new().with("f", &letters(b'a', PAGE)).write("f", 0, &letters(b'b', PAGE));
    let program = program.truncate("f", 0).create("g").fsync("g").truncate("f", PAGE);
    let leaves = program.leaves("ext4", 4096);
    assert_eq!(leaves, BTreeSet::from(["f= g=", "f=04096 g="].map(str::to_owned)));
}

#[test]
fn sync_keeps_everything() {
    let program = Program::new().mkdir("before").create("log").append("log", b"aaa").sync();
    for model in ALL {
        assert_eq!(program.leaves(model, 512), BTreeSet::from(["before/ log=a3".to_owned()]));
    }
}

#[test]
fn the_order_of_the_program_leaves_prefixes() {
    let program = Program::new().mkdir("first").create("log").append("log", b"a");
    let prefixes = ["", "first/", "first/ log=", "first/ log=a1"].map(str::to_owned);
    for model in ["prefix", "ext4-journal"] {
        // The data of an append and its size are two changes: data alone is not seen.
        assert_eq!(program.leaves(model, 4096), BTreeSet::from(prefixes.clone()));
    }
}

/// A property of a file system: whether all that a crash leaves of a program is as it says.
struct Property {
    name: &'static str,
    /// As Pillai and others have it (OSDI'14, Table 1), for ext4 (ordered, writeback, data=journal), xfs and btrfs; none
    /// where its print does not tell.
    published: [Option<bool>; 5],
    holds: fn(&str) -> bool,
}

const COMPARED: [&str; 5] = ["ext4", "ext4-writeback", "ext4-journal", "xfs", "btrfs"];

fn all_of(model: &str, sector: usize, program: &Program, right: &[&str]) -> bool {
    program.leaves(model, sector).iter().all(|state| right.contains(&state.as_str()))
}

/// Whether no state has `later` without `earlier`.
fn in_order(model: &str, program: &Program, earlier: &str, later: &str) -> bool {
    let leaves = program.leaves(model, 4096);
    leaves.iter().all(|state| !state.contains(later) || state.contains(earlier))
}

const PROPERTIES: [Property; 13] = [
    Property {
        name: "overwrite of a sector is atomic",
        published: [Some(true); 5],
        holds: |model| {
            let program =
                Program::new().with("f", &letters(b'a', 512)).write("f", 0, &letters(b'b', 512));
            all_of(model, 512, &program, &["f=a512", "f=b512"])
        },
    },
    Property {
        name: "append of a sector is atomic",
        published: [Some(true), Some(false), Some(true), Some(true), Some(true)],
        holds: |model| {
            let program = Program::new().with("f", b"").append("f", &letters(b'b', 512));
            all_of(model, 512, &program, &["f=", "f=b512"])
        },
    },
    Property {
        name: "overwrite of a block is atomic",
        published: [Some(false), Some(false), Some(true), Some(false), Some(true)],
        holds: |model| {
            let program =
                Program::new().with("f", &letters(b'a', PAGE)).write("f", 0, &letters(b'b', PAGE));
            all_of(model, 1024, &program, &["f=a4096", "f=b4096"])
        },
    },
    Property {
        name: "append of a block is atomic",
        published: [Some(true), Some(false), Some(true), Some(true), Some(true)],
        holds: |model| {
            let program = Program::new().with("f", b"").append("f", &letters(b'b', PAGE));
            all_of(model, 1024, &program, &["f=", "f=b4096"])
        },
    },
    Property {
        name: "append of blocks by several calls is atomic",
        published: [Some(false); 5],
        holds: |model| {
            let program = Program::new().with("f", b"").append("f", &letters(b'b', PAGE));
            let program = program.append("f", &letters(b'b', PAGE));
            all_of(model, 4096, &program, &["f=", "f=b8192"])
        },
    },
    Property {
        name: "of an append of blocks a prefix is kept",
        published: [Some(true), Some(false), Some(true), Some(true), Some(true)],
        holds: |model| {
            let program = Program::new().with("f", b"").append("f", &letters(b'b', 2 * PAGE));
            all_of(model, 4096, &program, &["f=", "f=b4096", "f=b8192"])
        },
    },
    Property {
        name: "an operation on a directory is atomic",
        published: [Some(true); 5],
        holds: |model| {
            let program = Program::new().with("f", b"a").with("g", b"b").rename("f", "g");
            all_of(model, 4096, &program, &["f=a1 g=b1", "g=a1"])
        },
    },
    Property {
        name: "overwrite, then any",
        published: [Some(false), Some(false), Some(true), Some(false), Some(true)],
        holds: |model| {
            let program = Program::new().with("f", b"a").write("f", 0, b"b").mkdir("z");
            in_order(model, &program, "f=b1", "z/")
        },
    },
    Property {
        name: "append and rename over a file, then any",
        published: [Some(true), Some(false), Some(true), Some(true), Some(true)],
        holds: |model| {
            let program = Program::new().with("e", b"").with("f", b"a").append("e", b"b");
            in_order(model, &program.rename("e", "f").mkdir("z"), "f=b1", "z/")
        },
    },
    Property {
        name: "cut to nothing and append, then any",
        published: [Some(true), Some(false), Some(true), Some(true), Some(true)],
        holds: |model| {
            let program =
                Program::new().with("f", b"a").truncate("f", 0).append("f", b"b").mkdir("z");
            in_order(model, &program, "f=b1", "z/")
        },
    },
    Property {
        name: "append, then append to the same file",
        published: [Some(true), Some(false), Some(true), Some(true), Some(true)],
        holds: |model| {
            let program =
                Program::new().with("f", b"").append("f", &letters(b'a', PAGE)).append("f", b"b");
            in_order(model, &program, "a4096", "b1")
        },
    },
    Property {
        name: "append, then any",
        published: [Some(false), Some(false), Some(true), None, None],
        holds: |model| {
            let program = Program::new().with("f", b"").append("f", b"b").mkdir("z");
            in_order(model, &program, "f=b1", "z/")
        },
    },
    Property {
        name: "operation on a directory, then any",
        published: [Some(true), Some(true), Some(true), Some(true), Some(false)],
        holds: |model| {
            let program = Program::new().mkdir("a").mkdir("z");
            // A sync of the later one may leave the earlier one behind.
            let synced = Program::new().mkdir("a").create("z").fsync("z");
            in_order(model, &program, "a/", "z/") && in_order(model, &synced, "a/", "z=")
        },
    },
];

/// The table of `docs/check-files.md` is what the models do; a cell that differs from the published one is in brackets.
#[test]
fn properties_are_those_of_the_documentation() {
    let documentation = include_str!("../../../docs/check-files.md");
    let mut table = String::new();
    for property in &PROPERTIES {
        table.push_str(&format!("| {} |", property.name));
        for (model, published) in COMPARED.into_iter().zip(property.published) {
            let holds = (property.holds)(model);
            let mark = if holds { "yes" } else { "no" };
            table.push_str(&match published {
                Some(published) if published != holds => format!(" [{mark}] |"),
                _ => format!(" {mark} |"),
            });
        }
        table.push('\n');
    }
    assert!(documentation.contains(&table), "the documentation's table is not this one:\n{table}");
}
