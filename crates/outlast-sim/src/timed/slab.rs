//! Values that events and requests name by a number.

/// Values under numbers that are used again.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps a value under the number that comes back.
    pub(crate) fn put(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = Some(value);
                number
            }
            None => {
                self.values.push(Some(value));
                (self.values.len() - 1) as u32
            }
        }
    }

    /// The value under a number that was given out and not taken back.
    #[track_caller]
    pub(crate) fn get(&mut self, number: u32) -> &mut T {
        self.values[number as usize].as_mut().expect("a number stands for its value until taken")
    }

    /// Takes a value out; its number is free.
    #[track_caller]
    pub(crate) fn take(&mut self, number: u32) -> T {
        let value = self.values[number as usize].take();
        self.free.push(number);
        value.expect("a number stands for its value until taken")
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.values.len()
    }
}
