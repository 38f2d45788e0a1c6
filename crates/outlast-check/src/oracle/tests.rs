use super::*;

/// Transactions one after the other; each sees the state that its predecessor left.
struct Set {
    members: Vec<usize>,
    acknowledged: usize,
    recovered: usize,
    /// Two that saw each other's past.
    circle: Option<[usize; 2]>,
}

impl Set {
    fn missing_of(&self, needed: usize) -> Option<String> {
        let missing = (1..=needed).find(|tx| !self.members.contains(tx))?;
        Some(format!("{missing} of {needed}"))
    }
}

impl Kept for Set {
    type Fault = String;

    fn acknowledged_missing(&self) -> Option<String> {
        self.missing_of(self.acknowledged)
    }

    fn recovered_missing(&self) -> Option<String> {
        self.missing_of(self.recovered)
    }

    fn not_closed(&self) -> Option<String> {
        let open = |tx: &&usize| **tx > 1 && !self.members.contains(&(**tx - 1));
        self.members.iter().find(open).map(|tx| format!("{tx} open"))
    }

    fn without_order(&self) -> Option<String> {
        let [a, b] = self.circle?;
        let both = self.members.contains(&a) && self.members.contains(&b);
        both.then(|| format!("{a} and {b}"))
    }

    fn behind_gap(&self) -> Option<String> {
        self.not_closed().map(|open| open.replace("open", "behind a gap"))
    }
}

fn set(members: &[usize], acknowledged: usize, recovered: usize) -> Set {
    Set { members: members.to_vec(), acknowledged, recovered, circle: None }
}

fn verdicts(set: &Set) -> [Option<String>; 4] {
    [Guarantee::Durable, Guarantee::Buffered, Guarantee::Replay, Guarantee::None]
        .map(|guarantee| check(guarantee, set).err())
}

#[test]
fn each_guarantee_demands_what_it_promises() {
    let told = |verdicts: [Option<&str>; 4]| verdicts.map(|told| told.map(str::to_owned));
    assert_eq!(verdicts(&set(&[1, 2, 3], 2, 1)), told([None; 4]));
    let of = Some("2 of 2");
    assert_eq!(verdicts(&set(&[1], 2, 1)), told([of, None, of, None]), "a tail is missing");
    assert_eq!(verdicts(&set(&[1], 2, 2)), told([of, of, of, None]), "it was there before");
    let open = [Some("3 open"), Some("3 open"), Some("3 behind a gap"), None];
    assert_eq!(verdicts(&set(&[1, 3], 1, 0)), told(open));
    let circle = Set { circle: Some([1, 2]), ..set(&[1, 2], 1, 0) };
    assert_eq!(verdicts(&circle), told([Some("1 and 2"), Some("1 and 2"), None, None]));
}

#[test]
#[should_panic(expected = "by its bytes")]
fn an_epoch_promises_no_transactions() {
    let _ = check(Guarantee::Epoch, &set(&[], 0, 0));
}
