/*
 * Archapt's Table II, with what it lacks: durable transactions on persistent memory.
 *
 * A process has one pool open, and each of its threads one transaction at a time:
 *
 *     Archapt_Tx_Start();
 *     ... Archapt_Load, Archapt_Store, Archapt_Malloc, Archapt_Free ...
 *     Archapt_Tx_LCommit();    it survives every crash from here on
 *     Archapt_Tx_End();        and its client is answered
 *
 * Calls return ARCHAPT_OK, which is 0, or what went wrong; Archapt_Last_Error says it in words.
 * Persistent addresses are offsets from the start of the pool, never pointers.
 */

#ifndef ARCHAPT_H
#define ARCHAPT_H

/* Written by cbindgen; crates/outlast-c/tests/header.rs writes it again. */

#include <stddef.h>
#include <stdint.h>

// The result of a call.
typedef enum ArchaptCode {
  // It is done.
  ARCHAPT_OK = 0,
  // Another transaction was in the way. Abort this one and start again.
  ARCHAPT_CONFLICT = 1,
  // The pool has no free block of this size, or never has one so large: the text tells.
  ARCHAPT_OUT_OF_SPACE = 2,
  // The transaction is too large for the log.
  ARCHAPT_LOG_FULL = 3,
  // An offset that the pool does not have, or where no block starts.
  ARCHAPT_BAD_ADDRESS = 4,
  // A null pointer, an unknown name or type, a size that nothing can have.
  ARCHAPT_BAD_ARGUMENT = 5,
  // The process has no pool open.
  ARCHAPT_NOT_OPEN = 6,
  // The process has a pool open already.
  ARCHAPT_ALREADY_OPEN = 7,
  // The thread has no transaction to do this in.
  ARCHAPT_NO_TRANSACTION = 8,
  // The thread's transaction has not ended yet.
  ARCHAPT_IN_TRANSACTION = 9,
  // The transaction ended without a commit: it was undone.
  ARCHAPT_NOT_COMMITTED = 10,
  // More threads than the pool has lanes.
  ARCHAPT_NO_LANE = 11,
  // Other threads have sessions, or another process has the file open.
  ARCHAPT_BUSY = 12,
  // The file is no pool.
  ARCHAPT_NOT_A_POOL = 13,
  // The pool's creation was cut short.
  ARCHAPT_UNFINISHED = 14,
  // The pool's content is not what was written there.
  ARCHAPT_DAMAGED = 15,
  // The pool has a format that this version does not read.
  ARCHAPT_VERSION = 16,
  // There is no such file.
  ARCHAPT_NOT_FOUND = 17,
  // There is such a file already.
  ARCHAPT_EXISTS = 18,
  // The size given is not that of the block.
  ARCHAPT_WRONG_SIZE = 19,
  // The block belongs to another type's pool.
  ARCHAPT_WRONG_TYPE = 20,
  // No commit of this pool has that ticket.
  ARCHAPT_UNKNOWN_TICKET = 21,
  // The operating system refused.
  ARCHAPT_SYSTEM = 22,
  // The library broke a promise of its own. The thread's transaction was undone.
  ARCHAPT_INTERNAL = 23,
  // The pool was opened by the process that forked this one, which must not use it.
  ARCHAPT_FORKED = 24,
} ArchaptCode;

// The pools of Table II: blocks of one type lie together.
typedef enum ArchaptType {
  // Everything else.
  ARCHAPT_GENERAL = 0,
  // Keys.
  ARCHAPT_KEY = 1,
  // Fields and values.
  ARCHAPT_VALUE = 2,
  // Logs of the program's own.
  ARCHAPT_LOG = 3,
} ArchaptType;

// How to open or create a pool. Start from `ArchaptOptions options = {0};`: what is zero or null
// takes its default. Texts are read during the call only.
typedef struct ArchaptOptions {
  // The pool's file. Not null.
  const char *path;
  // Bytes of a new pool; needed where one is created.
  uint64_t size_bytes;
  // How transactions are made durable: "undo", "redo", "undo-archapt" or "redo-archapt", which
  // is the default; or "none", which loses everything in a crash.
  const char *scheme;
  // When Archapt_Tx_End answers: "logical", the default, or "physical".
  const char *ack;
  // The memory that a crash spares: "process", "page", "adr" or "eadr". The default is what this machine
  // and the file are found to have.
  const char *domain;
  // Bytes of the cache that the LRU queue reckons with; 0 for this machine's last level.
  uint64_t cache_bytes;
  // The pool grows by itself up to this many bytes; 0 for never.
  uint64_t grow_limit_bytes;
  // Threads that can have transactions in a new pool at the same time; 0 for 8.
  uint32_t lanes;
  // Not 0: the first thread locks too. Else it runs without locks until another thread starts
  // a transaction, which then waits for the one under way.
  uint32_t lock_always;
  // Zero.
  uint64_t reserved[4];
} ArchaptOptions;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The meaning of a code, in one line. Never null; the text lives as long as the process.
const char *Archapt_Error_Text(int code);

