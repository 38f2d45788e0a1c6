//! Fences for two threads that each store and then look at what the other stored.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::sync::fence;

/// Two fences that work as a pair, of which one side, the frequent one, may cost nothing.
pub(crate) struct Barrier {
    /// The heavy side makes every thread of the process execute a full fence.
    reaches_all: bool,
}

impl Barrier {
    /// A pair that works in this process.
    pub fn new() -> Self {
        Self { reaches_all: all_threads::register() }
    }

    /// A pair whose heavy side is another process's, [`reach_other_processes`](Self::reach_other_processes).
    pub fn between_processes() -> Self {
        Self { reaches_all: all_threads::register_among_processes() }
    }

    /// The light side does nothing, and leaves all to the heavy one.
    pub fn is_one_sided(&self) -> bool {
        self.reaches_all
    }

    /// The heavy side for threads of processes that have a pair [between processes](Self::between_processes).
    /// `false` where the system has none.
    pub fn reach_other_processes() -> bool {
        fence(Ordering::SeqCst);
        all_threads::fence_among_processes()
    }

    /// A pair that believes in a system that reaches all threads, which the model lacks.
    #[cfg(all(test, outlast_loom))]
    pub fn one_sided() -> Self {
        Self { reaches_all: true }
    }

    /// The frequent side's fence.
    #[inline(always)]
    pub fn light(&self) {
        if self.reaches_all {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The rare side's fence.
    pub fn heavy(&self) {
        fence(Ordering::SeqCst);
        if self.reaches_all {
            all_threads::fence();
        }
    }
}

/// Stands between the loads that tell a lane what others have stored and the flushes of those lines. On AArch64 a load
/// that acquires orders later accesses, but not the clean of another line, so a full fence does; on x86-64 every load
/// orders what follows it.
#[inline(always)]
pub(crate) fn before_flushes_of_others() {
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(target_os = "linux", not(miri), not(outlast_loom)))]
mod all_threads {
    use rustix::thread::{MembarrierCommand, membarrier};

    /// Whether [`fence`] will work.
    pub fn register() -> bool {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    pub fn fence() {
        membarrier(MembarrierCommand::PrivateExpedited).expect("the process has registered");
    }

    pub fn register_among_processes() -> bool {
        membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
    }

    pub fn fence_among_processes() -> bool {
        membarrier(MembarrierCommand::GlobalExpedited).is_ok()
    }
}

#[cfg(not(all(target_os = "linux", not(miri), not(outlast_loom))))]
mod all_threads {
    pub fn register() -> bool {
        false
    }

    pub fn fence() {}

    pub fn register_among_processes() -> bool {
        false
    }

    pub fn fence_among_processes() -> bool {
        false
    }
}

/// A number that no other living thread has.
#[cfg(not(all(test, outlast_loom)))]
pub(crate) fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// The same in the model, which does not know that a place is given again only behind its last use.
#[cfg(all(test, outlast_loom))]
pub(crate) fn this_thread() -> usize {
    loom::thread_local!(static HERE: &'static u8 = Box::leak(Box::new(0)));
    HERE.with(|here| std::ptr::from_ref(*here).addr())
}
