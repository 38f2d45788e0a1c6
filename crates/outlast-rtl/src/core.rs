//! An in-order core with a timer interrupt, whose handler saves the registers by cacheable stores.

use crate::config::SAVED_WORDS;
use crate::ffi::{In, Out};
use crate::program::Inst;

const LOAD: u8 = 0;
const STORE: u8 = 1;
const FETCH_ADD: u8 = 2;
const FLUSH: u8 = 3;

/// A word that a core has changed, and what it is.
pub(crate) type Stored = (u32, u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Runs,
    /// Waits for the cache.
    Waits(u8, u32, u64),
    /// Saves this word of its registers.
    Saves(u64),
    /// Has saved them.
    Stands,
}

/// A core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    number: usize,
    program: Vec<Inst>,
    registers: [u64; 6],
    pc: usize,
    retired: u64,
    /// Where registers are saved.
    save: u32,
    state: State,
    is_interrupted: bool,
}

impl Core {
    /// A core at the begin of its program.
    pub(crate) fn new(number: usize, program: Vec<Inst>, save: u32) -> Self {
        let state = State::Runs;
        Self {
            number,
            program,
            registers: [0; 6],
            pc: 0,
            retired: 0,
            save,
            state,
            is_interrupted: false,
        }
    }

    /// The same where a recovered memory says that it stood.
    pub(crate) fn resumed(mut self, memory: &[u64]) -> Self {
        let saved = &memory[self.save as usize..][..SAVED_WORDS as usize];
        self.retired = saved[0];
        self.pc = saved[1] as usize;
        self.registers.copy_from_slice(&saved[2..]);
        self
    }

    /// Instructions that it has executed.
    pub(crate) fn retired(&self) -> u64 {
        self.retired
    }

    pub(crate) fn has_halted(&self) -> bool {
        self.program[self.pc] == Inst::Halt && self.state == State::Runs
    }

    /// The timer: it ends its instruction and saves its registers.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    pub(crate) fn stands(&self) -> bool {
        self.state == State::Stands
    }

    /// Goes on behind the interrupt.
    pub(crate) fn go_on(&mut self) {
        (self.state, self.is_interrupted) = (State::Runs, false);
    }

    fn saved(&self, word: u64) -> u64 {
        match word {
            0 => self.retired,
            1 => self.pc as u64,
            word => self.registers[word as usize - 2],
        }
    }

    /// Its side of the next cycle: an instruction that needs no memory is over in it.
    pub(crate) fn drive(&mut self, input: &mut In) {
        if self.state == State::Runs {
            match self.is_interrupted {
                true => self.state = State::Saves(0),
                false => self.begin(),
            }
        }
        let (op, at, data) = match self.state {
            State::Waits(op, at, data) => (op, at, data),
            State::Saves(word) => (STORE, self.save + word as u32, self.saved(word)),
            State::Runs | State::Stands => {
                input.req_valid &= !(1 << self.number);
                return;
            }
        };
        input.req_valid |= 1 << self.number;
        input.req_op[self.number] = op;
        input.req_addr[self.number] = at;
        input.req_data[self.number] = data;
    }

    fn begin(&mut self) {
        let r = &mut self.registers;
        let at = |base: u64, offset: u32| base as u32 + offset;
        let next = self.pc + 1;
        match self.program[self.pc] {
            Inst::Halt => return,
            Inst::Set(to, value) => r[to] = value,
            Inst::Add(to, a, b) => r[to] = r[a].wrapping_add(r[b]),
            Inst::Scale(to, a, factor, addend) => {
                r[to] = r[a].wrapping_mul(factor).wrapping_add(addend)
            }
            Inst::Reduce(to, a, shift, modulus, addend) => {
                r[to] = (r[a] >> shift) % modulus + addend
            }
            Inst::Below(a, limit, target) => {
                self.pc = if r[a] < limit { target } else { next };
                self.retired += 1;
                return;
            }
            Inst::Load(_, base, offset) => {
                self.state = State::Waits(LOAD, at(r[base], offset), 0);
                return;
            }
            Inst::Store(from, base, offset) => {
                self.state = State::Waits(STORE, at(r[base], offset), r[from]);
                return;
            }
            Inst::FetchAdd(_, from, base, offset) => {
                self.state = State::Waits(FETCH_ADD, at(r[base], offset), r[from]);
                return;
            }
            Inst::Flush(base) => {
                self.state = State::Waits(FLUSH, at(r[base], 0), 0);
                return;
            }
        }
        self.pc = next;
        self.retired += 1;
    }

    /// What the cache answered in a cycle. Returns what was stored by it.
    pub(crate) fn take(&mut self, out: &Out) -> Option<Stored> {
        if out.resp_valid >> self.number & 1 == 0 {
            return None;
        }
        let answer = out.resp_data[self.number];
        match self.state {
            State::Waits(op, at, data) => {
                if let Inst::Load(to, ..) | Inst::FetchAdd(to, ..) = self.program[self.pc] {
                    self.registers[to] = answer;
                }
                self.pc += 1;
                self.retired += 1;
                self.state = State::Runs;
                match op {
                    STORE => Some((at, data)),
                    FETCH_ADD => Some((at, answer.wrapping_add(data))),
                    _ => None,
                }
            }
            State::Saves(word) => {
                let stored = (self.save + word as u32, self.saved(word));
                self.state = match word + 1 {
                    SAVED_WORDS => State::Stands,
                    next => State::Saves(next),
                };
                Some(stored)
            }
            State::Runs | State::Stands => None,
        }
    }
}
