//! Every timing constraint: a command that it governs is not given at t - 1, and is given at t.
//!
//! A channel is woken at every clock, so that a column command which comes at t was refused at
//! t - 1; expected times are the standard's formulas. A second channel with the same requests is
//! woken only when it asked to be, and must do the same at the same times.

use super::*;
use crate::timed::controller::timing::Place;

/// Numbers without common divisors, so that no constraint hides another by accident.
const TIMING: Timing = Timing {
    cl: 22,
    cwl: 16,
    rcd: 23,
    rp: 21,
    ras: 52,
    burst: 4,
    ccd_s: 4,
    ccd_l: 9,
    rrd_s: 5,
    rrd_l: 11,
    faw: 47,
    wr: 27,
    wtr_s: 6,
    wtr_l: 13,
    rtp: 12,
    rtrs: 2,
    refi: 0,
    rfc: 0,
    rfc_pb: 0,
    rrefd: 0,
};

fn channel(timing: Timing, ranks: usize, drain_idle: usize) -> Channel {
    let shape = ChannelShape {
        ranks,
        groups: 4,
        banks: 4,
        scheduling: Scheduling::FrFcfs,
        page: PagePolicy::Open,
        refresh: Refresh::AllBank,
        drain_high: 16,
        drain_low: 4,
        drain_idle,
        row_hits: 0,
        bank_queue: 0,
    };
    Channel::new(timing, &shape)
}

/// Rank, group of the rank, bank of the group, row.
fn place(rank: u8, group: u8, bank: u8, row: u32) -> Place {
    let group = 4 * rank + group;
    Place { channel: 0, rank, group, bank: 4 * group + bank, row }
}

/// A request: when it arrives, whether it writes, where.
type Arrival = (u64, bool, Place);

/// The clock of each request's column command, in the order of the requests.
fn columns(make: impl Fn() -> Channel, arrivals: &[Arrival]) -> Vec<u64> {
    let always = play(make(), arrivals, true);
    let asked = play(make(), arrivals, false);
    assert_eq!(always, asked, "waking a channel only when it asks to be changes what it does");
    always
}

fn play(mut channel: Channel, arrivals: &[Arrival], always: bool) -> Vec<u64> {
    let mut at = vec![None; arrivals.len()];
    let (mut wake, mut served) = (Some(0), Vec::new());
    for now in 0..20_000 {
        let mut arrived = false;
        for (id, &(_, write, place)) in arrivals.iter().enumerate().filter(|(_, a)| a.0 == now) {
            let request = Request::new(id as u32, LineAddr(id as u64), place, now, now);
            if write { &mut channel.writes } else { &mut channel.reads }.push(request);
            arrived = true;
        }
        if always || arrived || wake == Some(now) {
            wake = channel.wake(now, &mut served);
        }
        for served in served.drain(..) {
            at[served.id as usize] = Some(now);
            let t = channel.timing;
            let done = if served.write { t.cwl + t.burst + t.wr } else { t.cl + t.burst };
            assert_eq!(served.done, now + done);
            assert_eq!(served.data, served.done - if served.write { t.wr } else { 0 });
        }
    }
    at.into_iter().map(|at| at.expect("every request is served")).collect()
}

fn simple(arrivals: &[Arrival]) -> Vec<u64> {
    columns(|| channel(TIMING, 2, 1), arrivals)
}

const READ: bool = false;
const WRITE: bool = true;
/// Later than everything that opened a row.
const LATER: u64 = 1000;

#[test]
fn trcd_from_activate_to_column() {
    assert_eq!(simple(&[(0, READ, place(0, 0, 0, 7))]), [TIMING.rcd]);
    assert_eq!(simple(&[(100, WRITE, place(0, 0, 0, 7))]), [100 + TIMING.rcd]);
}

