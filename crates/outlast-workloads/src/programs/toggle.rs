//! Search a key; add it if it is absent, remove it if it is there.

use outlast::collections::{ByteMap, ByteMapOptions, ByteTree, Dictionary, Placement, RbTree};
use outlast::{Abort, RootKind, Runner, Transact};

use super::fill;
use crate::clrs::ClrsTree;
use crate::pairs::initial_keys;
use crate::store::Store;
use crate::{Random, Structure};

#[derive(Clone, Debug)]
pub(super) struct Toggle {
    store: Store,
    keys: u64,
    value: Vec<u8>,
    pub(super) random: Random,
    steps: u64,
}

impl Toggle {
    pub(super) fn load<R: Runner>(
        structure: Structure,
        keys: u64,
        value_bytes: u64,
        random: Random,
        seed: u64,
        runner: &mut R,
    ) -> Result<Self, Abort> {
        let store = runner.run(|tx| {
            let (store, root, kind) = match structure {
                Structure::HashMap => {
                    let options =
                        ByteMapOptions { expected_keys: keys / 2, ..ByteMapOptions::default() };
                    let map = ByteMap::create(tx, &options)?;
                    (Store::Map(map), map.root(), RootKind::HashMap)
                }
                Structure::BTree => {
                    let tree = ByteTree::create(tx, Placement::Together)?;
                    (Store::Tree(tree), tree.root(), RootKind::BTree)
                }
                Structure::RbTree => {
                    let tree = RbTree::create(tx, value_bytes)?;
                    (Store::Red(tree), tree.root(), RootKind::RbTree)
                }
                Structure::ClrsTree => {
                    let tree = ClrsTree::create(tx, value_bytes)?;
                    (Store::Clrs(tree), tree.root(), RootKind::Opaque)
                }
            };
            tx.set_root(root, kind)?;
            Ok(store)
        })?;
        let mut value = vec![0; value_bytes as usize];
        for key in initial_keys(keys, seed) {
            fill(&mut value, key);
            runner.run(|tx| store.add(tx, &key.to_be_bytes(), &value))?;
        }
        Ok(Self { store, keys, value, random, steps: 0 })
    }

    pub(super) fn step<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        let key = self.random.below(self.keys);
        self.steps += 1;
        fill(&mut self.value, key.wrapping_add(self.steps << 32));
        let (store, value) = (self.store, &self.value);
        runner.run(|tx| {
            let key = key.to_be_bytes();
            if !store.add(tx, &key, value)? {
                store.remove(tx, &key)?;
            }
            Ok(())
        })
    }
}
