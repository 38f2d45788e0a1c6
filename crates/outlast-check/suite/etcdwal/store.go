// The write-ahead log of etcd's server, an entry for each transaction.
package main

import (
	"encoding/json"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

const several = true

type log struct {
	wal     *wal.WAL
	entries []raftpb.Entry
}

func open(dir string, _ []string) (store, error) {
	place := filepath.Join(dir, "wal")
	wal.SegmentSizeBytes = 64 << 10
	if !wal.Exist(place) {
		w, err := wal.Create(zap.NewNop(), place, nil)
		return &log{w, nil}, err
	}
	w, err := wal.Open(zap.NewNop(), place, walpb.Snapshot{})
	if err != nil {
		return nil, err
	}
	_, _, entries, err := w.ReadAll()
	return &log{w, entries}, err
}

func (l *log) put(pairs []pair) error {
	keys := map[string]string{}
	for _, pair := range pairs {
		keys[pair.key] = pair.value
	}
	data, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	index := uint64(len(l.entries) + 1)
	l.entries = append(l.entries, raftpb.Entry{Term: 1, Index: index, Data: data})
	return l.wal.Save(raftpb.HardState{Term: 1, Commit: index}, l.entries[index-1:])
}

func (l *log) items(each func(key, value string)) error {
	keys := map[string]string{}
	for _, entry := range l.entries {
		if err := json.Unmarshal(entry.Data, &keys); err != nil {
			return err
		}
	}
	for key, value := range keys {
		each(key, value)
	}
	return nil
}

func (l *log) close() error { return l.wal.Close() }