#[test]
fn tccd_between_columns_of_one_group_and_of_two() {
    let (a, same, other) = (place(0, 0, 0, 1), place(0, 0, 1, 1), place(0, 1, 0, 1));
    let opened = [(0, READ, a), (0, READ, same), (0, READ, other)];
    for write in [READ, WRITE] {
        let at = |second| {
            let at =
                simple(&[opened.as_slice(), &[(LATER, write, a), (LATER, write, second)]].concat());
            at[4] - at[3]
        };
        assert_eq!((at(a), at(same), at(other)), (TIMING.ccd_l, TIMING.ccd_l, TIMING.ccd_s));
    }
}

#[test]
fn trrd_between_activates_of_one_group_and_of_two() {
    // Column commands follow their activates by tRCD, so they show when these were.
    let second = |place_2| simple(&[(0, READ, place(0, 0, 0, 1)), (0, READ, place_2)])[1];
    assert_eq!(second(place(0, 0, 1, 1)), TIMING.rrd_l + TIMING.rcd);
    assert_eq!(second(place(0, 1, 0, 1)), TIMING.rrd_s + TIMING.rcd);
    assert_eq!(second(place(1, 0, 0, 1)), 1 + TIMING.rcd + (4 + 2 - 1), "only the bus is shared");
}

#[test]
fn tfaw_holds_the_fifth_activate_of_a_rank() {
    let arrivals: Vec<Arrival> = (0..5).map(|n| (0, READ, place(0, n % 4, n / 4, 1))).collect();
    let at = simple(&arrivals);
    assert_eq!(at[3], 3 * TIMING.rrd_s + TIMING.rcd);
    assert_eq!(at[4], TIMING.faw + TIMING.rcd);
}

#[test]
fn tras_and_trp_before_another_row_of_a_bank() {
    let at = simple(&[(0, READ, place(0, 0, 0, 1)), (1, READ, place(0, 0, 0, 2))]);
    assert_eq!(at[1], TIMING.ras + TIMING.rp + TIMING.rcd);
}

#[test]
fn trtp_from_read_to_precharge() {
    let row = |row| place(0, 0, 0, row);
    let at = simple(&[(0, READ, row(1)), (LATER, READ, row(1)), (LATER + 1, READ, row(2))]);
    assert_eq!(at[1], LATER);
    assert_eq!(at[2], LATER + TIMING.rtp + TIMING.rp + TIMING.rcd);
}

#[test]
fn twr_from_written_data_to_precharge() {
    let row = |row| place(0, 0, 0, row);
    let at = simple(&[(0, WRITE, row(1)), (LATER, WRITE, row(1)), (LATER + 1, READ, row(2))]);
    let written = LATER + TIMING.cwl + TIMING.burst + TIMING.wr;
    assert_eq!(at[2], written + TIMING.rp + TIMING.rcd);
}

#[test]
fn twtr_from_written_data_to_a_read() {
    let opened =
        [(0, READ, place(0, 0, 0, 1)), (0, READ, place(0, 1, 0, 1)), (0, READ, place(1, 0, 0, 1))];
    let read = |second| {
        let later = [(LATER, WRITE, place(0, 0, 0, 1)), (LATER + 1, READ, second)];
        simple(&[opened.as_slice(), &later].concat())[4] - LATER
    };
    assert_eq!(read(place(0, 0, 0, 1)), TIMING.cwl + TIMING.burst + TIMING.wtr_l);
    assert_eq!(read(place(0, 1, 0, 1)), TIMING.cwl + TIMING.burst + TIMING.wtr_s);
    let elsewhere = (TIMING.cwl + TIMING.burst + TIMING.rtrs).saturating_sub(TIMING.cl);
    assert_eq!(read(place(1, 0, 0, 1)), elsewhere.max(1), "another rank only shares the bus");
}

#[test]
fn a_write_behind_a_read_waits_for_the_bus_to_turn() {
    let a = place(0, 0, 0, 1);
    let at = simple(&[(0, READ, a), (LATER, READ, a), (LATER, WRITE, a)]);
    assert_eq!(at[2] - at[1], TIMING.cl + TIMING.burst + TIMING.rtrs - TIMING.cwl);
}

