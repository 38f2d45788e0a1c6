//! The interface of a workload's folder to all that loads, runs and judges workloads, and the list of the
//! folders.
//!
//! A family is one program with its choices: its type is small and copied. Its data is found by
//! [`Family::Data`], its threads are [`Family::Worker`]s. Programs are compiled for each runner and
//! witness, so dispatch is a match over the families, which the list at the end makes.

use std::fmt::Debug;

use outlast::collections::{Damage, Placement, ReadRaw};
use outlast::{Abort, PoolOffset, RootKind, Runner, Transact};

use crate::facts::Versions;
use crate::tpcc::Statements;
use crate::{OpKind, Scale, State, Version, Witness};

/// The part of a scale that cannot be, its value, and the possible values.
pub(crate) type Unfit = (&'static str, u64, &'static str);

/// How much of it the timed machine runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnMachine {
    /// Bytes of its data as published, or ours where nothing is.
    pub(crate) footprint: u64,
    /// Bytes of one of its keys, about: by these footprints become keys.
    pub(crate) key_bytes: u64,
}

/// One thread of a workload.
pub(crate) trait Thread {
    /// Draws the next operation.
    fn draw(&mut self);

    /// Runs the operation that was drawn, as exactly one transaction.
    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort>;

    /// The versions that it hands out; none where nothing is versioned.
    fn versions(&self) -> Option<&Versions>;

    /// The statements of its transactions.
    fn statements(&self) -> Option<Statements> {
        None
    }
}

/// A program and what must hold of its data.
pub(crate) trait Family: Copy {
    /// Where its data lies in a pool, with what its workers share.
    type Data: Clone + Debug;
    /// One thread of it.
    type Worker: Thread;

