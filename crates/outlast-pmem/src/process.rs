//! Which process something belongs to.
//!
//! A forked child has a copy of its parent's memory and the same mapped files. What the parent
//! has open it must not use. On Linux the parent marks a page that the system zeroes in children
//! (`MADV_WIPEONFORK`), so that asking costs a load; elsewhere, and in emulators that answer yes and
//! zero nothing, the process's number is compared.

use os::Mark;

/// The process that made this value. Copies of it are of the same process.
///
/// ```
/// assert!(outlast_pmem::OwnerProcess::new().is_this_process());
/// ```
#[derive(Clone)]
pub struct OwnerProcess(Mark);

impl OwnerProcess {
    /// This process.
    #[allow(clippy::new_without_default, reason = "no process is a default one")]
    pub fn new() -> Self {
        Self(Mark::new())
    }

    /// Whether the caller runs in that process, and not in a forked child of it.
    #[inline]
    pub fn is_this_process(&self) -> bool {
        self.0.is_this_process()
    }

    /// Whether the caller runs in that process and nothing has [stopped](Self::stop) it. As cheap.
    #[inline(always)]
    pub(crate) fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// Says to all copies that the process must stop to use what is marked.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

#[cfg(all(target_os = "linux", not(outlast_portable), not(miri)))]
mod os {
    use std::ptr::{NonNull, null_mut};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::{Arc, LazyLock};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Bytes of a marked page. The system rounds them up to a page of its own.
    const PAGE_BYTES: usize = 4096;

    /// The mark of a process that goes on.
    const RUNNING: u32 = 1;
    /// The mark of one that was stopped.
    const STOPPED: u32 = 2;

    /// A page that holds a mark in the process that made it and zero in its children; without
    /// such a page, the number of that process.
    #[derive(Clone)]
    pub(super) struct Mark {
        mark: Option<NonNull<AtomicU32>>,
        id: u32,
        /// Only where there is no page.
        stopped: Arc<AtomicBool>,
        /// Keeps the page behind `mark`.
        _page: Option<Arc<Page>>,
    }

    // SAFETY: the page belongs to no thread, and is accessed by atomics only.
    unsafe impl Send for Mark {}
    // SAFETY: as above.
    unsafe impl Sync for Mark {}

    impl Mark {
        pub fn new() -> Self {
            let page = Page::marked().map(Arc::new);
            let mark = page.as_ref().map(|page| page.0);
            Self { mark, id: std::process::id(), stopped: Arc::default(), _page: page }
        }

        #[inline]
        pub fn is_this_process(&self) -> bool {
            match self.mark {
                // SAFETY: it points to the start of a page that `self` keeps mapped.
                Some(mark) => unsafe { mark.as_ref() }.load(Ordering::Relaxed) != 0,
                None => self.id == std::process::id(),
            }
        }

        #[inline(always)]
        pub fn is_running(&self) -> bool {
            match self.mark {
                // SAFETY: as above.
                Some(mark) => unsafe { mark.as_ref() }.load(Ordering::Relaxed) == RUNNING,
                None => self.is_this_process() && !self.stopped.load(Ordering::Relaxed),
            }
        }

        pub fn stop(&self) {
            self.stopped.store(true, Ordering::Release);
            if let Some(mark) = self.mark {
                // SAFETY: as above. A child's zero stays.
                let mark = unsafe { mark.as_ref() };
                let _ =
                    mark.compare_exchange(RUNNING, STOPPED, Ordering::Release, Ordering::Relaxed);
            }
        }
    }

    /// A page of its own.
    struct Page(NonNull<AtomicU32>);

    // SAFETY: as of a mark.
    unsafe impl Send for Page {}
    // SAFETY: as above.
    unsafe impl Sync for Page {}

    impl Page {
        /// A page that is marked here and zero in children, where the system has such.
        fn marked() -> Option<Self> {
            if system_ignores_advice() {
                return None;
            }
            let page = Self::new(MapFlags::PRIVATE)?;
            page.wipe_in_children().then_some(())?;
            // SAFETY: the page is mapped for reading and writing, and aligned.
            unsafe { page.0.as_ref() }.store(RUNNING, Ordering::Relaxed);
            Some(page)
        }

        fn new(sharing: MapFlags) -> Option<Self> {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: no address is asked for, so nothing that exists is replaced.
            let page = unsafe { mmap_anonymous(null_mut(), PAGE_BYTES, access, sharing) }.ok()?;
            Some(Self(NonNull::new(page.cast::<AtomicU32>())?))
        }

        /// Whether the system agrees to zero it in children.
        fn wipe_in_children(&self) -> bool {
            // SAFETY: the page is this value's own.
            unsafe { madvise(self.0.as_ptr().cast(), PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_ok()
        }
    }

    /// Whether the system agrees to advice that it does not follow, as user-mode QEMU 7.2 does to
    /// all: Linux refuses this advice for a page that processes share.
    fn system_ignores_advice() -> bool {
        static IGNORES: LazyLock<bool> = LazyLock::new(|| {
            Page::new(MapFlags::SHARED).is_none_or(|shared| shared.wipe_in_children())
        });
        *IGNORES
    }

    impl Drop for Page {
        fn drop(&mut self) {
            // SAFETY: the page is this value's own, and no pointer into it is left.
            let _ = unsafe { munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
        }
    }
}

#[cfg(not(all(target_os = "linux", not(outlast_portable), not(miri))))]
mod os {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The number of a process, and whether it was stopped.
    #[derive(Clone)]
    pub(super) struct Mark(u32, Arc<AtomicBool>);

    impl Mark {
        pub fn new() -> Self {
            Self(std::process::id(), Arc::default())
        }

        #[inline]
        pub fn is_this_process(&self) -> bool {
            self.0 == std::process::id()
        }

        #[inline(always)]
        pub fn is_running(&self) -> bool {
            self.is_this_process() && !self.1.load(Ordering::Relaxed)
        }

        pub fn stop(&self) {
            self.1.store(true, Ordering::Release);
        }
    }
}

/// The program that runs this test, to be started again: behind `OUTLAST_RUNNER`, an emulator with its arguments,
/// where it is for another processor than this one.
#[cfg(test)]
pub(crate) fn own_program() -> std::process::Command {
    let own = std::env::current_exe().unwrap();
    let runner = std::env::var("OUTLAST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return std::process::Command::new(own) };
    let mut command = std::process::Command::new(emulator);
    command.args(words).arg(own);
    command
}