// The error of the calling thread's last call that failed: one line that names the thing.
// Empty before the first. The text is good until the thread's next call that fails.
const char *Archapt_Last_Error(void);

// The code of that call.
enum ArchaptCode Archapt_Last_Code(void);

// The version of the library.
const char *Archapt_Version(void);

// Table II. Opens the pool of that path through recovery, or creates it where there is no such
// file and a size is given. A process has one pool at a time.
//
// The caller sees to it:
// - `options` is null or points to options whose texts are null or end with a zero.
enum ArchaptCode Archapt_Init(const struct ArchaptOptions *options);

// Creates a pool in a new file. An existing file is never overwritten.
//
// The caller sees to it:
// - As of Archapt_Init.
enum ArchaptCode Archapt_Create(const struct ArchaptOptions *options);

// Opens a pool through recovery. Size and lanes are the pool's own.
//
// The caller sees to it:
// - As of Archapt_Init.
enum ArchaptCode Archapt_Open(const struct ArchaptOptions *options);

// Closes the process's pool in peace: every commit is physical. The calling thread must have no
// transaction, and other threads no session: they have ended or called Archapt_Leave. A process
// that ends without it loses nothing.
enum ArchaptCode Archapt_Close(void);

// Gives the calling thread's session with the pool back, so that another thread can have its lane. A
// thread that ends does so by itself, and one that starts a transaction takes a session again.
enum ArchaptCode Archapt_Leave(void);

// Table II. Starts the calling thread's transaction. After a conflict a thread is given more and
// more room, and its turn alone in the end: who starts again gets there.
enum ArchaptCode Archapt_Tx_Start(void);

// Table II. Commits the transaction logically: from here on it survives every crash, and others
// see what it did. After an error, ARCHAPT_CONFLICT above all, everything is undone and the
// thread has no transaction. The first call that failed in the transaction decides the error.
enum ArchaptCode Archapt_Tx_LCommit(void);

// Table II. Ends a committed transaction: its client is answered. With physical acknowledgement
// it returns when the commit is physical. A transaction that is not committed is undone, with
// ARCHAPT_NOT_COMMITTED.
enum ArchaptCode Archapt_Tx_End(void);

// Undoes the transaction and ends it.
enum ArchaptCode Archapt_Tx_Abort(void);

// The ticket of the calling thread's last commit. The thread's later commits and those that have
// seen what it stored, or store over it, have greater ones, in later openings of the pool too; 0 is
// that of a transaction which changed nothing.
uint64_t Archapt_Ticket(void);

// Waits until the commit with that ticket is physical: all its data is durable in place and its
// log is dropped. The thread does the work itself; what another thread has under way may have to
// end first. The calling thread has no transaction under way.
enum ArchaptCode Archapt_Wait(uint64_t ticket);

// Whether the commit with that ticket is physical: stores 1 or 0.
//
// The caller sees to it:
// - `physical` is null or an int can be stored there.
enum ArchaptCode Archapt_Is_Physical(uint64_t ticket, int *physical);

// Table II. Takes a block of at least `size` bytes from the pool of that type, and returns its
// offset, or 0 after an error, whose code Archapt_Last_Code has. The block's content is
// undefined. If the transaction does not commit it was never taken.
uint64_t Archapt_Malloc(int type, size_t size);

// Table II. Gives a block back when the transaction commits. Type and size are those that it was
// taken with, or a size that would have brought a block as large; others are errors, and then
// the block is not given back.
enum ArchaptCode Archapt_Free(int type, uint64_t at, size_t size);

// Copies `size` bytes from offset `at` on to `out`. The transaction's own stores are seen.
//
// The caller sees to it:
// - `out` is null, or `size` bytes can be stored there that no other thread uses meanwhile.
enum ArchaptCode Archapt_Load(uint64_t at, void *out, size_t size);

// Stores `size` bytes from `bytes` at offset `at`. What was not announced is logged now.
//
// The caller sees to it:
// - `bytes` is null, or `size` bytes with values are there that no thread changes meanwhile.
enum ArchaptCode Archapt_Store(uint64_t at, const void *bytes, size_t size);

// Announces that the transaction will store somewhere in these bytes, so that several ranges are
// logged together. Announcing what is never stored is allowed.
enum ArchaptCode Archapt_Will_Write(uint64_t at, size_t size);

// Stores the offset of the pool's root block: where everything is found from. 0 if none is set.
//
// The caller sees to it:
// - `at` is null or an offset can be stored there.
enum ArchaptCode Archapt_Root(uint64_t *at);

// Makes a block the root. Takes effect with the transaction.
enum ArchaptCode Archapt_Set_Root(uint64_t at);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ARCHAPT_H */
