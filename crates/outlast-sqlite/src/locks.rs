//! SQLite's locks between the connections of a process.
//!
//! `SHARED` is for many, `RESERVED` for one beside them, `PENDING` keeps new readers out, `EXCLUSIVE` is
//! for one alone. Other processes are kept out by the lock on the pool's file.

/// How much of a database a connection has locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// It reads.
    Shared,
    /// It will write.
    Reserved,
    /// It waits for readers to end.
    Pending,
    /// It writes.
    Exclusive,
}

impl Level {
    /// The level of SQLite's number.
    pub fn from_number(number: i32) -> Option<Self> {
        const ALL: [Level; 5] =
            [Level::None, Level::Shared, Level::Reserved, Level::Pending, Level::Exclusive];
        usize::try_from(number).ok().and_then(|number| ALL.get(number).copied())
    }
}

/// Another connection is in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

/// The locks of a database.
#[derive(Default, Debug)]
pub struct Locks {
    /// Connections at `SHARED` or above.
    readers: usize,
    /// One of them is above `SHARED`.
    has_writer: bool,
    /// And keeps new readers out.
    is_pending: bool,
}

impl Locks {
    /// Raises a connection's lock, which is at `level`.
    pub fn raise(&mut self, level: &mut Level, to: Level) -> Result<(), Busy> {
        if to <= *level {
            return Ok(());
        }
        if *level == Level::None {
            if self.is_pending {
                return Err(Busy);
            }
            self.readers += 1;
            *level = Level::Shared;
        }
        if to == Level::Shared {
            return Ok(());
        }
        if *level == Level::Shared {
            if self.has_writer {
                return Err(Busy);
            }
            self.has_writer = true;
            *level = Level::Reserved;
        }
        if to == Level::Reserved {
            return Ok(());
        }
        self.is_pending = true;
        *level = Level::Pending;
        if to == Level::Exclusive {
            if self.readers > 1 {
                return Err(Busy);
            }
            *level = Level::Exclusive;
        }
        Ok(())
    }

    /// Lowers a connection's lock. `true` when it could write before and no longer can.
    pub fn lower(&mut self, level: &mut Level, to: Level) -> bool {
        let before = *level;
        if to >= before {
            return false;
        }
        let ends_writing = before > Level::Shared && to <= Level::Shared;
        if ends_writing {
            (self.has_writer, self.is_pending) = (false, false);
        }
        if to == Level::None {
            self.readers -= 1;
        }
        *level = to;
        ends_writing
    }

    /// Whether a connection is at `RESERVED` or above.
    pub fn has_writer(&self) -> bool {
        self.has_writer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_when_all_others_have_gone() {
        let mut locks = Locks::default();
        let (mut one, mut two, mut three) = (Level::None, Level::None, Level::None);
        assert_eq!(locks.raise(&mut one, Level::Shared), Ok(()));
        assert_eq!(locks.raise(&mut two, Level::Shared), Ok(()));
        assert_eq!(locks.raise(&mut one, Level::Reserved), Ok(()));
        assert!(locks.has_writer());
        assert_eq!(locks.raise(&mut two, Level::Reserved), Err(Busy));
        assert_eq!((locks.raise(&mut one, Level::Exclusive), one), (Err(Busy), Level::Pending));
        assert_eq!((locks.raise(&mut three, Level::Shared), three), (Err(Busy), Level::None));
        assert!(!locks.lower(&mut two, Level::None), "it has only read");
        assert_eq!(locks.raise(&mut one, Level::Exclusive), Ok(()));
        assert!(locks.lower(&mut one, Level::Shared));
        assert_eq!(locks.raise(&mut three, Level::Shared), Ok(()));
        assert_eq!(locks.raise(&mut three, Level::Exclusive), Err(Busy), "the first still reads");
        assert_eq!(three, Level::Pending);
        assert!(locks.lower(&mut three, Level::None));
        assert!(!locks.has_writer());
    }
}
