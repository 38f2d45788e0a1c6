use outlast::Scheme;

use super::*;

fn all(directory: &Path) -> Vec<Box<dyn Engine>> {
    let options = OursOptions {
        scheme: Scheme::Swift,
        domain: None,
        threads: 2,
        lane_bytes: 64 << 10,
        data_bytes: 1 << 20,
    };
    let mut all = peers(directory, 1 << 20).unwrap();
    assert_eq!(all.len(), PEERS.len());
    assert_eq!(all.len() == 4, how_to_build().is_none());
    all.push(Box::new(Ours::create(&directory.join("pool"), options).unwrap()));
    all
}

#[test]
fn every_engine_keeps_pairs_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    for engine in all(directory.path()) {
        let mut session = engine.session().unwrap();
        let pairs: Vec<_> = (0..100u8).map(|n| ([n; 8], [n; 20])).collect();
        let borrowed: Vec<Pair<'_>> = pairs.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        let before = engine.syncs();
        session.put(&borrowed[50..]).unwrap();
        session.put(&borrowed[..50]).unwrap();
        session.put(&[(&[7; 8], &[1; 30])]).unwrap();
        let counted = before.zip(engine.syncs()).map(|(before, now)| now - before);
        assert!(counted.is_none_or(|syncs| syncs >= 3), "{}: {counted:?}", engine.name());
        let name = engine.name();
        assert_eq!(session.get(&[&[7; 8], &[8; 8]]).unwrap(), 50, "{name}");
        assert_eq!(session.scan(&[6; 8], 3).unwrap(), 3 * 28 + 10, "{name}");
        assert_eq!(session.scan(&[98; 8], 10).unwrap(), 2 * 28, "{name}");
        let error = session.get(&[&[200; 8]]).unwrap_err().to_string();
        assert!(error.starts_with(name) && error.contains("a key is not there"), "{error}");
        assert!(engine.bytes_on_disk() > 0 && engine.reads() && !engine.settings().is_empty());
    }
}

#[test]
fn the_floor_syncs_once_a_transaction_and_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let floor = Floor::create(&directory.path().join("floor")).unwrap();
    let mapped = |apart: bool| {
        let path = directory.path().join(format!("mapped {apart}"));
        let mapped = Floor::mapped(&path, Some(outlast::Domain::Page), apart);
        mapped.unwrap().expect("it is written page by page")
    };
    for floor in [floor, mapped(false), mapped(true)] {
        let mut session = floor.session().unwrap();
        let before = floor.syncs().unwrap();
        session.put(&[(&[1; 8], &[2; 100]), (&[2; 8], &[3; 100])]).unwrap();
        session.put(&[(&[1; 8], &[2; 100])]).unwrap();
        assert_eq!(floor.syncs(), Some(before + 2));
        assert!(floor.bytes_on_disk() >= floor.log_bytes());
        assert!(!floor.reads() && session.get(&[]).is_err() && session.scan(&[], 1).is_err());
    }
    let process =
        Floor::mapped(&directory.path().join("none"), Some(outlast::Domain::Process), false);
    assert!(process.unwrap().is_none(), "no floor of a disk");
}
