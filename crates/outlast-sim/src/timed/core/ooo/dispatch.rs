//! Dispatch: instructions enter the reorder buffer with what they wait for.

use super::*;

impl OutOfOrder {
    /// Dispatches what fits. Returns whether there is more that only waits for the next cycle,
    /// or for `resume`.
    #[inline]
    pub(super) fn dispatch<S: Scheme>(&mut self, now: Cycle, up: &mut Uncore<S>) -> bool {
        if self.resume > now {
            return true;
        }
        if let Some(number) = self.serialising {
            if self.head <= number || self.lsu.stores.head < self.lsu.stores.senior {
                return false;
            }
            self.serialising = None;
        }
        if up.below.stop.is_on {
            return self.dispatch_in_order::<S, true>(now, up);
        }
        self.dispatch_in_order::<S, false>(now, up)
    }

    /// Dispatches in the order of the program, while cores stop nothing but what was injected.
    #[inline]
    fn dispatch_in_order<S: Scheme, const STOPPED: bool>(
        &mut self,
        now: Cycle,
        up: &mut Uncore<S>,
    ) -> bool {
        let mut left = self.dispatch_width;
        while left > 0 {
            if self.wrong_branch.is_some() || self.serialising.is_some() {
                return false;
            }
            if self.tail - self.head >= self.capacity {
                return false;
            }
            let Some(instr) = self.front.peek() else { return false };
            let instr = *instr;
            if STOPPED && instr.kind != InstrKind::Injected {
                return false;
            }
            // A mark travels with the stores and takes an entry, too.
            let mark = instr.kind == InstrKind::Mark;
            if self.load_tail - self.load_head + u64::from(instr.loads)
                > self.lsu.loads.len() as u64
                || u64::from(instr.stores) + u64::from(mark) > self.lsu.stores.room()
            {
                return false;
            }
            self.front.advance();
            left -= u32::from(!mark);
            self.enter(&instr, now, up);
        }
        true
    }

    /// Puts an instruction into the reorder buffer.
    #[inline]
    pub(super) fn enter<S: Scheme>(&mut self, instr: &Instr, now: Cycle, up: &mut Uncore<S>) {
        let number = self.tail;
        let slot = self.slot(number);
        let (mut ready, mut missing) = (now, 0);
        for (k, &register) in instr.sources.iter().enumerate() {
            if register == 0 {
                continue;
            }
            let writer = self.writers[usize::from(register)];
            if writer <= self.head {
                continue; // Retired, or never written.
            }
            let producer = self.slot(writer - 1);
            let entry = &mut self.entries[producer];
            if entry.done == Cycle::NEVER {
                let node = slot * SOURCES + k;
                self.nodes[node] = std::mem::replace(&mut entry.waiters, node as u32 + 1);
                missing += 1;
            } else {
                ready = ready.max(entry.done);
            }
        }
        for &register in instr.destinations.iter().filter(|register| **register != 0) {
            self.writers[usize::from(register)] = number + 1;
        }
        let (first_load, first_store) = (self.load_tail, self.lsu.stores.tail);
        let loads = self.lsu.loads.len() as u64;
        for &at in instr.load_at() {
            self.lsu.loads[(self.load_tail % loads) as usize] =
                Load::new(at, slot as u16, first_store);
            self.load_tail += 1;
        }
        let stores = self.enter_stores(instr);
        self.entries[slot] = Entry {
            done: Cycle::NEVER,
            ready,
            waiters: 0,
            missing,
            loads: instr.loads,
            stores,
            plain: instr.kind == InstrKind::Plain,
            first_load: (first_load % loads) as u32,
            first_store,
        };
        self.tail += 1;
        if instr.kind != InstrKind::Plain {
            self.kinds[slot] = instr.kind;
            self.enter_kind(instr, number, slot);
        }
        if missing == 0 {
            self.execute(slot, now, up);
            self.tell_all(now, up);
        }
    }

