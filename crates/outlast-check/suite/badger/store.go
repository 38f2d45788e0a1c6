// Badger with SyncWrites, a transaction each.
package main

import (
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

const several = true

type badge struct{ db *badger.DB }

func open(dir string, _ []string) (store, error) {
	options := badger.DefaultOptions(filepath.Join(dir, "t")).WithSyncWrites(true).WithLogger(nil)
	db, err := badger.Open(options.WithMemTableSize(1 << 20).WithValueLogFileSize(1 << 20).WithValueThreshold(1 << 10))
	return badge{db}, err
}

func (b badge) put(pairs []pair) error {
	return b.db.Update(func(tx *badger.Txn) error {
		for _, pair := range pairs {
			if err := tx.Set([]byte(pair.key), []byte(pair.value)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b badge) items(each func(key, value string)) error {
	return b.db.View(func(tx *badger.Txn) error {
		iter := tx.NewIterator(badger.DefaultIteratorOptions)
		defer iter.Close()
		for iter.Rewind(); iter.Valid(); iter.Next() {
			value, err := iter.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			each(string(iter.Item().Key()), string(value))
		}
		return nil
	})
}

func (b badge) close() error { return b.db.Close() }
