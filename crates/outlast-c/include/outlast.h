/*
 * Outlast: durable transactions on persistent memory.
 *
 * A process opens pools; a thread takes lanes of them, and each lane has one transaction at a time:
 *
 *     outlast_begin(lane);
 *     ... outlast_load, outlast_store, outlast_alloc, outlast_free ...
 *     outlast_commit(lane);    no crash can take it back
 *
 * Calls return OUTLAST_OK, which is 0, or what went wrong; outlast_last_error says it in words.
 * Pools and lanes are handles, and a handle that is no longer good is an error, never another's.
 * Persistent addresses are offsets from the start of the pool, never pointers.
 */

#ifndef OUTLAST_H
#define OUTLAST_H

/* Written by cbindgen; crates/outlast-c/tests/header.rs writes it again. */

#include <stddef.h>
#include <stdint.h>

// The result of a call.
typedef enum outlast_code {
  // It is done.
  OUTLAST_OK = 0,
  // Another transaction was in the way. Abort this one and begin again.
  OUTLAST_CONFLICT = 1,
  // The pool has no free block of this size, or never has one so large: the text tells.
  OUTLAST_OUT_OF_SPACE = 2,
  // The transaction is too large for the log.
  OUTLAST_LOG_FULL = 3,
  // An offset that the pool does not have, or where no block starts.
  OUTLAST_BAD_ADDRESS = 4,
  // A null pointer, an unknown name, a size that nothing can have.
  OUTLAST_BAD_ARGUMENT = 5,
  // No such pool is open; or the calling thread has no such lane.
  OUTLAST_BAD_HANDLE = 6,
  // The lane has no transaction to do this in.
  OUTLAST_NO_TRANSACTION = 7,
  // A transaction of the thread has not ended yet.
  OUTLAST_IN_TRANSACTION = 8,
  // All lanes of the pool are taken.
  OUTLAST_NO_LANE = 9,
  // Lanes of the pool are taken, or another process has the file open.
  OUTLAST_BUSY = 10,
  // The file is no pool.
  OUTLAST_NOT_A_POOL = 11,
  // The pool's creation was cut short.
  OUTLAST_UNFINISHED = 12,
  // The pool's content is not what was written there.
  OUTLAST_DAMAGED = 13,
  // The pool has a format that this version does not read.
  OUTLAST_VERSION = 14,
  // There is no such file.
  OUTLAST_NOT_FOUND = 15,
  // There is such a file already.
  OUTLAST_EXISTS = 16,
  // The operating system refused.
  OUTLAST_SYSTEM = 17,
  // The library broke a promise of its own. The thread's transactions were undone and its
  // lanes given back.
  OUTLAST_INTERNAL = 18,
  // The pool was opened by the process that forked this one, which must not use it.
  OUTLAST_FORKED = 19,
} outlast_code;

// How to open or create a pool. Start from `outlast_options options = {0};`: what is zero or null
// takes its default. Texts are read during the call only.
typedef struct outlast_options {
  // How transactions are made durable, by name: outlast_scheme_name lists them. The default is
  // what suits the pool: one that keeps its checksums, if it has any, else the runtime's. Which
  // it is, outlast_pool_info tells.
  const char *scheme;
  // When outlast_commit returns: "logical", the default, when no crash can take the
  // transaction back, or "physical", when its data is durable in place too. Under a literal
  // variant that comes only when others have touched much, and never to one who is alone.
  const char *ack;
  // The memory that a crash spares: "process", "page", "adr" or "eadr". The default is what this machine
  // and the file are found to have.
  const char *domain;
  // Bytes of the cache that write-back by age reckons with; 0 for this machine's last level.
  uint64_t cache_bytes;
  // The pool grows by itself up to this many bytes; 0 for never.
  uint64_t grow_limit_bytes;
  // Bytes of each lane's log in a new pool; 0 for 262144.
  uint64_t lane_bytes;
  // Lanes of a new pool: how many transactions can run at the same time; 0 for 8.
  uint32_t lanes;
  // Not 0: the first lane locks too. Else it runs without locks until another begins a
  // transaction, which then waits for the one under way.
  uint32_t lock_always;
  // Not 0: a new pool keeps checksums over its blocks. A scheme that is named then must keep
  // them: "undo-archapt" or "redo-archapt", the default. Without checksums
  // nothing verifies what is loaded.
  uint32_t checksums;
  // Zero.
  uint32_t reserved[5];
} outlast_options;

// An open pool. `{0}` is none.
typedef struct outlast_pool {
  // The library's own number for it.
  uint64_t id;
} outlast_pool;

