//! The books notice links and counts that do not fit together.

use super::session::count_value;
use super::tables::{Listed, key, stamp_link};
use super::*;
use crate::{Scale, Volatile, VolatileTx, Workload};

type Act<'a> = dyn Fn(&mut Session<'_, VolatileTx, ()>) -> Result<u64, Abort> + 'a;

type Change = fn(&mut VolatileTx, &Tables, &Graph, Link) -> Result<bool, Abort>;

/// How the first link of a node that has one is listed when no transaction has touched it.
const LISTED: Listed = Listed { moment: 0, is_hidden: false };

fn link_key(graph: &Graph, link: Link, listed: Listed) -> [u8; 16] {
    key::link(link.from, link.kind(), listed, graph.target(link))
}

fn moment_key(graph: &Graph, link: Link) -> [u8; 16] {
    key::pair(link.from, link.kind(), graph.target(link))
}

/// A link's value, stamped as it should be.
fn value(graph: &Graph, link: Link, listed: Listed) -> Vec<u8> {
    let mut value = vec![0; LINK_DATA_AT + 5];
    stamp_link(graph.fact_of_link(link), listed, Version(9), &mut value);
    value
}

const CHANGES: [(&str, Change); 7] = [
    ("the number of visible links", |tx, tables, graph, link| {
        let fact = graph.fact_of_count(link.from, link.kind());
        let links = graph.degree(link.from).div_ceil(TYPES) + 1;
        let key = key::pair(link.from, link.kind(), 0);
        tables.of(Table::Counts).insert(tx, &key, &count_value(fact, Version(9), links))
    }),
    ("the number of visible links", |tx, tables, _, link| {
        tables.of(Table::Counts).remove(tx, &key::pair(link.from, link.kind(), 0))
    }),
    ("the number of visible links", |tx, tables, graph, link| {
        // Hidden where it is listed and in its moment, and still counted.
        let hidden = Listed { is_hidden: true, ..LISTED };
        tables.of(Table::Links).remove(tx, &link_key(graph, link, LISTED))?;
        let (key, value) = (link_key(graph, link, hidden), value(graph, link, hidden));
        tables.of(Table::Links).add(tx, &key, &value)?;
        tables.of(Table::Moments).insert(tx, &moment_key(graph, link), &hidden.to_bytes())
    }),
    ("not listed where its moment says", |tx, tables, graph, link| {
        let later = Listed { moment: 5, ..LISTED };
        tables.of(Table::Moments).insert(tx, &moment_key(graph, link), &later.to_bytes())
    }),
    ("links have no moment", |tx, tables, graph, link| {
        tables.of(Table::Moments).remove(tx, &moment_key(graph, link))
    }),
    ("listed twice", |tx, tables, graph, link| {
        let later = Listed { moment: 5, ..LISTED };
        let (key, value) = (link_key(graph, link, later), value(graph, link, later));
        tables.of(Table::Links).add(tx, &key, &value)
    }),
    ("no version of it", |tx, tables, graph, link| {
        // Of another moment than its key's.
        let value = value(graph, link, Listed { moment: 5, ..LISTED });
        tables.of(Table::Links).insert(tx, &link_key(graph, link, LISTED), &value)
    }),
];

#[test]
fn links_and_counts_that_do_not_fit_are_noticed() {
    let workload = Workload::named("linkbench").unwrap();
    let scale = Scale { records: 50, ..workload.scale() };
    let graph = Graph::new(50);
    let from = (1..=50).find(|&node| graph.degree(node) > 0).unwrap();
    let link = Link { from, nth: 0 };
    for (what, change) in CHANGES {
        let mut pool = Volatile::new();
        workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
        let (root, _) = pool.root().unwrap();
        let tables = pool.run(|tx| Tables::open(tx, root)).unwrap().unwrap();
        pool.run(|tx| check(&graph, &tables, tx)).unwrap();
        assert!(pool.run(|tx| change(tx, &tables, &graph, link)).unwrap(), "{what}");
        let found = pool.run(|tx| check(&graph, &tables, tx)).expect_err(what).to_string();
        assert!(found.contains(what), "{found} instead of {what}");
        let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
        assert!(audit(&graph, root, &mut read, &mut |_, _| ()).unwrap_err().what.contains(what));
    }
}

#[test]
fn lists_come_newest_first_and_without_what_is_hidden() {
    let graph = Graph::new(50);
    let mut pool = Volatile::new();
    let tables = pool.run(|tx| Tables::create(tx, Default::default())).unwrap();
    let mut seen = Vec::new();
    let mut version = 0;
    let mut act = |act: &Act<'_>| {
        version += 1;
        let of = (&tables, &graph);
        pool.run(|tx| act(&mut Session::new(tx, &mut (), of, Version(version), &mut seen))).unwrap()
    };
    let link = |nth| Link { from: 7, nth };
    for nth in [0, 2, 4] {
        act(&|session| session.put_link(link(nth), b"first").map(|()| 0));
    }
    act(&|session| session.put_link(link(0), b"second").map(|()| 0));
    act(&|session| session.delete_link(link(2)).map(|()| 0));
    act(&|session| session.delete_link(link(2)).map(|()| 0));
    assert_eq!(act(&|session| session.count_links(7, 0)), 2);
    assert_eq!(act(&|session| session.get_links(7, 0)), 2);
    assert_eq!(act(&|session| session.get_links(7, 1)), 0);
    assert_eq!(act(&|session| session.get_link(link(2)).map(u64::from)), 0);
    act(&|session| session.put_link(link(2), b"third").map(|()| 0));
    assert_eq!(act(&|session| session.count_links(7, 0)), 3);

    let mut listed = Vec::new();
    pool.run(|tx| {
        listed.clear();
        tables.of(Table::Links).for_each(tx, |_, key, _| {
            let (.., to) = key::link_parts(key.try_into().unwrap());
            listed.push(to);
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(listed, [2, 0, 4].map(|nth| graph.target(link(nth))));
    pool.run(|tx| check(&graph, &tables, tx)).unwrap();
}
