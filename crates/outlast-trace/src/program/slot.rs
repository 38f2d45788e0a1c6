//! The prediction of the next access that the writer and the reader of a program's trace share. The plugin
//! that captures compiles this file as well.
//!
//! A *block* is a run of instructions that is entered at its begin. A *path* is a sequence of
//! accesses that one execution of it had; each access of a path is a slot, which expects its next
//! address and its next value from those before. A path that ends expects the next one. Only what was
//! not expected is written.

/// One access of a path, and what it expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slot {
    /// The instruction, kind and size, as the writer tells them apart; [`END`] and [`OPEN`] behind
    /// the last access.
    pub key: u32,
    /// The path's number.
    pub path: u32,
    /// Its place in the path.
    pub index: u16,
    /// Bytes of the access.
    pub len: u8,
    /// Whether a path that ends here was followed by another one than expected, once.
    missed: bool,
    /// The last address.
    pub at: u64,
    /// Expected distance to the next.
    stride: u64,
    /// The last distance that was not expected.
    step: u64,
    /// The last distance from the access before it in the path, at an unexpected address.
    apart: u64,
    /// The last value stored.
    value: u64,
    /// Expected distance to the next.
    value_stride: u64,
    /// The last distance that was not expected.
    value_step: u64,
}

/// Key of the slot behind a path's last.
pub const END: u32 = u32::MAX;
/// The same, while accesses are still appended.
pub const OPEN: u32 = u32::MAX - 1;

/// How an address compares with what was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// As expected from the slot's own addresses.
    Expected,
    /// As expected from the access before it.
    Beside,
    /// At this distance from the slot's last.
    Far(u64),
}

impl Slot {
    /// A slot that has seen nothing yet.
    pub fn new(key: u32, path: u32, index: u16, len: u8) -> Self {
        Self { key, path, index, len, ..Self::default() }
    }

    /// The slot before a path's first, which has the address of the access before and the block.
    pub fn first(path: u32, block: u32) -> Self {
        Self { value: block.into(), ..Self::new(END, path, 0, 8) }
    }

    /// The block of a path, in the slot before its first.
    #[inline(always)]
    pub fn block(&self) -> u32 {
        self.value as u32
    }

    /// The same slot on another path.
    pub fn on(&self, path: u32) -> Self {
        Self { path, ..*self }
    }

    /// The address that is expected.
    #[inline(always)]
    pub fn expected(&self) -> u64 {
        self.at.wrapping_add(self.stride)
    }

    /// Takes an address that is not the expected one; `before` is that of the access before.
    pub fn moved(&mut self, at: u64, before: u64) -> Found {
        let is_beside = at == before.wrapping_add(self.apart);
        let step = at.wrapping_sub(self.at);
        if step == self.step {
            self.stride = step;
        }
        self.step = step;
        self.apart = at.wrapping_sub(before);
        self.at = at;
        if is_beside { Found::Beside } else { Found::Far(step) }
    }

    /// The address at which the writer found an access; `before` as for the writer.
    #[inline(always)]
    pub fn address(&mut self, found: Found, before: u64) -> u64 {
        match found {
            Found::Expected => self.at = self.expected(),
            Found::Beside => drop(self.moved(before.wrapping_add(self.apart), before)),
            Found::Far(step) => drop(self.moved(self.at.wrapping_add(step), before)),
        }
        self.at
    }

    /// Which path is expected behind one that ends here, as [`follows`](Self::follows) has it.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.value
    }

    /// Behind a path that ends here another one followed than expected: at every second time it is
    /// expected from then on. Writer and reader number paths each in its way, 0 being none.
    pub fn follows(&mut self, path: u64) {
        if self.missed || self.value == 0 {
            self.value = path;
        }
        self.missed = !self.missed;
    }

    /// The bits of a value of this length.
    #[inline(always)]
    pub fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * u32::from(self.len))
    }

    /// The value that is expected.
    #[inline(always)]
    pub fn expected_value(&self) -> u64 {
        self.value.wrapping_add(self.value_stride) & self.mask()
    }

    /// Takes the value that is stored; none if it was expected, else its distance from the last.
    #[inline(always)]
    pub fn stores(&mut self, value: u64) -> Option<i64> {
        if value == self.expected_value() {
            self.value = value;
            return None;
        }
        Some(self.stores_other(value))
    }

    fn stores_other(&mut self, value: u64) -> i64 {
        let unused = 64 - 8 * u32::from(self.len);
        let step = ((value.wrapping_sub(self.value) << unused) as i64) >> unused;
        if step as u64 == self.value_step {
            self.value_stride = step as u64;
        }
        self.value_step = step as u64;
        self.value = value;
        step
    }

    /// The value that the writer stored.
    #[inline(always)]
    pub fn stored(&mut self, step: Option<i64>) -> u64 {
        match step {
            None => self.value = self.expected_value(),
            Some(step) => {
                self.stores_other(self.value.wrapping_add(step as u64) & self.mask());
            }
        }
        self.value
    }
}