#[test]
fn trtrs_between_reads_of_two_ranks() {
    let (a, b) = (place(0, 0, 0, 1), place(1, 0, 0, 1));
    let at = simple(&[(0, READ, a), (0, READ, b), (LATER, READ, a), (LATER, READ, b)]);
    assert_eq!(at[3] - at[2], TIMING.burst + TIMING.rtrs);
}

#[test]
fn writes_of_two_ranks_follow_each_other_on_the_bus() {
    let (a, b) = (place(0, 0, 0, 1), place(1, 0, 0, 1));
    let at = simple(&[(0, READ, a), (0, READ, b), (LATER, WRITE, a), (LATER, WRITE, b)]);
    assert_eq!(at[3] - at[2], TIMING.burst, "the controller drives both");
}

#[test]
fn trfc_from_a_refresh_to_the_next_activate() {
    let timing = Timing { refi: 3000, rfc: 500, ..TIMING };
    let a = place(0, 0, 0, 1);
    let at = columns(|| channel(timing, 1, 1), &[(0, READ, a), (2999, READ, a), (3000, READ, a)]);
    assert_eq!(at[1], 2999, "the row is open until the refresh");
    let start = 2999 + TIMING.rtp + TIMING.rp;
    assert_eq!(at[2], start + 500 + TIMING.rcd);
    let idle = columns(|| channel(timing, 1, 1), &[(0, READ, a), (3400, READ, a)]);
    assert_eq!(idle[1], 3000 + TIMING.rp + 500 + TIMING.rcd, "it was due while no request waited");
}

#[test]
fn trfcpb_from_a_banks_refresh_to_its_next_activate_and_to_nobody_elses() {
    // Sixteen banks: one of them every 100 clocks, the first at 1600.
    let timing = Timing { refi: 1600, rfc: 5000, rfc_pb: 300, ..TIMING };
    let make = || Channel { refresh_kind: Refresh::PerBank, ..channel(timing, 1, 1) };
    let (a, b) = (place(0, 0, 0, 1), place(0, 0, 1, 1));
    for (bank, due) in [(a, 1600), (b, 1700), (place(0, 3, 3, 1), 3100)] {
        let at = columns(make, &[(0, READ, bank), (due - 1, READ, bank), (due, READ, bank)]);
        assert_eq!(at[1], due - 1, "the row is open until its bank's refresh");
        assert_eq!(at[2], due - 1 + TIMING.rtp + TIMING.rp + 300 + TIMING.rcd);
    }
    let at = columns(make, &[(0, READ, a), (0, READ, b), (1600, READ, a), (1600, READ, b)]);
    assert_eq!(at[3], 1601, "another bank's row stays open; the precharge had the command bus");
    let at = columns(make, &[(0, READ, a), (3199 - TIMING.rcd, READ, a)]);
    assert_eq!(at[1], 3199, "a bank's turn comes again after all others'");
    let at = columns(make, &[(0, READ, a), (3200, READ, a)]);
    // The activate would come with another bank's refresh, which has the command bus.
    assert_eq!(at[1], 3200 + 300 + 1 + TIMING.rcd);
}

#[test]
fn trrefd_from_a_banks_refresh_to_another_banks_activate_and_trrd_before_it() {
    let timing = Timing { refi: 1600, rfc: 5000, rfc_pb: 300, rrefd: 17, ..TIMING };
    let make = || Channel { refresh_kind: Refresh::PerBank, ..channel(timing, 2, 1) };
    // Bank 0 of rank 0, which is closed, is refreshed at 800: ranks take turns.
    let (other, elsewhere) = (place(0, 2, 1, 1), place(1, 2, 1, 1));
    let at = columns(make, &[(800, READ, other)]);
    assert_eq!(at[0], 800 + 17 + TIMING.rcd);
    let at = columns(make, &[(801, READ, elsewhere)]);
    assert_eq!(at[0], 801 + TIMING.rcd, "another rank is free but for the command bus");
    // An activate at 799 keeps the refresh waiting for tRRD_S, and that the next activate.
    let at = columns(make, &[(799, READ, place(0, 1, 1, 1)), (800, READ, other)]);
    assert_eq!(at[0], 799 + TIMING.rcd);
    assert_eq!(at[1], 799 + TIMING.rrd_s + 17 + TIMING.rcd);
}

