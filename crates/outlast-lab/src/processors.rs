//! Which processors threads run on.

/// The processors that this process may use; none where the system does not tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Processors(Vec<usize>);

#[cfg(target_os = "linux")]
impl Processors {
    pub fn of_this_process() -> Self {
        let allowed = rustix::thread::sched_getaffinity(None).ok();
        Self(allowed.map_or_else(Vec::new, |allowed| {
            (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
        }))
    }

    /// Lets the calling thread run on one of them only, the one that its number falls to; threads
    /// beside each other begin beside each other then, while a scheduler may leave two of them on
    /// one processor for tens of milliseconds with another one idle.
    pub fn pin(&self, number: usize) {
        let Some(cpu) = number.checked_rem(self.0.len()).map(|place| self.0[place]) else { return };
        let mut only = rustix::thread::CpuSet::new();
        only.set(cpu);
        // Where it is not allowed, the scheduler decides.
        let _ = rustix::thread::sched_setaffinity(None, &only);
    }
}

#[cfg(not(target_os = "linux"))]
impl Processors {
    pub fn of_this_process() -> Self {
        Self(Vec::new())
    }

    pub fn pin(&self, _number: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(not(target_os = "linux"), ignore = "the system does not tell")]
    fn threads_are_dealt_out_to_what_the_process_may_use() {
        let all = Processors::of_this_process();
        assert!(!all.0.is_empty());
        let all = &all;
        for number in 0..2 * all.0.len() {
            let seen = std::thread::scope(|scope| {
                let pinned = scope.spawn(move || {
                    all.pin(number);
                    Processors::of_this_process()
                });
                pinned.join().unwrap()
            });
            assert_eq!(seen.0, [all.0[number % all.0.len()]]);
        }
        assert_eq!(&Processors::of_this_process(), all, "the caller is left where it was");
        Processors(Vec::new()).pin(3);
    }
}