// The facts about a pool, and its work since it was opened.
typedef struct outlast_info {
  // Its size in bytes, as far as it has grown.
  uint64_t size_bytes;
  // Its scheme's name. The text lives as long as the program.
  const char *scheme;
  // Bytes of each lane's log.
  uint64_t lane_bytes;
  // Transactions that changed something and were committed since the pool was opened.
  uint64_t commits;
  // How many lanes it has.
  uint32_t lanes;
  // 1 when it keeps checksums, else 0.
  uint32_t checksums;
} outlast_info;

// How full a pool is, and its work since it was opened.
typedef struct outlast_stats {
  // The name of the domain that it was opened in: the failures that it survives. The text lives as long as the
  // program.
  const char *domain;
  // What that promises, in one sentence. The text lives as long as the program.
  const char *promise;
  // Bytes of the pool.
  uint64_t pool_bytes;
  // Bytes of its heap.
  uint64_t heap_bytes;
  // Bytes of allocated blocks.
  uint64_t used_bytes;
  // The other bytes of the heap.
  uint64_t free_bytes;
  // Bytes of the longest free run.
  uint64_t largest_free_bytes;
  // Bytes of the logs of all lanes.
  uint64_t log_bytes;
  // Those with live records.
  uint64_t log_used_bytes;
  // Bytes of the log of fences; 0 without one.
  uint64_t fence_log_bytes;
  // Those that a loss of power would need.
  uint64_t fence_log_used_bytes;
  // How many lanes it has.
  uint64_t lanes;
  // How many of them threads have.
  uint64_t lanes_taken;
  // Transactions that stored something and were committed.
  uint64_t commits;
  // Records of commits; those of commits that were put off share one.
  uint64_t records;
  // Commits that returned before they were durable.
  uint64_t put_off;
  // Times that another transaction was in the way.
  uint64_t conflicts;
  // Times that all waited for one transaction, after many conflicts in a row.
  uint64_t conflict_storms;
  // Transactions that ended without a commit, by their causes: outlast_abort_cause_name tells them.
  uint64_t aborts[8];
  // Lines whose write-back was asked for.
  uint64_t flushed_lines;
  // Lines stored past the caches.
  uint64_t streamed_lines;
  // Fences.
  uint64_t fences;
  // System calls that made pages of the file durable.
  uint64_t syncs;
  // Sweeps, which free lines of the logs.
  uint64_t sweeps;
  // Their time, in nanoseconds.
  uint64_t sweep_ns;
  // The longest.
  uint64_t sweep_ns_max;
  // Times that the pool has grown.
  uint64_t growths;
  // Bytes that it has grown by.
  uint64_t grown_bytes;
  // Records that recovery put back at the opening.
  uint64_t recovery_undone;
  // Commits that it replayed.
  uint64_t recovery_replayed;
  // How long it took, in nanoseconds.
  uint64_t recovery_ns;
  // 1 after a write to the file has failed: the pool takes no transactions any more.
  uint64_t has_failed;
  // Zero.
  uint64_t reserved[8];
} outlast_stats;

// A lane of a pool, which belongs to the thread that took it: it has one transaction at a time.
// `{0}` is none.
typedef struct outlast_lane {
  // The library's own number for it.
  uint64_t id;
} outlast_lane;

// Names an asynchronous commit, to wait for it.
typedef struct outlast_ticket {
  // 0 for a transaction that was durable when it returned.
  uint64_t id;
} outlast_ticket;

// What a transaction does, for outlast_run: 0 to commit, a code to undo and end with.
typedef int (*outlast_body)(struct outlast_lane lane, void *context);

// Bytes of a pool.
typedef struct outlast_range {
  // The first, as an offset from the start of the pool.
  uint64_t at;
  // How many.
  uint64_t size;
} outlast_range;

// A pool that is open for reading. `{0}` is none.
typedef struct outlast_reader {
  // The library's own number for it.
  uint64_t id;
} outlast_reader;

// A pool as it was at one moment. It lives as long as the call that it was given to.
typedef struct outlast_snapshot {
  // Nothing that C may touch.
  uint8_t opaque;
} outlast_snapshot;

