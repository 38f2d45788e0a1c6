//! Plans: which lane gets the baton, as data that can be written down and read back.

use std::fmt;
use std::str::FromStr;

use outlast_trace::{LaneId, Random};

/// Who gets the baton at each scheduling point.
///
/// By default a lane keeps it until it ends or pauses, and then the next one in the circle that
/// can run gets it; lane 0 begins. A plan says where that is not so. Its text form is what
/// failures print and what `parse` reads back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plan {
    /// By chance, reproducibly. At an operation the lane stays with probability `stay` ÷ 256.
    Random {
        /// Which of the random schedules.
        seed: u64,
        /// How sticky it is: 0 switches whenever it can, 255 hardly ever.
        stay: u8,
    },
    /// Each lane in turn, for a fixed number of operations.
    RoundRobin {
        /// How many, at least 1.
        operations: u32,
    },
    /// By default, except at these steps, in ascending order.
    Explicit(Vec<Switch>),
}

/// A deviation from the default: at this step that lane gets the baton.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Switch {
    /// The number of the scheduling point, from 0 on.
    pub step: u64,
    /// Who goes on.
    pub lane: LaneId,
}

impl Default for Plan {
    /// No preemption at all.
    fn default() -> Self {
        Self::Explicit(Vec::new())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random { seed, stay } => write!(f, "seed {seed} stay {stay}"),
            Self::RoundRobin { operations } => write!(f, "every {operations}"),
            Self::Explicit(switches) => {
                f.write_str("switch")?;
                for switch in switches {
                    write!(f, " {}:{}", switch.step, switch.lane.0)?;
                }
                Ok(())
            }
        }
    }
}

/// A text that is no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is no schedule; expected `seed N stay 0..255`, `every N`, or `switch STEP:LANE …` with \
     ascending steps"
)]
pub struct ParsePlanError(String);

impl FromStr for Plan {
    type Err = ParsePlanError;

    fn from_str(text: &str) -> Result<Self, ParsePlanError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        parse(&words).ok_or_else(|| ParsePlanError(text.to_owned()))
    }
}

fn parse(words: &[&str]) -> Option<Plan> {
    match *words {
        ["seed", seed, "stay", stay] => {
            Some(Plan::Random { seed: seed.parse().ok()?, stay: stay.parse().ok()? })
        }
        ["every", operations] => {
            let operations = operations.parse().ok().filter(|&n| n > 0)?;
            Some(Plan::RoundRobin { operations })
        }
        ["switch", ref rest @ ..] => {
            let switches: Vec<Switch> =
                rest.iter().map(|word| parse_switch(word)).collect::<Option<_>>()?;
            let ascending = switches.windows(2).all(|pair| pair[0].step < pair[1].step);
            ascending.then_some(Plan::Explicit(switches))
        }
        _ => None,
    }
}

fn parse_switch(word: &str) -> Option<Switch> {
    let (step, lane) = word.split_once(':')?;
    Some(Switch { step: step.parse().ok()?, lane: LaneId(lane.parse().ok()?) })
}

/// What stands to be chosen from at a scheduling point.
pub(super) struct Choice {
    pub step: u64,
    pub default: usize,
    /// The lanes that could run instead, as bits.
    pub others: u64,
    /// Whether choosing another one interrupts a lane that could have gone on.
    pub preempts: bool,
}

/// A plan being carried out.
pub(super) enum Decider {
    Random { random: Random, stay: u8 },
    RoundRobin(Turns),
    Explicit { switches: std::vec::IntoIter<Switch>, next: Option<Switch> },
}

impl Decider {
    pub fn new(plan: &Plan) -> Self {
        match plan {
            Plan::Random { seed, stay } => {
                Self::Random { random: Random::from_state(*seed), stay: *stay }
            }
            Plan::RoundRobin { operations } => {
                let every = (*operations).max(1);
                Self::RoundRobin(Turns { every, left: 0, interrupted: 0 })
            }
            Plan::Explicit(switches) => {
                let mut switches = switches.clone().into_iter();
                let next = switches.next();
                Self::Explicit { switches, next }
            }
        }
    }

    /// The lane that goes on, or the switch that cannot be made.
    pub fn decide(&mut self, choice: &Choice) -> Result<usize, Switch> {
        match self {
            Self::Random { random, stay } => {
                if choice.others == 0 {
                    return Ok(choice.default);
                }
                let mut able = choice.others;
                if choice.preempts {
                    if random.below(256) < u64::from(*stay) {
                        return Ok(choice.default);
                    }
                } else {
                    able |= 1 << choice.default;
                }
                Ok(nth_bit(able, random.below(u64::from(able.count_ones()))))
            }
            Self::RoundRobin(turns) => Ok(turns.decide(choice)),
            Self::Explicit { switches, next } => match *next {
                Some(switch) if switch.step <= choice.step => {
                    let lane = usize::from(switch.lane.0);
                    let able = choice.others | 1 << choice.default;
                    if switch.step < choice.step || lane >= 64 || able & (1 << lane) == 0 {
                        return Err(switch);
                    }
                    *next = switches.next();
                    Ok(lane)
                }
                _ => Ok(choice.default),
            },
        }
    }
}

/// Lanes that take turns of `every` operations.
pub(super) struct Turns {
    every: u32,
    /// Operations that the running lane may still begin.
    left: u32,
    /// Lanes that lost the baton just before an operation, which they carry out when they get it
    /// back, without another scheduling point.
    interrupted: u64,
}

impl Turns {
    fn decide(&mut self, choice: &Choice) -> usize {
        if !choice.preempts {
            return self.begin(choice.default);
        }
        if self.left > 0 || choice.others == 0 {
            self.left = self.left.saturating_sub(1);
            return choice.default;
        }
        self.interrupted |= 1 << choice.default;
        self.begin(super::next_in_circle(choice.others, choice.default) as usize)
    }

    fn begin(&mut self, lane: usize) -> usize {
        self.left = self.every - (self.interrupted >> lane & 1) as u32;
        self.interrupted &= !(1 << lane);
        lane
    }
}

impl Decider {
    /// A switch of an explicit plan that the run never came to.
    pub fn leftover(&self) -> Option<Switch> {
        match self {
            Self::Explicit { next, .. } => *next,
            _ => None,
        }
    }
}

/// The position of the `n`-th set bit, counted from 0.
fn nth_bit(mut bits: u64, n: u64) -> usize {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros() as usize
}
