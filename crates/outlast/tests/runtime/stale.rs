//! Stale lines: one line of a pool is as it was some commits or openings before. What shows it to be
//! older is refused; `docs/recovery.md` says what shows nothing.

use crate::common::geometry_of;
use outlast::collections::{ByteMap, ByteMapOptions, Dictionary};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Pool, PoolError, RootKind, Runner, Scheme, Transact};
use outlast_pmem::Heap;

const FLOOR: usize = 128;

fn open(scheme: Scheme) -> OpenOptions {
    OpenOptions { lock_stripes: 64, cache_bytes: Some(4096), ..OpenOptions::with_scheme(scheme) }
}

fn opened(image: &[u8], scheme: Scheme) -> Result<Pool<Heap>, PoolError> {
    UnrecoveredPool::open(Heap::from_bytes(image))?.recover()?.start(&open(scheme))
}

fn created(scheme: Scheme) -> Pool<Heap> {
    let create = CreateOptions { lanes: 2, lane_bytes: 16 << 10, ..CreateOptions::default() };
    Pool::create_on(Heap::new(512 << 10), &create, &open(scheme)).unwrap()
}

/// The map of a pool, made where there is none.
fn map_of(pool: &Pool<Heap>) -> ByteMap {
    let mut lane = pool.lane().unwrap();
    let map = lane.run(|tx| match tx.root()? {
        Some((root, _)) => ByteMap::open(tx, root),
        None => {
            let map = ByteMap::create(tx, &ByteMapOptions::default())?;
            tx.set_root(map.root(), RootKind::HashMap)?;
            Ok(map)
        }
    });
    map.unwrap()
}

fn insert(pool: &Pool<Heap>, lane: usize, keys: std::ops::Range<u32>) {
    let map = map_of(pool);
    let mut lane = pool.lane_at(lane).unwrap();
    for key in keys {
        let key = key.to_le_bytes();
        lane.run(|tx| map.insert(tx, &key, &key).map(|_| ())).unwrap();
    }
}

fn count(pool: &Pool<Heap>) -> u64 {
    let map = map_of(pool);
    pool.lane().unwrap().run(|tx| map.len(tx)).unwrap()
}

fn with_line(image: &[u8], older: &[u8], at: usize) -> Vec<u8> {
    let mut image = image.to_vec();
    image[at..at + 64].copy_from_slice(&older[at..at + 64]);
    image
}

const SCHEMES: [Scheme; 5] =
    [Scheme::Undo, Scheme::Redo, Scheme::Swift, Scheme::UndoArchapt, Scheme::Aof];

/// The floor of an earlier opening would make generations repeat, and what is logged then would be taken
/// for older than it is.
#[test]
#[cfg_attr(miri, ignore = "dozens of whole pools take minutes there")]
fn a_floor_of_an_earlier_opening_is_refused() {
    for scheme in SCHEMES {
        let pool = created(scheme);
        insert(&pool, 0, 0..10);
        let mut images = vec![pool.close().to_bytes()];
        for opening in 1..4u32 {
            let pool = opened(images.last().unwrap(), scheme).unwrap();
            insert(&pool, opening as usize % 2, 10 * opening..10 * opening + 10);
            assert_eq!(count(&pool), u64::from(10 * opening + 10));
            images.push(pool.medium().to_bytes());
        }
        let now = images.pop().unwrap();
        for (opening, older) in images.iter().enumerate() {
            let stale = with_line(&now, older, FLOOR);
            match opened(&stale, scheme).map(|_| ()) {
                Err(PoolError::Damaged { at, .. }) => assert_eq!(at.0, FLOOR as u64),
                other => panic!("{scheme}, of opening {opening}: {other:?}"),
            }
        }
        assert_eq!(count(&opened(&now, scheme).unwrap()), 40);
    }
}

/// A floor of before the last sweep of the same opening.
#[test]
fn a_floor_of_before_the_last_sweep_is_refused() {
    for scheme in [Scheme::Redo, Scheme::Swift, Scheme::UndoArchapt] {
        let pool = created(scheme);
        insert(&pool, 0, 0..10);
        let older = pool.medium().to_bytes();
        insert(&pool, 0, 10..1500);
        let now = pool.medium().to_bytes();
        assert_ne!(now[FLOOR..FLOOR + 8], older[FLOOR..FLOOR + 8], "{scheme}: there was a sweep");
        let error = opened(&with_line(&now, &older, FLOOR), scheme).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("the floor is older"), "{scheme}: {error}");
    }
}

