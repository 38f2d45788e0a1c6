// bbolt, a transaction each.
package main

import (
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

const several = true

type bolt struct{ db *bbolt.DB }

func open(dir string, _ []string) (store, error) {
	db, err := bbolt.Open(filepath.Join(dir, "t.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	return bolt{db}, err
}

func (b bolt) put(pairs []pair) error {
	return b.db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("t"))
		for _, pair := range pairs {
			if err == nil {
				err = bucket.Put([]byte(pair.key), []byte(pair.value))
			}
		}
		return err
	})
}

func (b bolt) items(each func(key, value string)) error {
	return b.db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		bucket := tx.Bucket([]byte("t"))
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(key, value []byte) error { each(string(key), string(value)); return nil })
	})
}

func (b bolt) close() error { return b.db.Close() }
