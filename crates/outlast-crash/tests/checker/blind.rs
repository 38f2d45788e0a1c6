//! Lanes that store without looking: to words that they have not read, and to blocks whose address
//! came to them by ways of their own. Nothing but the numbers of their commits says then what came
//! first, and recovery must say the same.

use outlast::lab::Plant;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, BlockKind, Lane, Pool, PoolOffset, Runner, Scheme, Transact, Tx};
use outlast_pmem::Recorder;
use outlast_trace::Random;

const LANES: u32 = 3;
const POOL_BYTES: u64 = 256 << 10;
const CELLS: u64 = 3;
const STEPS: usize = 60;

/// Every other run has lanes that come and go, so that one may be alone for a while.
fn options(scheme: Scheme, lock_always: bool) -> OpenOptions {
    let open = OpenOptions::with_scheme(scheme);
    OpenOptions { lock_stripes: 1 << 10, lock_always, step_every: 2, ..open }
}

/// What stands in the pool after all that was committed.
struct Model {
    cells: PoolOffset,
    values: [u64; CELLS as usize],
    blocks: Vec<PoolOffset>,
    freed: Vec<PoolOffset>,
}

impl Model {
    /// One transaction of a lane, which loads nothing. It may become durable later.
    fn step(&mut self, lane: &mut Lane<'_, Recorder>, later: bool, draws: &mut Random) {
        fn run<R>(
            lane: &mut Lane<'_, Recorder>,
            later: bool,
            body: impl FnMut(&mut Tx<'_, Recorder>) -> Result<R, Abort>,
        ) -> R {
            if later { lane.run_later(body).unwrap() } else { lane.run(body).unwrap() }
        }
        match draws.next_u64() % 8 {
            0 => {
                let at = run(lane, later, |tx| tx.alloc(64, BlockKind::General));
                self.freed.retain(|freed| *freed != at);
                self.blocks.push(at);
            }
            1 if !self.blocks.is_empty() => {
                let at = self.blocks.swap_remove(draws.next_u64() as usize % self.blocks.len());
                self.freed.push(at);
                run(lane, later, |tx| tx.free(at));
            }
            _ => {
                let (cell, value) = (draws.next_u64() % CELLS, draws.next_u64());
                self.values[cell as usize] = value;
                run(lane, later, |tx| tx.store_u64(self.cells.plus(cell * 64), value));
            }
        }
    }

    /// What a crash at this moment leaves if the caches have written everything back.
    fn judge(&self, image: Vec<u8>, scheme: Scheme, plant: Option<Plant>) -> Result<(), String> {
        let pool =
            UnrecoveredPool::open(Recorder::from_image(image).planting(Plant::code_of(plant)));
        let pool = pool.unwrap().recover().map_err(|error| error.to_string())?;
        let pool = pool.start(&options(scheme, true)).unwrap();
        let found = pool.lane().unwrap().run(|tx| {
            for (cell, value) in (0..).zip(&self.values) {
                let found = tx.load_u64(self.cells.plus(cell * 64))?;
                if found != *value {
                    return Ok(Err(format!("cell {cell} has {found:x} instead of {value:x}")));
                }
            }
            let mut is_taken = |at| match tx.block_at(at) {
                Ok(_) => Ok(true),
                Err(Abort::BadAddress(_)) => Ok(false),
                Err(other) => Err(other),
            };
            for at in &self.blocks {
                if !is_taken(*at)? {
                    return Ok(Err(format!("the block at {at} is lost")));
                }
            }
            for at in &self.freed {
                if is_taken(*at)? {
                    return Ok(Err(format!("the block at {at} is back")));
                }
            }
            Ok(Ok(()))
        });
        found.map_err(|error| error.to_string())?
    }
}

/// A run that follows from its seed, with a crash behind each commit that was waited for.
fn run(scheme: Scheme, plant: Option<Plant>, seed: u64) -> Result<(), String> {
    let create = CreateOptions { lanes: LANES, lane_bytes: 1024, ..CreateOptions::default() };
    let medium = Recorder::new(POOL_BYTES).planting(Plant::code_of(plant));
    let stays = seed.is_multiple_of(2);
    let pool = Pool::create_on(medium, &create, &options(scheme, stays)).unwrap();
    let mut lanes: Vec<_> = (0..LANES).map(|_| stays.then(|| pool.lane().unwrap())).collect();
    let cells = lanes[0]
        .get_or_insert_with(|| pool.lane().unwrap())
        .run(|tx| {
            let cells = tx.alloc(CELLS * 64, BlockKind::General)?;
            tx.store(cells, &[0; CELLS as usize * 64])?;
            Ok(cells)
        })
        .unwrap();
    let mut model =
        Model { cells, values: [0; CELLS as usize], blocks: Vec::new(), freed: Vec::new() };
    let mut draws = Random::from_state(seed);
    // A lane goes on for a while, so that its numbers leave those of the others behind.
    let mut lane = 0;
    for step in 0..STEPS {
        if draws.next_u64().is_multiple_of(4) {
            match draws.next_u64() % 4 {
                _ if stays => {}
                0 => lanes[lane] = None,
                1 => lanes.fill_with(|| None),
                _ => {}
            }
            lane = draws.next_u64() as usize % lanes.len();
        }
        let running = lanes[lane].get_or_insert_with(|| pool.lane().unwrap());
        let later = draws.next_u64() % 8 < seed / 2 % 4 * 2;
        model.step(running, later, &mut draws);
        if later && draws.next_u64().is_multiple_of(4) {
            continue;
        }
        pool.sync().unwrap();
        let judged = model.judge(pool.medium().to_bytes(), scheme, plant);
        judged.map_err(|what| format!("{scheme}, seed {seed}, behind step {step}: {what}"))?;
    }
    Ok(())
}

const SEEDS: u64 = 240;

#[test]
fn recovery_knows_what_came_first() {
    for scheme in Scheme::durable() {
        for seed in 0..SEEDS {
            run(scheme, None, seed).unwrap();
        }
    }
}

#[test]
fn every_bug_of_numbers_is_noticed() {
    for scheme in Scheme::durable() {
        for plant in
            Plant::shown_in(outlast::lab::Shows::Numbers).filter(|plant| plant.applies_to(scheme))
        {
            let noticed = (0..SEEDS).any(|seed| run(scheme, Some(plant), seed).is_err());
            assert!(noticed, "{plant} in {scheme}");
        }
    }
    assert_eq!(Plant::shown_in(outlast::lab::Shows::Numbers).count(), 3);
}
