//! The shares of the operations.

/// One of the six, or OLTP-Bench's mix of all operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Letter {
    A,
    B,
    C,
    D,
    E,
    F,
    Oltp,
}

/// Operations of each kind in a hundred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mix {
    pub(crate) read: u64,
    pub(crate) update: u64,
    pub(crate) insert: u64,
    pub(crate) scan: u64,
    pub(crate) read_modify_write: u64,
    pub(crate) delete: u64,
}

impl Letter {
    pub(crate) fn mix(self) -> Mix {
        let mix = |read, update, insert, scan, read_modify_write| Mix {
            read,
            update,
            insert,
            scan,
            read_modify_write,
            delete: 0,
        };
        match self {
            Self::A => mix(50, 50, 0, 0, 0),
            Self::B => mix(95, 5, 0, 0, 0),
            Self::C => mix(100, 0, 0, 0, 0),
            Self::D => mix(95, 0, 5, 0, 0),
            Self::E => mix(0, 0, 5, 95, 0),
            Self::F => mix(50, 0, 0, 0, 50),
            Self::Oltp => Mix { delete: 10, ..mix(50, 10, 5, 15, 10) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_a_hundred() {
        use Letter::*;
        for letter in [A, B, C, D, E, F, Oltp] {
            let Mix { read, update, insert, scan, read_modify_write, delete } = letter.mix();
            let sum = read + update + insert + scan + read_modify_write + delete;
            assert_eq!(sum, 100, "{letter:?}");
        }
    }
}