    /// Why no oracle can judge what it leaves; nothing where one can.
    fn stands_alone(self) -> Option<&'static str> {
        None
    }

    /// The published scale, made from one with what families have in common.
    fn scale(self, common: Scale) -> Scale;

    /// A scale whose data is loaded in less than a second.
    fn quick_scale(self, published: Scale) -> Scale {
        published
    }

    /// The published scale, or one that takes less of memory where that is too much for a machine
    /// with a pool for each of several schemes.
    fn full_scale(self, published: Scale) -> Scale {
        published
    }

    /// Nanoseconds that a transaction takes at least on average, under whichever scheme: what bounds
    /// how much a measurement inserts.
    fn tx_ns_min(self) -> u64 {
        600
    }

    /// A scale of about `keys` keys.
    fn scale_of(self, keys: u64, published: Scale) -> Scale {
        Scale { records: keys, ..published }
    }

    /// The scale in words; `name` is the workload's.
    fn describe(self, name: &str, scale: &Scale) -> String;

    /// Whether it can have this scale.
    fn check(self, scale: &Scale) -> Result<(), Unfit>;

    /// Keys that a worker needs that draws from a share of them; nothing where all draw from all.
    fn keys_apart(self) -> Option<u64> {
        None
    }

    /// Whether the items of a transaction can be chosen ([`Scale::batch`]).
    fn has_batches(self) -> bool {
        false
    }

    /// Whether its records have fields with names.
    fn has_fields(self) -> bool {
        false
    }

    /// Where its keys and values go when small ones are to lie in the nodes themselves.
    fn inline_placement(self, _scale: &Scale) -> Placement {
        Placement::Together
    }

    /// Bytes that its blocks need at most, rounding to size classes and insertions included.
    fn heap_bytes(self, scale: &Scale) -> u64;

    /// Its sizes on the timed machine.
    fn on_machine(self) -> OnMachine;

    /// Creates the data in an empty pool, as its root object.
    fn load<R: Runner>(
        self,
        scale: &Scale,
        seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self::Data, Abort>;

    /// Finds the data again; nothing where the root is another's.
    fn attach<T: Transact>(
        self,
        scale: &Scale,
        root: (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Self::Data>, Abort>;

    /// The thread with this id, whose predecessor has used `used` versions.
    fn worker(self, scale: &Scale, data: &Self::Data, seed: u64, id: u8, used: u64)
    -> Self::Worker;

    /// Checks all data and visits each key with its version; false where the root is another's.
    fn audit<R: ReadRaw>(
        self,
        scale: &Scale,
        root: (PoolOffset, RootKind),
        read: &mut R,
        visit: &mut dyn FnMut(u64, Version),
    ) -> Result<bool, Damage>;

    /// Visits each key that is there before any worker has run.
    fn initial(self, scale: &Scale, seed: u64, visit: &mut dyn FnMut(u64, State));

    /// Checks what must hold of the data as a whole.
    fn check_consistency<T: Transact>(
        self,
        _scale: &Scale,
        _data: &Self::Data,
        _tx: &mut T,
    ) -> Result<(), Abort> {
        Ok(())
    }
}

macro_rules! families {
    ($($name:ident: $family:ty,)*) => {
        /// A family with its choices.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Kind {
            $($name($family),)*
        }

        /// The data of any family.
        #[derive(Clone, Debug)]
        pub(crate) enum Data {
            $($name(<$family as Family>::Data),)*
        }

        /// A thread of any family, each of a type of its own so that none pays for another.
        pub(crate) enum AnyThread {
            $($name(Box<<$family as Family>::Worker>),)*
        }

        impl Kind {
            pub(crate) fn stands_alone(self) -> Option<&'static str> {
                match self { $(Self::$name(family) => family.stands_alone(),)* }
            }

            pub(crate) fn scale(self, common: Scale) -> Scale {
                match self { $(Self::$name(family) => family.scale(common),)* }
            }

            pub(crate) fn quick_scale(self, published: Scale) -> Scale {
                match self { $(Self::$name(family) => family.quick_scale(published),)* }
            }

            pub(crate) fn full_scale(self, published: Scale) -> Scale {
                match self { $(Self::$name(family) => family.full_scale(published),)* }
            }

            pub(crate) fn tx_ns_min(self) -> u64 {
                match self { $(Self::$name(family) => family.tx_ns_min(),)* }
            }

            pub(crate) fn scale_of(self, keys: u64, published: Scale) -> Scale {
                match self { $(Self::$name(family) => family.scale_of(keys, published),)* }
            }

            pub(crate) fn describe(self, name: &str, scale: &Scale) -> String {
                match self { $(Self::$name(family) => family.describe(name, scale),)* }
            }

            pub(crate) fn check(self, scale: &Scale) -> Result<(), Unfit> {
                match self { $(Self::$name(family) => family.check(scale),)* }
            }

            pub(crate) fn keys_apart(self) -> Option<u64> {
                match self { $(Self::$name(family) => family.keys_apart(),)* }
            }

            pub(crate) fn has_batches(self) -> bool {
                match self { $(Self::$name(family) => family.has_batches(),)* }
            }

            pub(crate) fn has_fields(self) -> bool {
                match self { $(Self::$name(family) => family.has_fields(),)* }
            }

            pub(crate) fn inline_placement(self, scale: &Scale) -> Placement {
                match self { $(Self::$name(family) => family.inline_placement(scale),)* }
            }

            pub(crate) fn heap_bytes(self, scale: &Scale) -> u64 {
                match self { $(Self::$name(family) => family.heap_bytes(scale),)* }
            }

            pub(crate) fn on_machine(self) -> OnMachine {
                match self { $(Self::$name(family) => family.on_machine(),)* }
            }

            pub(crate) fn load<R: Runner>(
                self,
                scale: &Scale,
                seed: u64,
                runner: &mut R,
                progress: &mut dyn FnMut(u64, u64),
            ) -> Result<Data, Abort> {
                match self {
                    $(Self::$name(family) => {
                        family.load(scale, seed, runner, progress).map(Data::$name)
                    })*
                }
            }

            pub(crate) fn attach<T: Transact>(
                self,
                scale: &Scale,
                root: (PoolOffset, RootKind),
                tx: &mut T,
            ) -> Result<Option<Data>, Abort> {
                match self {
                    $(Self::$name(family) => {
                        Ok(family.attach(scale, root, tx)?.map(Data::$name))
                    })*
                }
            }

            /// Nothing where the data is another's.
            pub(crate) fn worker(
                self,
                scale: &Scale,
                data: &Data,
                seed: u64,
                id: u8,
                used: u64,
            ) -> Option<AnyThread> {
                match (self, data) {
                    $((Self::$name(family), Data::$name(data)) => {
                        let worker = family.worker(scale, data, seed, id, used);
                        Some(AnyThread::$name(Box::new(worker)))
                    })*
                    _ => None,
                }
            }

            pub(crate) fn audit<R: ReadRaw>(
                self,
                scale: &Scale,
                root: (PoolOffset, RootKind),
                read: &mut R,
                visit: &mut dyn FnMut(u64, Version),
            ) -> Result<bool, Damage> {
                match self { $(Self::$name(family) => family.audit(scale, root, read, visit),)* }
            }

            pub(crate) fn initial(
                self,
                scale: &Scale,
                seed: u64,
                visit: &mut dyn FnMut(u64, State),
            ) {
                match self { $(Self::$name(family) => family.initial(scale, seed, visit),)* }
            }

            pub(crate) fn check_consistency<T: Transact>(
                self,
                scale: &Scale,
                data: &Data,
                tx: &mut T,
            ) -> Result<(), Abort> {
                match (self, data) {
                    $((Self::$name(family), Data::$name(data)) => {
                        family.check_consistency(scale, data, tx)
                    })*
                    _ => Err(Abort::damaged("the data of another workload")),
                }
            }
        }

        impl AnyThread {
            #[inline]
            pub(crate) fn draw(&mut self) {
                match self { $(Self::$name(worker) => worker.draw(),)* }
            }

            #[inline(always)]
            pub(crate) fn step<R: Runner, W: Witness>(
                &mut self,
                runner: &mut R,
                witness: &mut W,
            ) -> Result<OpKind, Abort> {
                match self { $(Self::$name(worker) => worker.step(runner, witness),)* }
            }

            pub(crate) fn versions(&self) -> Option<&Versions> {
                match self { $(Self::$name(worker) => worker.versions(),)* }
            }

            pub(crate) fn statements(&self) -> Option<Statements> {
                match self { $(Self::$name(worker) => worker.statements(),)* }
            }
        }
    };
}

// Each family, and the type that its folder gives.
families! {
    Ycsb: crate::ycsb::Ycsb,
    Swap: crate::swaps::Swapping<1>,
    Swaps: crate::swaps::Swapping<8>,
    Pairs: crate::pairs::Pairs,
    Queue: crate::queue::Items,
    FewWords: crate::few_words::FewWords,
    Tpcc: crate::tpcc::Tpcc,
    Linkbench: crate::linkbench::Linkbench,
    Tatp: crate::tatp::Tatp,
    Array: crate::array::Array,
    Program: crate::programs::StoresAlone,
    Own: crate::own::Own,
}
