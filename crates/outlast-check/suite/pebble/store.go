// Pebble, each batch synced.
package main

import (
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
)

const several = true

type rocks struct{ db *pebble.DB }

func open(dir string, _ []string) (store, error) {
	db, err := pebble.Open(filepath.Join(dir, "t"), &pebble.Options{Logger: quiet{}})
	return rocks{db}, err
}

func (r rocks) put(pairs []pair) error {
	batch := r.db.NewBatch()
	for _, pair := range pairs {
		if err := batch.Set([]byte(pair.key), []byte(pair.value), nil); err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

func (r rocks) items(each func(key, value string)) error {
	iter, err := r.db.NewIter(nil)
	if err != nil {
		return err
	}
	for iter.First(); iter.Valid(); iter.Next() {
		each(string(iter.Key()), string(iter.Value()))
	}
	return iter.Close()
}

func (r rocks) close() error { return r.db.Close() }

type quiet struct{}

func (quiet) Infof(string, ...interface{})  {}
func (quiet) Errorf(string, ...interface{}) {}
func (quiet) Fatalf(format string, arguments ...interface{}) {
	panic(format)
}
