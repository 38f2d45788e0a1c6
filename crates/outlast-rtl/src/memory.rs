//! Memory behind the port: words of 64 bits, each of them atomic.
//!
//! A write waits in a volatile queue and becomes durable at any time and in any order, but for writes of
//! one word, which keep theirs; then it is acknowledged. A read finds the youngest write. A power cut
//! leaves what is durable, and of the queue what the adversary chooses, in the order of each word.

use std::collections::VecDeque;

use outlast_workloads::Random;

use crate::ffi::{In, Out};

/// Writes that wait at most.
const QUEUE: usize = 24;

#[derive(Clone, Copy, Debug)]
struct Write {
    at: u32,
    word: u64,
    kind: u8,
}

/// The memory of a bench.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    durable: Vec<u64>,
    queue: Vec<Write>,
    /// Words of the line that is read, and cycles until the first.
    read: VecDeque<u64>,
    read_after: u64,
    random: Random,
    /// Cycles for each write that the queue makes durable, on average.
    slowness: u64,
}

impl Memory {
    pub(crate) fn new(durable: Vec<u64>, slowness: u64, random: Random) -> Self {
        let (queue, read) = (Vec::new(), VecDeque::new());
        Self { durable, queue, read, read_after: 0, random, slowness }
    }

    /// The same with a write durable every `slowness` cycles, on average.
    pub(crate) fn with_slowness(self, slowness: u64) -> Self {
        Self { slowness, ..self }
    }

    pub(crate) fn durable(&self) -> &[u64] {
        &self.durable
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// A word as a read finds it.
    pub(crate) fn word(&self, at: u32) -> u64 {
        let youngest = self.queue.iter().rev().find(|write| write.at == at);
        youngest.map_or(self.durable[at as usize], |write| write.word)
    }

    /// A word that the operating system writes durably.
    pub(crate) fn write_durably(&mut self, at: u32, word: u64) {
        self.durable[at as usize] = word;
    }

    /// Its side of the next cycle.
    pub(crate) fn drive(&mut self, input: &mut In) {
        (input.ack_valid, input.read_valid) = (0, 0);
        if !self.queue.is_empty() && self.random.below(self.slowness) == 0 {
            let chosen = self.random.below(self.queue.len() as u64) as usize;
            let at = self.queue[chosen].at;
            let first = self.queue.iter().position(|write| write.at == at).unwrap_or(chosen);
            let write = self.queue.remove(first);
            self.durable[write.at as usize] = write.word;
            (input.ack_valid, input.ack_kind) = (1, write.kind);
        }
        if self.read_after > 0 {
            self.read_after -= 1;
        } else if let Some(word) = self.read.pop_front() {
            (input.read_valid, input.read_data) = (1, word);
        }
        input.mem_ready = u8::from(self.queue.len() < QUEUE && self.random.below(8) > 0);
    }

    /// What the hardware asked for in a cycle in which `drive` was ready. Returns the write, if any.
    pub(crate) fn take(&mut self, out: &Out) -> Option<(u8, u32)> {
        if out.mem_write == 0 {
            self.read.extend(
                (out.mem_addr..out.mem_addr + 8).map(|at| self.word(at)).collect::<Vec<_>>(),
            );
            self.read_after = 1 + self.random.below(4);
            return None;
        }
        self.queue.push(Write { at: out.mem_addr, word: out.mem_data, kind: out.mem_kind });
        Some((out.mem_kind, out.mem_addr))
    }

    /// What a power cut leaves, by an adversary of its own.
    pub(crate) fn crash(&self, adversary: &mut Random) -> Vec<u64> {
        let mut left = self.durable.clone();
        let mut lost: Vec<u32> = Vec::new();
        // All, none, or each by itself.
        let style = adversary.below(4);
        for write in &self.queue {
            let survives = match style {
                0 => true,
                1 => false,
                _ => adversary.below(2) == 0,
            };
            if survives && !lost.contains(&write.at) {
                left[write.at as usize] = write.word;
            } else {
                lost.push(write.at);
            }
        }
        left
    }
}
