use super::*;
use crate::patch::{RecoveryError, apply};

const RINGS: Rings = Rings { base: LineAddr(2), rings: 2, records: 4, data: 1 };

/// A transaction of `records` records, all of it in the image.
fn write(log: &mut Log, image: &mut [u8], ring: usize, records: u64) -> u64 {
    let numbers: Vec<u64> = (0..records).map(|_| log.take(ring)).collect();
    let commit = log.commit(ring);
    for &number in &numbers {
        let is_last = number == numbers[numbers.len() - 1];
        let header =
            Header { number, count: 1, commit: is_last.then_some(commit), words: [number; WORDS] };
        let at = RINGS.header(ring, number).start().0 as usize;
        image[at..at + 64].copy_from_slice(&header.encode());
    }
    commit.seq
}

fn found(image: &[u8]) -> Vec<(usize, u64)> {
    let replay = replay(RINGS, Image::new(image)).unwrap();
    replay.records.iter().map(|(ring, header)| (*ring, header.number)).collect()
}

#[test]
fn commits_are_replayed_in_their_order_from_the_point_on_and_slots_come_free_behind_it() {
    let mut image = vec![0; ((2 + RINGS.lines()) * 64) as usize];
    let mut log = Log::new(RINGS, Image::new(&image));
    let first = write(&mut log, &mut image, 1, 2);
    let second = write(&mut log, &mut image, 0, 1);
    assert_eq!(found(&image), [(1, 1), (1, 2), (0, 1)]);
    // The younger one is applied first: the point passes neither.
    log.committed(second, 1);
    log.committed(first, 1);
    log.applied(second);
    assert_eq!(log.moves(), None);
    log.take(1);
    log.take(1);
    assert!(!log.has_room(1));
    log.applied(first);
    let point = log.moves().expect("ring 1 is full");
    assert_eq!(log.moves(), None, "one at a time");
    assert!(!log.has_room(1), "not before the point is durable (R3)");
    image[128..192].copy_from_slice(&point);
    assert_eq!(found(&image), []);
    log.moved();
    assert!(log.has_room(1));
    log.abort(1);
    // Records of the transaction that aborted are no one's.
    let third = write(&mut log, &mut image, 1, 3);
    assert_eq!((third, found(&image).len()), (3, 3));
    // What recovery has left is empty, and goes on behind it.
    let patches: Vec<_> = replay(RINGS, Image::new(&image)).unwrap().point.into_iter().collect();
    apply(&patches, &mut image);
    assert_eq!(found(&image), []);
    let mut log = Log::new(RINGS, Image::new(&image));
    assert_eq!(write(&mut log, &mut image, 0, 1), 4);
    assert_eq!(found(&image), [(0, 1)]);
}

#[test]
fn a_commit_without_its_records_is_damage() {
    let mut image = vec![0; ((2 + RINGS.lines()) * 64) as usize];
    let mut log = Log::new(RINGS, Image::new(&image));
    write(&mut log, &mut image, 0, 3);
    let second = RINGS.header(0, 2);
    image[second.start().0 as usize + 1] ^= 1;
    let error = replay(RINGS, Image::new(&image)).unwrap_err();
    assert_eq!(error, RecoveryError::Damaged { line: second });
    assert!(replay(RINGS, Image::new(&image[..200])).is_err());
}