/// An older version of a log line that commits lie behind. The last line of a lane may be missing
/// unnoticed, so its last commit is one that changes nothing.
#[test]
#[cfg_attr(miri, ignore = "dozens of whole pools take minutes there")]
fn an_older_line_in_the_middle_of_a_log_loses_nothing_unnoticed() {
    for scheme in [Scheme::Redo, Scheme::Swift, Scheme::Aof, Scheme::RedoArchapt] {
        let pool = created(scheme);
        insert(&pool, 0, 0..10);
        insert(&pool, 1, 10..20);
        let older = pool.medium().to_bytes();
        for keys in [20..35, 50..65] {
            insert(&pool, 0, keys);
        }
        insert(&pool, 1, 35..50);
        insert(&pool, 0, 64..65);
        insert(&pool, 1, 49..50);
        let now = pool.medium().to_bytes();
        drop(pool);
        let geometry = geometry_of(&now);
        let (mut changed, mut refused) = (0, 0);
        for lane in 0..2 {
            let ring = geometry.ring_at(lane).0 as usize;
            for at in (ring..ring + geometry.ring_lines() as usize * 64).step_by(64) {
                if now[at..at + 64] == older[at..at + 64] {
                    continue;
                }
                changed += 1;
                match opened(&with_line(&now, &older, at), scheme) {
                    Err(_) => refused += 1,
                    Ok(pool) => assert_eq!(count(&pool), 65, "{scheme}, line at {at}"),
                }
            }
        }
        assert!(refused > 40 && changed - refused < 16, "{scheme}: {refused} of {changed}");
    }
}

/// The versions that the header line of a lane has had in several openings, oldest first, while a ring of
/// 15 lines went round some times; and the pool, killed and closed.
fn with_versions_of_a_lane(scheme: Scheme) -> (Vec<Vec<u8>>, [Vec<u8>; 2], u64) {
    let create = CreateOptions { lanes: 2, lane_bytes: 1 << 10, ..CreateOptions::default() };
    let mut pool = Pool::create_on(Heap::new(512 << 10), &create, &open(scheme)).unwrap();
    let lane_at = geometry_of(&pool.medium().to_bytes()).lane_at(0).0 as usize;
    let mut versions: Vec<Vec<u8>> = Vec::new();
    let mut keys = 0;
    for opening in 0..6 {
        for _ in 0..if opening == 3 { 1 } else { 25 } {
            insert(&pool, 0, keys..keys + 1);
            keys += 1;
            let image = pool.medium().to_bytes();
            if versions.last().is_none_or(|last| last[lane_at..][..64] != image[lane_at..][..64]) {
                versions.push(image);
            }
        }
        if opening < 5 {
            pool = opened(&pool.close().to_bytes(), scheme).unwrap();
        }
    }
    // What `undo` marks last may be missing unnoticed.
    insert(&pool, 0, keys - 1..keys);
    let killed = pool.medium().to_bytes();
    (versions, [killed, pool.close().to_bytes()], keys.into())
}

/// LOG-9. Either the ring shows that the header of its lane is older than it was, or nothing is lost: not
/// at this opening, and not at the one after the next commits.
#[test]
#[cfg_attr(miri, ignore = "hundreds of whole pools take minutes there")]
fn an_older_header_of_a_lane_loses_nothing_unnoticed() {
    for scheme in [Scheme::Undo, Scheme::Redo, Scheme::Swift, Scheme::UndoArchapt, Scheme::Aof] {
        let (versions, pools, keys) = with_versions_of_a_lane(scheme);
        let lane_at = geometry_of(&pools[0]).lane_at(0).0 as usize;
        for (now, ending) in pools.iter().zip(["killed", "closed"]) {
            let older = versions.iter().filter(|v| v[lane_at..][..64] != now[lane_at..][..64]);
            let mut refused = 0;
            for (nth, older) in older.enumerate() {
                let what = format!("{scheme}, {ending}, version {nth}");
                let pool = match opened(&with_line(now, older, lane_at), scheme) {
                    Ok(pool) => pool,
                    Err(PoolError::Damaged { .. }) => {
                        refused += 1;
                        continue;
                    }
                    Err(error) => panic!("{what}: {error}"),
                };
                assert_eq!(count(&pool), keys, "{what}");
                let more = keys as u32..keys as u32 + 7;
                insert(&pool, 0, more.clone());
                let pool = opened(&pool.into_medium().to_bytes(), scheme).expect(&what);
                assert_eq!(count(&pool), keys + more.len() as u64, "{what}, later");
            }
            // A lane of a pool that was closed begins anew instead (CLOSE-1).
            let refuses = scheme.streams_log() && ending != "closed";
            assert!(!refuses || refused > 5, "{scheme}, {ending}: {refused} of {}", versions.len());
        }
    }
}
