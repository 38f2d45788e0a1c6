// goleveldb, each batch synced.
package main

import (
	"path/filepath"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

const several = true

type level struct{ db *leveldb.DB }

func open(dir string, _ []string) (store, error) {
	db, err := leveldb.OpenFile(filepath.Join(dir, "t"), nil)
	return level{db}, err
}

func (l level) put(pairs []pair) error {
	batch := new(leveldb.Batch)
	for _, pair := range pairs {
		batch.Put([]byte(pair.key), []byte(pair.value))
	}
	return l.db.Write(batch, &opt.WriteOptions{Sync: true})
}

func (l level) items(each func(key, value string)) error {
	iter := l.db.NewIterator(nil, nil)
	defer iter.Release()
	for iter.Next() {
		each(string(iter.Key()), string(iter.Value()))
	}
	return iter.Error()
}

func (l level) close() error { return l.db.Close() }
