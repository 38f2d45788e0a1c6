//! Networks and linear programs.

use std::fmt::Write;

use super::random;

/// A minimum-cost flow in DIMACS's format: duties of vehicles, as the benchmark's network simplex has
/// them. Trips in the order of time; each vehicle goes from trip to a later one.
pub fn network_flow() -> Vec<u8> {
    const TRIPS: u64 = 20_000;
    const NEXT: u64 = 30;
    let mut random = random(21);
    let mut arcs = String::new();
    let mut count = 0;
    let (source, sink) = (1, 2 * TRIPS + 2);
    let mut arc = |from: u64, to: u64, capacity: u64, cost: u64| {
        let _ = writeln!(arcs, "a {from} {to} 0 {capacity} {cost}");
        count += 1;
    };
    for trip in 0..TRIPS {
        let (start, end) = (2 + 2 * trip, 3 + 2 * trip);
        arc(source, start, 1, 5000 + random.below(1000));
        arc(end, sink, 1, random.below(1000));
        // A trip that no vehicle takes costs much.
        arc(source, end, 1, 0);
        arc(start, sink, 1, 40_000);
        for _ in 0..NEXT {
            let later = trip + 1 + random.below(400);
            if later < TRIPS {
                arc(end, 2 + 2 * later, 1, (later - trip) * 9 + random.below(700));
            }
        }
    }
    format!(
        "p min {sink} {count}\nn {source} {flow}\nn {sink} -{flow}\n{arcs}",
        flow = TRIPS + TRIPS / 8
    )
    .into_bytes()
}

/// Shortest paths over a map of terrain in DIMACS's format: each field has four neighbours.
pub fn grid_paths() -> Vec<u8> {
    const SIDE: u64 = 600;
    let mut random = random(22);
    let terrain: Vec<u64> = (0..SIDE * SIDE).map(|_| 1 + random.below(60)).collect();
    let mut text = format!("p sp {} {}\nn 1 s\n", SIDE * SIDE, 4 * SIDE * (SIDE - 1));
    let cost = |a: u64, b: u64| terrain[a as usize] + terrain[b as usize];
    for row in 0..SIDE {
        for column in 0..SIDE {
            let here = row * SIDE + column;
            let right = (column + 1 < SIDE).then_some(here + 1);
            let below = (row + 1 < SIDE).then_some(here + SIDE);
            for there in right.into_iter().chain(below) {
                let _ = writeln!(text, "a {} {} {}", here + 1, there + 1, cost(here, there));
                let _ = writeln!(text, "a {} {} {}", there + 1, here + 1, cost(here, there));
            }
        }
    }
    text.into_bytes()
}

/// A linear program in CPLEX's format: goods through a network of stores, sparse, with some thousand rows.
pub fn linear_program() -> Vec<u8> {
    const GOODS: u64 = 30;
    const PLACES: u64 = 200;
    const ROADS: u64 = 5;
    let mut random = random(23);
    let mut cost = String::from("Minimize\n cost:");
    let mut flow = vec![String::new(); (GOODS * PLACES) as usize];
    let mut roads = String::new();
    for from in 0..PLACES {
        for road in 0..ROADS {
            let to = (from + 1 + random.below(PLACES - 1)) % PLACES;
            let _ = write!(roads, " road{from}_{road}:");
            for good in 0..GOODS {
                let name = format!("x{good}_{from}_{road}");
                let _ = writeln!(cost, " + {} {name}", 10 + random.below(90));
                let _ = write!(flow[(good * PLACES + from) as usize], " + {name}");
                let _ = write!(flow[(good * PLACES + to) as usize], " - {name}");
                let _ = write!(roads, " + {} {name}", 1 + random.below(3));
                if good % 6 == 5 {
                    roads.push('\n');
                }
            }
            let _ = writeln!(roads, " <= {}", 60 + random.below(200));
        }
    }
    let mut text = cost + "Subject To\n";
    for good in 0..GOODS {
        let mut left = 0i64;
        for place in 0..PLACES {
            let amount = random.below(41) as i64 - 20;
            left += amount;
            let amount = if place + 1 == PLACES { amount - left } else { amount };
            // What cannot be had or brought away costs much.
            let at = (good * PLACES + place) as usize;
            let _ = writeln!(
                text,
                " at{good}_{place}:{} + less{good}_{place} - more{good}_{place} = {amount}",
                flow[at].replace(" - ", "\n - ")
            );
        }
    }
    text += &roads;
    text += "Bounds\nEnd\n";
    let mut much = String::new();
    for good in 0..GOODS {
        for place in 0..PLACES {
            let _ = writeln!(much, " + 900 less{good}_{place} + 900 more{good}_{place}");
        }
    }
    text.replacen("Subject To\n", &(much + "Subject To\n"), 1).into_bytes()
}