    /// Puts an instruction's stores into the store queue; returns how many entries it took.
    #[inline]
    pub(super) fn enter_stores(&mut self, instr: &Instr) -> u8 {
        let kind = match instr.kind {
            InstrKind::Rmw => self.lsu.locked_store(),
            InstrKind::StoreNt => StoreKind::StoreNt,
            InstrKind::Store64 => StoreKind::Store64,
            InstrKind::Flush(kind) => StoreKind::Flush(kind),
            InstrKind::Mark => {
                let mark = self.front.batch.mark(instr);
                let travels = matches!(mark, Mark::TxBegin | Mark::TxEnd | Mark::Epoch);
                if travels {
                    self.push_store(0, instr, StoreKind::Mark(mark));
                }
                return u8::from(travels);
            }
            _ => StoreKind::Store,
        };
        for &at in instr.store_at() {
            let number = self.push_store(at, instr, kind);
            if kind == StoreKind::Store64 {
                self.lsu.stores.set_line(number, self.front.batch.line(instr));
            }
        }
        instr.stores
    }

    #[inline]
    pub(super) fn push_store(&mut self, at: u64, instr: &Instr, kind: StoreKind) -> u64 {
        self.lsu.stores.push(Store {
            at,
            value: instr.value,
            len: instr.store_len,
            kind,
            asked: false,
            ready: Cycle::NEVER,
        })
    }

    pub(super) fn enter_kind(&mut self, instr: &Instr, number: u64, slot: usize) {
        match instr.kind {
            InstrKind::Branch(taken) => {
                self.lsu.stats.branches += 1;
                if !self.predictor.predict(instr.pc, taken) {
                    self.lsu.stats.mispredicted += 1;
                    self.wrong_branch = Some(number);
                }
            }
            InstrKind::Mfence | InstrKind::Rmw => self.serialising = Some(number),
            InstrKind::Mark => {
                let mark = self.front.batch.mark(instr);
                self.marks[slot] = mark;
                if matches!(mark, Mark::TxAbort | Mark::Lock { .. } | Mark::Wait { .. }) {
                    self.serialising = Some(number);
                }
            }
            _ => {}
        }
    }

    /// All sources of an entry are known: it executes as soon as they are there.
    #[inline]
    pub(super) fn execute<S: Scheme>(&mut self, slot: usize, now: Cycle, up: &mut Uncore<S>) {
        let Entry { ready, loads, stores, first_load, first_store, .. } = self.entries[slot];
        let at = ready.max(now);
        let issue = match self.thread {
            None => self.issue.reserve(now, at),
            Some(_) => up.shared(self.id).issue.reserve(now, at),
        };
        if loads == 0 && stores == 0 {
            self.complete(slot, issue.plus(WORK_CYCLES), up);
            return;
        }
        self.entries[slot].ready = issue;
        self.entries[slot].missing = loads + stores + 1;
        for k in 0..u32::from(loads) {
            let mut number = first_load + k;
            if number >= self.lsu.loads.len() as u32 {
                number -= self.lsu.loads.len() as u32;
            }
            let at = match self.thread {
                None => self.load_ports.reserve(now, issue),
                Some(_) => up.shared(self.id).load_ports.reserve(now, issue),
            };
            let load = number as u16;
            if at > now {
                up.schedule(at, Event::Load { core: self.id, load });
            } else if let Some(done) = self.lsu.load(load, now, up) {
                self.part_known(slot, done);
            }
        }
        for k in 0..u64::from(stores) {
            let store = *self.lsu.stores.get(first_store + k);
            let translated = match store.kind {
                StoreKind::Mark(_) => Some(0),
                _ => self.lsu.translate_store(store.at, slot as u16, up),
            };
            if let Some(cycles) = translated {
                self.part_known(slot, issue.plus(cycles + WORK_CYCLES));
            }
        }
        self.part_known(slot, issue);
        self.complete_if_known(slot, up);
    }
}
