//! Captured runs of `outlast check` behind a right head: loaded, ordered under every model, laid out as
//! trees, written into a folder.

#![no_main]

use std::collections::BTreeSet;
use std::hash::Hasher;

use libfuzzer_sys::fuzz_target;
use outlast_check::order::{Grain, Ordered};
use outlast_check::run::{Call, Change, Event, Growth, NodeId, Run, Step, Sync};
use outlast_check::search::bases;
use outlast_check::tree::{Node, Tree};
use outlast_check::{models, saved};
use outlast_fuzz::{file, seeds};
use siphasher::sip128::{Hasher128, SipHasher13};

/// Bytes of content that are written out: files may be said to be longer than any disk.
const WRITTEN_BYTES_MAX: u64 = 1 << 20;

fn seed(steps: Vec<Step>) -> Vec<u8> {
    let mut run = Run::empty("data".into());
    run.base = Tree::default();
    let root = [(b"old".to_vec(), NodeId(1)), (b"link".to_vec(), NodeId(2))];
    run.base.add(Node::Dir(root.into()));
    run.base.add(Node::File(Default::default()));
    run.base.add(Node::Link(b"old".to_vec()));
    run.base.add(Node::File(Default::default()));
    run.calls.push(Call { tid: 1, text: "write(new)".into(), place: String::new() });
    run.events = steps.into_iter().map(|step| Event { call: 0, step }).collect();
    postcard::to_stdvec(&run).expect("a run can be kept")
}

fn all_seeds() -> [Vec<u8>; 3] {
    let (root, old, new) = (NodeId(0), NodeId(1), NodeId(3));
    let name =
        |name: &[u8], node| Step::Change(Change::Name { dir: root, name: name.to_vec(), node });
    let data = |node, offset| Step::Change(Change::Data { node, offset, bytes: vec![7; 20] });
    let size = |node, to| Step::Change(Change::Size { node, from: 0, to, growth: Growth::Append });
    [
        seed(vec![
            Step::Issued(1),
            name(b"new", Some(new)),
            data(new, 0),
            size(new, 20),
            Step::Sync(Sync::File(new)),
            Step::Change(Change::Move {
                from: (root, b"new".to_vec()),
                to: (root, b"old".to_vec()),
                node: new,
                exchanged: None,
            }),
            Step::Sync(Sync::Dir(root)),
            Step::Acked(1),
        ]),
        seed(vec![
            data(old, 5000),
            size(old, 6000),
            Step::Sync(Sync::Data(old, 0..4096)),
            Step::Change(Change::Cut { node: old, to: 100 }),
            Step::Sync(Sync::All),
            data(old, 50),
            Step::Sync(Sync::Started(old, 0..100)),
            Step::Unsynced(old),
        ]),
        seed(vec![Step::Writes { key: "k".into(), version: 3 }, name(b"old", None)]),
    ]
}

fn use_run(run: &Run) {
    let _ = (run.counts(), run.whole());
    for &model in models::ALL {
        let grain = Grain { bytes: if model.torn { 512 } else { 4096 } };
        let ordered = Ordered::new(run, model, grain, None);
        for (moment, base) in ordered.moments.iter().zip(bases(run, &ordered)).take(8) {
            let pending = ordered.pending(moment);
            let first: BTreeSet<usize> = pending.iter().copied().take(2).collect();
            let kept = ordered.with_needs(moment, &first);
            for kept in [ordered.without(moment, &first), kept] {
                let tree = base.tree(&ordered, &kept);
                let _ = tree.hash(&run.read);
                let sizes = (0..tree.len() as u32).filter_map(|node| tree.content(NodeId(node)));
                if sizes.map(|content| content.size).all(|size| size < WRITTEN_BYTES_MAX) {
                    write(&tree);
                }
            }
        }
    }
}

/// A tree lands in its folder, and nowhere else.
fn write(tree: &Tree) {
    let outer = tempfile::tempdir_in(std::env::temp_dir()).expect("a folder can be made");
    let folder = outer.path().join("inner");
    std::fs::create_dir(&folder).expect("a folder can be made");
    if tree.write_to(&folder).is_ok() {
        let _ = tree.difference(&folder);
    }
    let beside = std::fs::read_dir(outer.path()).expect("it is there").count();
    assert_eq!(beside, 1, "a name leads out of the folder");
}

fuzz_target!(init: seeds(all_seeds()), |input: &[u8]| {
    let mut hasher = SipHasher13::new();
    hasher.write(input);
    let hash = hasher.finish128().as_bytes();
    let path = file("run", &[&b"outlastR"[..], &1u32.to_le_bytes(), &hash, input].concat());
    if let Ok(run) = saved::load(&path) {
        use_run(&run);
    }
});
