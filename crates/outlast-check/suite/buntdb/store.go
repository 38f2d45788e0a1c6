// BuntDB with SyncPolicy Always, a transaction each.
package main

import (
	"path/filepath"

	"github.com/tidwall/buntdb"
)

const several = true

type bunt struct{ db *buntdb.DB }

func open(dir string, _ []string) (store, error) {
	db, err := buntdb.Open(filepath.Join(dir, "t.db"))
	if err == nil {
		err = db.SetConfig(buntdb.Config{SyncPolicy: buntdb.Always, AutoShrinkDisabled: true})
	}
	return bunt{db}, err
}

func (b bunt) put(pairs []pair) error {
	return b.db.Update(func(tx *buntdb.Tx) error {
		for _, pair := range pairs {
			if _, _, err := tx.Set(pair.key, pair.value, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b bunt) items(each func(key, value string)) error {
	return b.db.View(func(tx *buntdb.Tx) error {
		return tx.Ascend("", func(key, value string) bool { each(key, value); return true })
	})
}

func (b bunt) close() error { return b.db.Close() }
