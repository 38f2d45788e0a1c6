//! The oracle against a search through all subsets and all orders.

use proptest::prelude::*;

use super::*;

const KEYS: u32 = 3;

/// Whether some set of transactions that contains `acked`, in some order, leaves `observed` when
/// each sees exactly what it says it saw. By trying them all.
fn explains(transactions: &[Transaction], observed: &[Version], acked: &[TxId]) -> bool {
    fn go(
        left: &[Transaction],
        state: &mut Vec<Version>,
        observed: &[Version],
        acked: &[TxId],
    ) -> bool {
        let rest_may_be_absent = !left.iter().any(|tx| acked.contains(&tx.id));
        if rest_may_be_absent && state == observed {
            return true;
        }
        (0..left.len()).any(|next| {
            let tx = &left[next];
            if tx.reads.iter().any(|(key, seen)| state[key.0 as usize] != *seen) {
                return false;
            }
            let before = state.clone();
            for (key, version) in &tx.writes {
                state[key.0 as usize] = *version;
            }
            let mut others = left.to_vec();
            others.remove(next);
            let found = go(&others, state, observed, acked);
            *state = before;
            found
        })
    }
    go(transactions, &mut vec![Version::INITIAL; observed.len()], observed, acked)
}

/// What a transaction does with each key: nothing, read, or read and write, and which of the
/// possible versions it sees.
type Doing = Vec<(u8, u64)>;

fn transactions(doings: Vec<Doing>) -> Vec<Transaction> {
    let count = doings.len() as u64;
    let transaction = |(number, doing): (u64, Doing)| {
        let used = || (0..).map(Key).zip(&doing).filter(|(_, (what, _))| *what > 0);
        // Version n is the one that transaction n leaves; none sees its own.
        let sees = |seen: u64| if seen % (count + 1) == number { 0 } else { seen % (count + 1) };
        Transaction {
            id: TxId(number),
            reads: used().map(|(key, (_, seen))| (key, Version(sees(*seen)))).collect(),
            writes: used()
                .filter(|(_, (what, _))| *what > 1)
                .map(|(key, _)| (key, Version(number)))
                .collect(),
        }
    };
    (1..).zip(doings).map(transaction).collect()
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let doing = prop::collection::vec((0..3u8, 0..5u64), KEYS as usize);
    prop::collection::vec(doing, 1..5)
}

/// Histories in which each transaction sees what the one before it left: what a sound scheme
/// does. Random ones hardly ever explain anything.
fn serial(doings: Vec<Doing>) -> Vec<Transaction> {
    let mut transactions = transactions(doings);
    let mut state = [Version::INITIAL; KEYS as usize];
    for tx in &mut transactions {
        tx.reads.iter_mut().for_each(|(key, seen)| *seen = state[key.0 as usize]);
        tx.writes.iter().for_each(|(key, version)| state[key.0 as usize] = *version);
    }
    transactions
}

fn agree(transactions: Vec<Transaction>, observed: &[u64], acked: u8) {
    let observed: Vec<Version> = observed.iter().map(|&v| Version(v)).collect();
    let acked: Vec<TxId> =
        transactions.iter().map(|tx| tx.id).filter(|id| acked >> id.0 & 1 == 1).collect();
    let oracle = Oracle::new(KEYS, transactions.clone()).unwrap();
    let verdict = oracle.judge(&observed, &acked);
    let possible = explains(&transactions, &observed, &acked);
    assert_eq!(
        verdict.is_ok(),
        possible,
        "{verdict:?} for {transactions:?}, {observed:?}, {acked:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn of_any_history_the_oracle_accepts_what_some_order_explains(
        doings in doings(),
        observed in prop::collection::vec(0..6u64, KEYS as usize),
        acked in any::<u8>(),
    ) {
        agree(transactions(doings), &observed, acked);
    }

    #[test]
    fn of_a_serial_history_the_oracle_accepts_what_some_order_explains(
        doings in doings(),
        observed in prop::collection::vec(0..6u64, KEYS as usize),
        after in prop::option::of(0..5usize),
        acked in any::<u8>(),
    ) {
        let transactions = serial(doings);
        // Often the state after some of them, else anything.
        let observed = match after {
            None => observed,
            Some(count) => {
                let mut state = vec![0; KEYS as usize];
                for tx in transactions.iter().take(count) {
                    tx.writes.iter().for_each(|(key, version)| state[key.0 as usize] = version.0);
                }
                state
            }
        };
        agree(transactions, &observed, acked);
    }
}