#[test]
fn a_refresh_closes_rows_one_in_a_clock() {
    let timing = Timing { refi: 3000, rfc: 500, ..TIMING };
    for rows in [1, 4] {
        let mut arrivals: Vec<Arrival> = (0..rows).map(|k| (0, READ, place(0, k, 0, 1))).collect();
        arrivals.push((3000, READ, place(0, 0, 3, 1)));
        let at = columns(|| channel(timing, 1, 1), &arrivals);
        let closed = 3000 + u64::from(rows) - 1 + TIMING.rp;
        assert_eq!(*at.last().unwrap(), closed + 500 + TIMING.rcd, "{rows} rows are open");
    }
}

#[test]
fn reads_of_a_line_that_waits_are_answered_with_it() {
    let a = place(0, 0, 0, 1);
    let mut with_queues = banked();
    with_queues.reads.push(Request::new(0, LineAddr(7), a, 0, 0));
    assert!(with_queues.follow(1, LineAddr(7), a, 0) && !with_queues.follow(2, LineAddr(8), a, 0));
    let mut served = Vec::new();
    (0..100).for_each(|now| _ = with_queues.wake(now, &mut served));
    assert_eq!(served.iter().map(|served| served.id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((served[0].data, served[1].row), (served[1].data, None));
    assert!(!with_queues.follow(3, LineAddr(7), a, 100), "nothing waits any more");
    let mut without = channel(TIMING, 1, 1);
    without.reads.push(Request::new(0, LineAddr(7), a, 0, 0));
    assert!(!without.follow(1, LineAddr(7), a, 0));
}

#[test]
fn a_write_does_not_overtake_the_read_of_its_line() {
    // A queue full of writes drains, but for the one whose line a read waits for: that read, and
    // the others that can move, go first.
    let mut channel = banked();
    let at = |n: u64| place(0, n as u8 % 4, 0, 1);
    for n in 0..16 {
        channel.writes.push(Request::new(n as u32, LineAddr(n), at(n), 0, 0));
    }
    for n in [20, 5] {
        channel.reads.push(Request::new(n as u32 + 100, LineAddr(n), at(n), 0, 0));
    }
    let mut served = Vec::new();
    (0..2000).for_each(|now| _ = channel.wake(now, &mut served));
    let order = |id| served.iter().position(|served| served.id == id);
    assert_eq!(served.len() + channel.writes.len(), 18);
    assert!(order(105) < order(5) || order(5).is_none(), "{served:?}");
    assert!(order(120) < order(6) || order(6).is_none(), "the other read, too: {served:?}");
    assert!(order(4) < order(120), "writes before it had begun: {served:?}");
}

#[test]
fn commands_are_noted_for_whoever_wants_them() {
    let timing = Timing { refi: 3000, rfc: 500, ..TIMING };
    let mut noting = Channel { given: Some(Vec::new()), ..channel(timing, 1, 1) };
    let a = place(0, 1, 2, 1);
    noting.reads.push(Request::new(0, LineAddr(0), a, 0, 0));
    noting.writes.push(Request::new(1, LineAddr(1), Place { row: 2, ..a }, 0, 0));
    (0..3001).for_each(|now| _ = noting.wake(now, &mut Vec::new()));
    noting.reads.push(Request::new(2, LineAddr(2), a, 3001, 3001));
    noting.wake(3001, &mut Vec::new());
    let given = noting.given.take().unwrap();
    let of_bank = given.iter().filter(|given| given.bank == 6);
    let names: Vec<_> = of_bank.clone().map(|given| given.name).collect();
    assert_eq!(names, ["ACT", "RD", "PRE", "ACT", "WR", "REF"]);
    let at: Vec<_> = of_bank.map(|given| given.at).collect();
    let pre = TIMING.ras;
    let write = pre + TIMING.rp + TIMING.rcd;
    assert_eq!(at, [0, TIMING.rcd, pre, pre + TIMING.rp, write, 3000 + TIMING.rp]);
    assert_eq!(given.iter().filter(|given| given.name == "REF").count(), 16);
}

#[test]
fn rows_that_are_open_go_first_unless_order_is_wanted() {
    let row = |row| place(0, 0, 0, row);
    let arrivals = [(0, READ, row(1)), (1, READ, row(2)), (1, READ, row(1))];
    let at = simple(&arrivals);
    assert!(at[2] < at[1], "{at:?}");
    let at =
        columns(|| Channel { scheduling: Scheduling::Fcfs, ..channel(TIMING, 1, 1) }, &arrivals);
    assert!(at[1] < at[2], "{at:?}");
}

#[test]
fn a_closed_row_costs_the_same_each_time() {
    let make = || Channel { page: PagePolicy::Closed, ..channel(TIMING, 1, 1) };
    let a = place(0, 0, 0, 1);
    let at = columns(make, &[(0, READ, a), (LATER, READ, a), (2 * LATER, WRITE, a)]);
    assert_eq!(at, [TIMING.rcd, LATER + TIMING.rcd, 2 * LATER + TIMING.rcd]);
}

#[test]
fn writes_wait_for_the_high_mark_and_are_served_down_to_the_low_one() {
    // Reads wait all the time; rows are open. Fifteen writes wait with them, sixteen do not.
    let a = place(0, 0, 0, 1);
    let reads = (0..100).map(|_| (LATER, READ, a));
    for writes in [15, 16] {
        let mut arrivals = vec![(0, READ, a)];
        arrivals.extend((0..writes).map(|_| (LATER, WRITE, a)));
        arrivals.extend(reads.clone());
        let at = columns(|| channel(TIMING, 1, 1), &arrivals);
        let last_read = at[1 + writes..].iter().max().unwrap();
        let before = at[1..=writes].iter().filter(|at| *at < last_read).count();
        assert_eq!(before, if writes == 16 { 12 } else { 0 }, "of {writes} writes");
    }
}

/// A channel whose banks have queues of two.
fn banked() -> Channel {
    let shape = ChannelShape {
        ranks: 2,
        groups: 4,
        banks: 4,
        scheduling: Scheduling::FrFcfs,
        page: PagePolicy::Open,
        refresh: Refresh::AllBank,
        drain_high: 16,
        drain_low: 4,
        drain_idle: 3,
        row_hits: 0,
        bank_queue: 2,
    };
    Channel::new(TIMING, &shape)
}

#[test]
fn a_request_takes_a_clock_to_its_banks_queue_and_one_moves_in_a_clock() {
    assert_eq!(columns(banked, &[(0, READ, place(0, 0, 0, 7))]), [1 + TIMING.rcd]);
    // Activates of three groups: moved at 0, 1 and 2, tRRD_S apart.
    let three: Vec<Arrival> = (0..3).map(|group| (0, READ, place(0, group, 0, 7))).collect();
    let at = columns(banked, &three);
    assert_eq!(at, [0, 1, 2].map(|k| 1 + k * TIMING.rrd_s + TIMING.rcd));
    let mut channel = banked();
    let request = |(n, &(_, _, place)): (u64, &Arrival)| Request::new(0, LineAddr(n), place, 0, 0);
    channel.reads.extend((0..).zip(&three).map(request));
    for left in [2, 1, 0] {
        for _ in 0..2 {
            channel.wake(2 - left as u64, &mut Vec::new()); // As for two arrivals in a clock.
        }
        assert_eq!(channel.reads.len(), left);
    }
}

#[test]
fn a_full_banks_queue_lets_others_pass() {
    // Four reads of one bank's rows, then one of another bank: it does not wait for them.
    let mut arrivals: Vec<Arrival> = (0..4).map(|row| (0, READ, place(0, 0, 0, row))).collect();
    arrivals.push((0, READ, place(0, 1, 0, 1)));
    let at = columns(banked, &arrivals);
    assert!(at[4] < at[1] && at[1] < at[2] && at[2] < at[3], "{at:?}");
}

#[test]
fn banks_take_turns() {
    // Rows are open. Two banks of one group have two reads each, the first bank's older.
    let (a, b) = (place(0, 0, 0, 1), place(0, 0, 1, 1));
    let mut arrivals = vec![(0, READ, a), (0, READ, b)];
    arrivals.extend([a, a, b, b].map(|place| (LATER, READ, place)));
    let at = columns(banked, &arrivals);
    assert!(at[2] < at[4] && at[4] < at[3] && at[3] < at[5], "{at:?}");
}

#[test]
fn reads_and_writes_of_a_bank_mix_once_they_are_in_its_queue() {
    // Three writes drain an idle channel; a read that arrives with the last of them is not kept
    // until they are done.
    let mut arrivals: Vec<Arrival> =
        [(0, 1), (1, 2), (1, 3)].map(|(group, row)| (0, WRITE, place(0, group, 0, row))).to_vec();
    arrivals.push((3, READ, place(0, 2, 0, 1)));
    let at = columns(banked, &arrivals);
    assert!(at[3] < at[2], "{at:?}");
}

#[test]
fn writes_drain_from_the_high_mark_or_idle_from_the_idle_one() {
    let write = |n: u64| (LATER, WRITE, place(0, n as u8 % 4, 0, 1));
    let served = |make: fn() -> Channel, arrivals: &[Arrival]| {
        let (mut channel, mut served) = (make(), Vec::new());
        for now in 0..20_000 {
            for (id, &(_, write, place)) in arrivals.iter().enumerate().filter(|(_, a)| a.0 == now)
            {
                let request = Request::new(id as u32, LineAddr(id as u64), place, now, now);
                if write { &mut channel.writes } else { &mut channel.reads }.push(request);
            }
            channel.wake(now, &mut served);
        }
        served.len()
    };
    for (writes, expected) in [(2, 0), (3, 3)] {
        let arrivals: Vec<_> = (0..writes).map(write).collect();
        assert_eq!(served(banked, &arrivals), expected, "{writes} writes alone");
    }
    // Reads keep the banks busy from before the writes come: fifteen of them wait, of sixteen those
    // beyond the low mark go.
    for (writes, left) in [(15, 15), (16, 4)] {
        let mut arrivals: Vec<_> = (0..writes).map(write).collect();
        arrivals.extend((0..6000).map(|k| (LATER - 200 + k, READ, place(1, 0, 0, 1))));
        let mut channel = banked();
        let mut out = Vec::new();
        for now in 0..LATER + 4000 {
            for (id, &(_, write, place)) in arrivals.iter().enumerate().filter(|(_, a)| a.0 == now)
            {
                let request = Request::new(id as u32, LineAddr(id as u64), place, now, now);
                if write { &mut channel.writes } else { &mut channel.reads }.push(request);
            }
            channel.wake(now, &mut out);
        }
        assert_eq!(channel.writes.len(), left, "of {writes} writes beside reads");
    }
}

#[test]
fn after_so_many_hits_an_older_request_gets_its_row() {
    // The row may be closed before it can be read again.
    let timing = Timing { rtp: TIMING.ccd_l - 2, ..TIMING };
    let row = |row| place(0, 0, 0, row);
    for make in
        [|| channel(TIMING, 1, 1), || Channel { banked: Some(Banked::new(32, 8)), ..banked() }]
    {
        // One read of another row, then six of the open one, which tRTP keeps open until they
        // are there.
        let mut arrivals =
            vec![(0, READ, row(1)), (LATER, READ, row(2)), (LATER - 4, READ, row(1))];
        arrivals.extend((0..6).map(|_| (LATER, READ, row(1))));
        let before = |row_hits_max| {
            let at = columns(|| Channel { row_hits_max, timing, ..make() }, &arrivals);
            at[3..].iter().filter(|hit| **hit < at[1]).count()
        };
        assert_eq!(before(u32::MAX), 6);
        // The row has served two already.
        assert_eq!(before(4), 2);
    }
}