// Reads a snapshot, for outlast_read: 0 when it is done, or a code to end with.
typedef int (*outlast_read_body)(struct outlast_snapshot *snapshot, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The meaning of a code, in one line; of a number that is no code, that it is none. The text lives
// as long as the program.
const char *outlast_error_text(int code);

// The error of the calling thread's last call that failed: one line that names the thing.
// Empty before the first. The text is good until the thread's next call that fails.
const char *outlast_last_error(void);

// The code of that call.
enum outlast_code outlast_last_code(void);

// The version of the library. The text lives as long as the program.
const char *outlast_version(void);

// How many schemes there are.
size_t outlast_scheme_count(void);

// The name of a scheme, counted from 0; null behind the last. The text lives as long as the
// program.
const char *outlast_scheme_name(size_t number);

// A scheme's mechanism, in one line; null behind the last. The text lives as long as the program.
const char *outlast_scheme_about(size_t number);

// Creates a pool of `size_bytes` bytes, rounded up to whole pages, in a new file, and opens it.
// The file is really allocated; an existing one is never overwritten.
//
// The caller sees to it:
// - `path` is null or a text that ends with a zero.
// - `options` is null, for defaults, or points to options whose texts are null or end with a zero.
// - `pool` is null or a handle can be stored there.
enum outlast_code outlast_create(const char *path,
                                 uint64_t size_bytes,
                                 const struct outlast_options *options,
                                 struct outlast_pool *pool);

// Opens a pool through recovery, whatever scheme it had. Size, lanes and checksums are its own.
//
// The caller sees to it:
// - As of outlast_create.
enum outlast_code outlast_open(const char *path,
                               const struct outlast_options *options,
                               struct outlast_pool *pool);

// Closes a pool in peace: every commit is durable in place, and its log is empty. All its lanes
// must be given back, else it is OUTLAST_BUSY. A process that ends without it loses nothing.
enum outlast_code outlast_close(struct outlast_pool pool);

// The facts about a pool.
//
// The caller sees to it:
// - `info` is null or can be stored to.
enum outlast_code outlast_pool_info(struct outlast_pool pool, struct outlast_info *info);

// How full a pool is, and its work since it was opened. Takes a look at each chunk of the heap.
//
// The caller sees to it:
// - `stats` is null or can be stored to.
enum outlast_code outlast_pool_stats(struct outlast_pool pool, struct outlast_stats *stats);

// The cause of the aborts that are counted at that place, from 0; null behind the last. The text lives as long as the
// program.
const char *outlast_abort_cause_name(size_t number);

// Recovers the pool of that path and checks all of its metadata, its checksums where it keeps any, and
// under a root that is described (outlast_set_described_root) that every block has one owner. Stores how many findings there were; with any it is OUTLAST_DAMAGED, and
// outlast_last_error tells the first. No other process may have the pool open.
//
// The caller sees to it:
// - `path` is null or a text that ends with a zero.
// - `options` is null, for defaults, or points to options whose texts are null or end with a zero.
// - `findings` is null or a number can be stored there.
enum outlast_code outlast_check(const char *path,
                                const struct outlast_options *options,
                                uint64_t *findings);

// Takes a lane of the pool for the calling thread. A thread that ends gives its lanes back, and
// undoes what they have open.
//
// The caller sees to it:
// - `lane` is null or a handle can be stored there.
enum outlast_code outlast_take_lane(struct outlast_pool pool, struct outlast_lane *lane);

// Gives a lane back that has no transaction.
enum outlast_code outlast_give_back(struct outlast_lane lane);

// Begins a transaction. A thread has one at a time in each pool. After a conflict a lane is given
// more and more room, and its turn alone in the end: who begins again gets there.
enum outlast_code outlast_begin(struct outlast_lane lane);

// Commits the transaction: when it returns OUTLAST_OK no crash can take it back. After an error,
// OUTLAST_CONFLICT above all, everything is undone and the lane has no transaction. The first
// call that failed in the transaction decides the error.
enum outlast_code outlast_commit(struct outlast_lane lane);

// Commits the transaction and returns before it is durable. The lane's later transactions see it,
// those of others wait until it is durable, and a crash before takes it back whole. It becomes
// durable with outlast_sync, outlast_await_durable, the lane's next outlast_commit, or when the
// lane is given back. Errors are those of outlast_commit.
//
// The caller sees to it:
// - `ticket` is null, or a ticket can be stored there.
enum outlast_code outlast_commit_async(struct outlast_lane lane, struct outlast_ticket *ticket);

// Makes every asynchronous commit of the pool durable that has returned. The calling thread has no
// transaction of the pool.
enum outlast_code outlast_sync(struct outlast_pool pool);

// Returns when the commit with that ticket is durable. The calling thread has no transaction of the
// pool.
enum outlast_code outlast_await_durable(struct outlast_pool pool, struct outlast_ticket ticket);

// Whether the commit with that ticket is durable: 1 or 0.
//
// The caller sees to it:
// - `is_durable` is null or a number can be stored there.
enum outlast_code outlast_is_durable(struct outlast_pool pool,
                                     struct outlast_ticket ticket,
                                     int *is_durable);

// Undoes the transaction and ends it.
enum outlast_code outlast_abort(struct outlast_lane lane);

// Runs `body` as one transaction, again after each conflict, and commits it when it returns 0.
// What else it returns undoes it and is returned; a number that is no code is returned as
// OUTLAST_BAD_ARGUMENT. A body that ended the transaction itself gets OUTLAST_NO_TRANSACTION.
//
// The caller sees to it:
// - `body` is null or a function that can be called with this lane and `context`, any number of
//   times, and that neither jumps nor throws out of itself.
enum outlast_code outlast_run(struct outlast_lane lane, outlast_body body, void *context);

// Takes a block of at least `size` bytes and stores its offset. It begins a line when it has 64
// bytes or more. Its content is undefined. If the transaction does not commit it was never taken.
//
// The caller sees to it:
// - `at` is null or an offset can be stored there.
enum outlast_code outlast_alloc(struct outlast_lane lane, uint64_t size, uint64_t *at);

// Gives a block back when the transaction commits.
enum outlast_code outlast_free(struct outlast_lane lane, uint64_t at);

// Copies `size` bytes from offset `at` on to `out`. The transaction's own stores are seen.
//
// The caller sees to it:
// - `out` is null, or `size` bytes can be stored there that no other thread uses meanwhile.
enum outlast_code outlast_load(struct outlast_lane lane, uint64_t at, void *out, size_t size);

// Stores `size` bytes from `bytes` at offset `at`. What was not announced is logged now.
//
// The caller sees to it:
// - `bytes` is null, or `size` bytes with values are there that no thread changes meanwhile.
enum outlast_code outlast_store(struct outlast_lane lane,
                                uint64_t at,
                                const void *bytes,
                                size_t size);

// Announces that the transaction will store somewhere in these ranges, so that they are logged
// together, with one fence. Announcing what is never stored is allowed and costs its logging.
//
// The caller sees to it:
// - `ranges` is null, or `count` ranges are there that no thread changes meanwhile.
enum outlast_code outlast_announce(struct outlast_lane lane,
                                   const struct outlast_range *ranges,
                                   size_t count);

// Stores the offset of the pool's root block: where everything is found from. 0 if none is set.
//
// The caller sees to it:
// - `at` is null or an offset can be stored there.
enum outlast_code outlast_root(struct outlast_lane lane, uint64_t *at);

// Makes a block the root. Takes effect with the transaction.
enum outlast_code outlast_set_root(struct outlast_lane lane, uint64_t at);

// Stores the offset of the value of a root that outlast_set_described_root, or a program in Rust, has
// made with that schema; 0 if the pool has no root. With a root of another schema, or without one, it is
// OUTLAST_BAD_ARGUMENT, and outlast_last_error tells both.
//
// The caller sees to it:
// - `schema` is null or a text that ends with a zero, which no thread changes meanwhile.
// - `at` is null or an offset can be stored there.
enum outlast_code outlast_described_root(struct outlast_lane lane,
                                         const char *schema,
                                         uint64_t *at);

// Makes a new root of `size` bytes, of the type that the schema begins with, and stores the offset of its value,
// which the caller stores in the same transaction. The pool keeps the schema: by it `outlast pool check` and
// outlast_check follow the root to all blocks, and find those that leak or have two owners. For instance
//
//   ledger v1; ledger v1 { 0 entries: u64, 8 first: optional box of entry v1,
//   16 last: optional pointer to entry v1 }; entry v1 { 0 next: optional box of entry v1, 8 number: u64 }
//
// in one line: a box owns a block of its own, a pointer does not; both are offsets, and 0 is none. An old root of
// another schema is replaced, and its own block freed.
//
// The caller sees to it:
// - As of outlast_described_root.
enum outlast_code outlast_set_described_root(struct outlast_lane lane,
                                             const char *schema,
                                             uint64_t size,
                                             uint64_t *at);

// Opens a pool for reading, also beside a process that has it open for writing, and stores the reader's handle. Of the
// options only the domain counts.
//
// The caller sees to it:
// - As of outlast_open.
enum outlast_code outlast_open_reader(const char *path,
                                      const struct outlast_options *options,
                                      struct outlast_reader *reader);

// Calls `body` with a snapshot of this moment: all that was acknowledged before, and of every transaction all or
// nothing. It calls it again, with another snapshot, when the pool's writer has overtaken it. A code that `body`
// returns is the result.
//
// The caller sees to it:
// - `body` is null or can be called with a snapshot and `context`.
enum outlast_code outlast_read(struct outlast_reader reader,
                               outlast_read_body body,
                               void *context);

// Copies `size` bytes of the snapshot from offset `at` on to `out`.
//
// The caller sees to it:
// - `snapshot` is null, or what a body was given that runs.
// - `out` is null, or `size` bytes can be stored there that no other thread uses meanwhile.
enum outlast_code outlast_snapshot_load(struct outlast_snapshot *snapshot,
                                        uint64_t at,
                                        void *out,
                                        size_t size);

// Stores the offset of the snapshot's root block; 0 if none is set.
//
// The caller sees to it:
// - `snapshot` is null, or what a body was given that runs.
// - `at` is null or an offset can be stored there.
enum outlast_code outlast_snapshot_root(struct outlast_snapshot *snapshot, uint64_t *at);

// Closes a reader.
enum outlast_code outlast_close_reader(struct outlast_reader reader);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OUTLAST_H */
