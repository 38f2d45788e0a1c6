//! Traffic by what caused it: the causes that every machine has, and those that a scheme names.

use crate::hierarchy::Cause;

/// The place of a cause among those that are counted; none for one that no timed machine has.
#[inline]
pub(crate) fn place(cause: Cause) -> Option<usize> {
    match cause {
        Cause::Evicted => Some(0),
        Cause::Flushed => Some(1),
        Cause::Streamed => Some(2),
        Cause::Logged => Some(3),
        Cause::Forced => Some(4),
        Cause::Metadata => Some(5),
        Cause::Scheme(own) => Some(WritesByCause::CAUSES.len() + usize::from(own)),
        Cause::Unasked | Cause::Stored => None,
    }
}

/// Writes to memory by what caused them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WritesByCause {
    counts: Vec<u64>,
    own: Vec<&'static str>,
}

impl WritesByCause {
    /// The causes that every machine has, with their names in results.
    pub const CAUSES: [(Cause, &'static str); 6] = [
        (Cause::Evicted, "evicted"),
        (Cause::Flushed, "flushed"),
        (Cause::Streamed, "streamed"),
        (Cause::Logged, "log"),
        (Cause::Forced, "forced"),
        (Cause::Metadata, "metadata"),
    ];

    /// Nothing yet, under a scheme that names these causes.
    pub(crate) fn new(own: &[&'static str]) -> Self {
        Self { counts: vec![0; Self::CAUSES.len() + own.len()], own: own.to_vec() }
    }

    /// The counts; counting starts again.
    pub(crate) fn take(&mut self) -> Self {
        let fresh = Self::new(&self.own);
        std::mem::replace(self, fresh)
    }

    /// Counts one.
    #[inline]
    pub(crate) fn count(&mut self, cause: Cause) {
        if let Some(at) = place(cause) {
            self.counts[at] += 1;
        }
    }

    /// Takes one back: it went elsewhere.
    pub(crate) fn uncount(&mut self, cause: Cause) {
        if let Some(count) = place(cause).and_then(|at| self.counts.get_mut(at)) {
            *count = count.saturating_sub(1);
        }
    }

    /// The name of a cause in results.
    pub fn name(&self, cause: Cause) -> &'static str {
        match cause {
            Cause::Scheme(own) => self.own.get(usize::from(own)).copied().unwrap_or("other"),
            _ => Self::CAUSES.iter().find(|row| row.0 == cause).map_or("other", |row| row.1),
        }
    }

    /// How many writes had this cause.
    pub fn of(&self, cause: Cause) -> u64 {
        place(cause).and_then(|at| self.counts.get(at)).copied().unwrap_or(0)
    }

    /// Every cause with its name and its count, those that the scheme names last.
    pub fn each(&self) -> impl Iterator<Item = (Cause, &'static str, u64)> + '_ {
        let own = self.own.iter().zip(0..).map(|(name, own)| (Cause::Scheme(own), *name));
        Self::CAUSES.into_iter().chain(own).map(|(cause, name)| (cause, name, self.of(cause)))
    }
}

/// Who wanted a line from memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadCause {
    /// A load missed all caches.
    Load,
    /// A store did.
    Store,
    /// A page walk did.
    Walk,
    /// The scheme asked for it, for this cause.
    Scheme(Cause),
}

impl ReadCause {
    /// Those that are no scheme's, with their names in results.
    const CAUSES: [(ReadCause, &'static str); 3] =
        [(ReadCause::Load, "load"), (ReadCause::Store, "store"), (ReadCause::Walk, "walk")];
}

/// Reads from memory by what caused them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadsByCause {
    missed: [u64; ReadCause::CAUSES.len()],
    scheme: WritesByCause,
}

impl ReadsByCause {
    /// Nothing yet, under a scheme that names these causes.
    pub(crate) fn new(own: &[&'static str]) -> Self {
        Self { missed: [0; ReadCause::CAUSES.len()], scheme: WritesByCause::new(own) }
    }

    /// The counts; counting starts again.
    pub(crate) fn take(&mut self) -> Self {
        let scheme = self.scheme.take();
        Self { missed: std::mem::take(&mut self.missed), scheme }
    }

    /// Counts one.
    #[inline]
    pub(crate) fn count(&mut self, cause: ReadCause) {
        match cause {
            ReadCause::Load => self.missed[0] += 1,
            ReadCause::Store => self.missed[1] += 1,
            ReadCause::Walk => self.missed[2] += 1,
            ReadCause::Scheme(cause) => self.scheme.count(cause),
        }
    }

    /// Takes one back: it went elsewhere.
    pub(crate) fn uncount(&mut self, cause: ReadCause) {
        let missed = ReadCause::CAUSES.iter().position(|row| row.0 == cause);
        match (missed, cause) {
            (Some(at), _) => self.missed[at] = self.missed[at].saturating_sub(1),
            (None, ReadCause::Scheme(cause)) => self.scheme.uncount(cause),
            (None, _) => {}
        }
    }

    /// How many reads had this cause.
    pub fn of(&self, cause: ReadCause) -> u64 {
        match cause {
            ReadCause::Load => self.missed[0],
            ReadCause::Store => self.missed[1],
            ReadCause::Walk => self.missed[2],
            ReadCause::Scheme(cause) => self.scheme.of(cause),
        }
    }

    /// Every cause with its name and its count: who missed, then what the scheme read for.
    pub fn each(&self) -> impl Iterator<Item = (ReadCause, &'static str, u64)> + '_ {
        let missed = ReadCause::CAUSES.iter().map(|(cause, name)| (*cause, *name, self.of(*cause)));
        let scheme = self.scheme.each().map(|(c, name, count)| (ReadCause::Scheme(c), name, count));
        missed.chain(scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schemes_causes_are_counted_under_their_names() {
        let own: &[&str] = &["undo", "table"];
        let mut writes = WritesByCause::new(own);
        let causes = [Cause::Scheme(1), Cause::Evicted, Cause::Scheme(1), Cause::Stored];
        causes.into_iter().for_each(|cause| writes.count(cause));
        let mut reads = ReadsByCause::new(own);
        reads.count(ReadCause::Walk);
        reads.count(ReadCause::Scheme(Cause::Scheme(0)));
        let counted = |(_, name, count)| (count > 0).then_some((name, count));
        let of_writes: Vec<_> = writes.each().filter_map(counted).collect();
        assert_eq!(of_writes, [("evicted", 1), ("table", 2)]);
        let counted = |(_, name, count)| (count > 0).then_some((name, count));
        let of_reads: Vec<_> = reads.each().filter_map(counted).collect();
        assert_eq!(of_reads, [("walk", 1), ("undo", 1)]);
        writes.uncount(Cause::Scheme(1));
        assert_eq!((writes.take().of(Cause::Scheme(1)), writes.of(Cause::Scheme(1))), (1, 0));
        assert_eq!((writes.name(Cause::Scheme(0)), writes.name(Cause::Logged)), ("undo", "log"));
    }
}