fn tx(id: u64, reads: &[(u32, u64)], writes: &[(u32, u64)]) -> Transaction {
    let all = |list: &[(u32, u64)]| list.iter().map(|&(k, v)| (Key(k), Version(v))).collect();
    Transaction { id: TxId(id), reads: all(reads), writes: all(writes) }
}

fn judge(transactions: &[Transaction], observed: &[u64], acked: &[u64]) -> Result<(), Fault> {
    let observed: Vec<Version> = observed.iter().map(|&v| Version(v)).collect();
    let acked: Vec<TxId> = acked.iter().map(|&id| TxId(id)).collect();
    Oracle::new(observed.len() as u32, transactions.to_vec()).unwrap().judge(&observed, &acked)
}

#[test]
fn each_fault_is_told_from_the_others() {
    let writer = tx(1, &[(0, 0), (1, 0)], &[(0, 1), (1, 1)]);
    let reader = tx(2, &[(0, 1), (2, 0)], &[(2, 2)]);
    let both = [writer.clone(), reader.clone()];
    assert_eq!(judge(&both, &[1, 1, 2], &[1, 2]), Ok(()));
    assert_eq!(judge(&both, &[0, 0, 0], &[]), Ok(()));
    assert_eq!(
        judge(&both, &[9, 1, 2], &[]),
        Err(Fault::Garbage { key: Key(0), found: Version(9) })
    );
    assert_eq!(
        judge(&both, &[1, 0, 0], &[]),
        Err(Fault::Torn { tx: TxId(1), there: vec![Key(0)], missing: vec![Key(1)] })
    );
    assert_eq!(
        judge(&both, &[0, 0, 0], &[1]),
        Err(Fault::Lost { tx: TxId(1), keys: vec![Key(0), Key(1)] })
    );
    assert_eq!(
        judge(&both, &[0, 0, 2], &[]),
        Err(Fault::NotClosed { tx: TxId(2), key: Key(0), seen: Version(1) })
    );
    let message = Violation::from(judge(&both, &[1, 0, 0], &[]).unwrap_err()).to_string();
    assert_eq!(message, "torn: transaction 1 is there in part: in 0, missing in 1");
}

#[test]
fn a_client_that_read_what_is_gone_was_told_wrong() {
    let writer = tx(1, &[(0, 0)], &[(0, 1)]);
    let reader = tx(2, &[(0, 1)], &[]);
    let fault = Fault::NotClosed { tx: TxId(2), key: Key(0), seen: Version(1) };
    assert_eq!(judge(&[writer.clone(), reader.clone()], &[0], &[2]), Err(fault));
    assert_eq!(judge(&[writer, reader], &[0], &[]), Ok(()));
}

#[test]
fn write_skew_is_a_circle() {
    let a = tx(1, &[(0, 0), (1, 0)], &[(0, 1)]);
    let b = tx(2, &[(0, 0), (1, 0)], &[(1, 2)]);
    assert!(matches!(judge(&[a.clone(), b.clone()], &[1, 2], &[]), Err(Fault::Cycle { .. })));
    assert_eq!(judge(&[a, b], &[1, 0], &[1]), Ok(()));
}

#[test]
fn a_lost_update_is_a_loss() {
    let a = tx(1, &[(0, 0)], &[(0, 1)]);
    let b = tx(2, &[(0, 0)], &[(0, 2)]);
    let lost = Fault::Lost { tx: TxId(1), keys: vec![Key(0)] };
    assert_eq!(judge(&[a, b], &[2], &[1, 2]), Err(lost));
}

#[test]
fn odd_reports_are_refused() {
    let odd = |transactions: &[Transaction]| Oracle::new(1, transactions.to_vec()).unwrap_err();
    let first = tx(1, &[(0, 0)], &[(0, 1)]);
    assert_eq!(odd(&[first.clone(), first.clone()]), OddHistory::SameId(TxId(1)));
    assert_eq!(odd(&[tx(1, &[], &[(0, 1)])]), OddHistory::BlindWrite(TxId(1), Key(0)));
    assert_eq!(odd(&[tx(1, &[(7, 0)], &[])]), OddHistory::NoSuchKey(TxId(1), Key(7)));
    assert_eq!(odd(&[tx(1, &[(0, 0), (0, 0)], &[])]), OddHistory::Twice(TxId(1), Key(0)));
    let again = tx(2, &[(0, 1)], &[(0, 1)]);
    assert_eq!(odd(&[first, again]), OddHistory::NotNew(TxId(2), Key(0), Version(1)));
}
