//! The log: self-validating records in a ring of lines per lane.
//!
//! # Records
//!
//! A record is a run of 64-byte lines. Seven words of a line carry content, the eighth is its
//! tag, stored last (`docs/format.md` rules the bytes):
//!
//! | record | payload | written by |
//! |---|---|---|
//! | `Undo` | items: where, old words | `undo`, each batch of announced ranges |
//! | `Redo` | items: where, new words | `redo`, one at the commit |
//! | `RedoPart`, `RedoFinal` | as `Redo`, in several records of one number; the final one starts with how many parts came before | `redo`, when no single region can hold the record |
//! | `Detached` | a region of the heap that holds the next record; reading resumes behind this one | `redo`, when the ring is too small |
//! | `Continued` | a region of the heap in which the lane's records go on | `undo`, when the ring is full |
//! | `Witnesses` | for each line stored to, a word of it and what that holds | `undo`, behind the records of a transaction that ran alone |
//! | `Wrap` | nothing: the next record is at the ring's start | `redo`, `undo-archapt` |
//! | `Before` | items: where, old words; dead behind a complete `Redo` of its lane | `undo-archapt` |
//! | `BeforeElsewhere` | a region of the heap with `Before` records; reading resumes behind this one | `undo-archapt` |
//! | `Journal` | how many `Pages` there are, and where | `rollback`, in the ring's first line |
//! | `Pages` | items: where, old words of whole pages | `rollback`, at the commit |
//! | `Onward` | a region of the heap in which the lane's log goes on | `aof` |
//!
//! Heap regions belong to the log only while a live record names them; the directory never
//! does. A crash therefore cannot leak them, and there is no list to keep. Their tags are made
//! blank, durably, before they are named, so that no user's bytes can pass for a record.
//!
//! # When a record is valid
//!
//! * **LOG-1** A line whose tag carries the record's number is wholly there: stores to one line
//!   persist as a prefix (rule 2), and the tag is the last of them.
//! * **LOG-2** A number is never used twice ([`Seq`](crate::seq::Seq)), so a tag that matches
//!   belongs to this record and no older one.
//! * **LOG-3** Hence a record is complete exactly when its header line and all continuation lines
//!   carry its number. A CRC over it can then only fail through damage, which is reported and
//!   never taken for an unfinished record.
//!   A medium that writes pages may tear a line between its words; LOG-10 says what holds there.
//! * **LOG-4** A record is *live* when its number is at or above the pool's floor and above its
//!   lane's undo floor. Lines of dead records may be overwritten only once the floor that killed
//!   them is durable.
//!
//! Where a scheme streams its records to the ring, each word carries a tag instead
//! ([`streamed`], LOG-5 to LOG-7).
//!
//! # Write order
//!
//! Lines of a record are stored, then flushed as one batch, then fenced; nothing that depends on
//! the record is stored before that fence.
//!
//! # Reading
//!
//! Recovery reads a lane from its durable tail, record after record. First come records that the
//! floor has passed, if the crash fell between the floor and the tail of a sweep; they are read
//! over. Then come live ones. Reading stops at the first line that is neither. Since a lane
//! fences each record before it starts the next, nothing acknowledged lies beyond. A record may
//! end with the ring's last line: the next one then starts the ring without a `Wrap`.
//!
//! * **LOG-8** Behind the end lie records of one number at most, and only such as share the fence of
//!   what lacks: one at the ring's start that needed a `Wrap` there, or one that names a region and is
//!   not known to be whole without the line that lacks. Any other live record there was fenced after
//!   the one that should stand at the end: that line is older than it was, which is damage. The last
//!   record of a lane can be missing unnoticed, unless another lane has built upon it (SUMS-10).
//! * **LOG-9** What a ring holds beside the records between tail and end is older than they are: dead, and in a
//!   ring with streamed lines of an earlier lap. A live record there, or a line of a later lap, was written
//!   under a newer tail: the lane's header is older than it was, which is damage.
//!
//! * **LOG-10** Where the medium [writes pages](outlast_pmem::Medium::is_paged), any words of a line that was not
//!   fenced may be missing. There a record with tags goes to lines that are blank, durably: rings are made
//!   blank before a lane's first record, used lines of a ring before they are used again, regions before
//!   they are named. So a record that fails its CRC and has a blank word is a torn one, which ends the log
//!   as an unfinished one does. One that fails it without is damaged. Rings of redo logs are streamed there.
//!
//! Undo transactions always begin at the start of a part of the ring: of either half, or of the
//! whole where it is too small for two. The part whose first record has the higher number is the
//! last one written. If that record is unfinished nothing depends on it, and the other part tells
//! of the lane's last transaction; else that one is committed, whatever is left of its records.

pub(crate) mod item;
mod place;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod streamed;

pub(crate) use item::{Item, Payload, items, prefix_within};
pub(crate) use place::{Place, place_of_tail, tail_at};
pub(crate) use reader::{Life, LiveRecord, named_region, read_lane, read_undo};
pub(crate) use record::{BLANK, PAYLOAD_WORDS_MAX, Record, RecordKind, Region, append, lines_for};
pub(crate) use streamed::blank;
