/* An append-only log with faults to find, each by its number, and a sound twin of each.
 *
 *   log run BUG DIR | log run -BUG DIR            appends records 1 to 10; 'I n' and 'A n' on standard output
 *   log recover BUG DIR | log recover -BUG DIR    opens the log, cuts a torn tail, prints 'recovered n'
 *
 * Segments seg-N hold records (length, sum, number, payload); a new one begins every three records. MANIFEST, replaced by rename,
 * names the first segment and the base file that stands for all records before it. Compaction writes the base and unlinks segments.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    NONE, FILE_UNSYNCED, MARKER_UNSYNCED, RENAME_UNSYNCED, EARLY_ACK, ONE_SYNC, RENAME_FIRST, ZEROS_REFUSED, NO_SUM, EARLY_UNLINK,
    UNSYNCED_REPAIR, HALF_CREATED, ERROR_IGNORED, OTHER_FILE, WRITE_OUT, ASYNC_MAP
};
enum { RECORDS = 10, OF_SEGMENT = 3, MOST = 5000, MAPPED = 32768, FIRST = 4096 };
struct record { uint32_t length, sum; uint64_t number; };
struct base { uint64_t number, sum; };
static int bug, sound, dir, log_fd = -1, old_fd = -1;
static char *map;
static uint64_t first = 1, base, segment, end;
static int is(int shape) { return bug == shape; }
static int planted(int shape) { return bug == shape && !sound; }
static void die(const char *text) { puts(text); exit(1); }
static void need(int right, const char *call) { if (!right) { perror(call); exit(2); } }
static void sync_fd(int fd) { need(fsync(fd) == 0 || planted(ERROR_IGNORED), "fsync"); }
static int opened(const char *path, int flags) {
    int fd = openat(dir, path, flags, 0644);
    need(fd >= 0, path);
    return fd;
}
static const char *name(const char *kind, uint64_t number) {
    static char text[40];
    snprintf(text, sizeof text, "%s-%llu", kind, (unsigned long long)number);
    return text;
}
static void write_all(int fd, const void *from, size_t length, off_t at) {
    for (const char *next = from; length > 0;) {
        ssize_t done = pwrite(fd, next, length, at);
        if (done < 0 && errno == EINTR) continue;
        need(done > 0, "pwrite"), next += done, at += done, length -= done;
    }
}
static uint32_t sum_of(const void *bytes, size_t length, uint64_t number) {
    uint64_t sum = 14695981039346656037u ^ number;
    for (size_t i = 0; i < length; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return sum ^ sum >> 32;
}
static size_t payload(char *to, uint64_t number) {
    size_t length = 40 + number % 3 * (is(UNSYNCED_REPAIR) || is(ASYNC_MAP) ? 300 : 2200); /* within a page, or over two */
    memset(to, 'a' + number % 26, length);
    return length;
}
/* Names the first segment and the base. */
static void manifest(void) {
    struct { uint64_t first, base, sum; } text = {first, base, sum_of(&first, 8, base)};
    int fd = opened("MANIFEST.new", O_CREAT | O_TRUNC | O_WRONLY);
    write_all(fd, &text, sizeof text, 0);
    if (!planted(RENAME_FIRST)) sync_fd(fd);
    need(renameat(dir, "MANIFEST.new", dir, "MANIFEST") == 0, "rename");
    if (planted(RENAME_FIRST)) sync_fd(fd);
    close(fd);
    if (!planted(RENAME_UNSYNCED)) sync_fd(dir);
}
/* Begins a segment. */
static void begin_segment(uint64_t number) {
    if (old_fd >= 0) close(old_fd);
    old_fd = log_fd, segment = number, end = is(ONE_SYNC) ? FIRST : 0;
    log_fd = opened(name("seg", number), O_CREAT | O_RDWR);
    if (is(ASYNC_MAP)) {
        need(ftruncate(log_fd, MAPPED) == 0, "ftruncate");
        map = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, log_fd, 0);
        need(map != MAP_FAILED, "mmap");
    }
    if (planted(HALF_CREATED) && number == 1) return;
    sync_fd(log_fd);
    sync_fd(dir);
}
/* The end of a transaction: all of it is durable in a sound log. */
static void finish(void) {
    if (planted(FILE_UNSYNCED)) return;
    if (planted(WRITE_OUT))
        need(sync_file_range(log_fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0, "range");
    else if (is(ASYNC_MAP)) need(msync(map, MAPPED, sound ? MS_SYNC : MS_ASYNC) == 0, "msync");
    else sync_fd(planted(OTHER_FILE) && old_fd >= 0 ? old_fd : log_fd);
}
static void append(uint64_t number) {
    static char bytes[sizeof(struct record) + MOST];
    struct record *head = (void *)bytes;
    size_t length = payload(bytes + sizeof *head, number);
    *head = (struct record){length, sum_of(bytes + sizeof *head, length, number), number};
    length += sizeof *head;
    if (is(MARKER_UNSYNCED) && number % 2 == 0) { /* every second record is a name alone */
        close(opened(name("mark", number), O_CREAT | O_WRONLY));
        if (sound) sync_fd(dir);
        return;
    }
    if (is(ASYNC_MAP)) memcpy(map + end, bytes, length);
    else write_all(log_fd, bytes, length, end);
    end += length;
    if (is(ONE_SYNC)) { /* the length of the valid part stands in the first page */
        if (sound) sync_fd(log_fd);
        write_all(log_fd, &end, sizeof end, 0);
    }
}
/* All segments before `segment` become a base file. */
static void compact(uint64_t last) {
    struct base content = {last, sum_of(&last, 8, 1)};
    int fd = opened(name("base", segment), O_CREAT | O_TRUNC | O_WRONLY);
    write_all(fd, &content, sizeof content, 0);
    if (!planted(EARLY_UNLINK)) sync_fd(fd);
    uint64_t old = first;
    first = base = segment;
    manifest();
    for (; old < segment; old++) need(unlinkat(dir, name("seg", old), 0) == 0, "unlink");
    if (planted(EARLY_UNLINK)) sync_fd(fd);
    close(fd);
    sync_fd(dir);
}
static void run(void) {
    begin_segment(1);
    manifest();
    for (uint64_t number = 1; number <= RECORDS; number++) {
        printf("I %d\n", (int)number), fflush(stdout);
        if (number > 1 && number % OF_SEGMENT == 1) {
            begin_segment(segment + 1);
            if (segment == 3) compact(number - 1);
        }
        append(number);
        if (!planted(EARLY_ACK)) finish();
        printf("A %d\n", (int)number), fflush(stdout);
        if (planted(EARLY_ACK)) finish();
    }
}
/* Cuts what is behind the last whole record off. */
static void repair(int fd, off_t valid, const char *bytes) {
    if (!is(UNSYNCED_REPAIR)) {
        need(ftruncate(fd, valid) == 0, "ftruncate");
        return sync_fd(fd);
    }
    int copy = opened("seg.new", O_CREAT | O_TRUNC | O_WRONLY);
    write_all(copy, bytes, valid, 0);
    if (sound) sync_fd(copy);
    need(renameat(dir, "seg.new", dir, name("seg", segment)) == 0, "rename");
    sync_fd(dir);
}
static void recover(void) {
    static char bytes[1 << 16], right[MOST];
    struct { uint64_t first, base, sum; } text;
    uint64_t found = 0;
    int fd = openat(dir, "MANIFEST", O_RDONLY);
    if (fd < 0) { puts("recovered 0"); return; }
    if (read(fd, &text, sizeof text) != sizeof text || text.sum != sum_of(&text.first, 8, text.base)) die("MANIFEST is damaged");
    if (text.base) {
        struct base content;
        fd = openat(dir, name("base", text.base), O_RDONLY);
        if (fd < 0 || read(fd, &content, sizeof content) != sizeof content || content.sum != sum_of(&content.number, 8, 1)) die("base is damaged");
        found = content.number;
    }
    for (segment = text.first;; segment++) {
        fd = openat(dir, name("seg", segment), O_RDWR);
        if (fd < 0 && segment > text.first) break;
        if (fd < 0) die("no segment");
        ssize_t size = read(fd, bytes, sizeof bytes);
        size_t at = is(ONE_SYNC) ? FIRST : 0, until = size;
        if (is(ONE_SYNC) && size >= 8) until = *(uint64_t *)bytes ? *(uint64_t *)bytes : FIRST;
        for (;;) {
            struct record *head = (void *)(bytes + at);
            if (is(MARKER_UNSYNCED) && faccessat(dir, name("mark", found + 1), F_OK, 0) == 0) { found++; continue; }
            if (at + sizeof *head > until || head->length == 0 || at + sizeof *head + head->length > until) break;
            if (!is(ONE_SYNC) && !planted(NO_SUM) && head->sum != sum_of(head + 1, head->length, head->number)) break;
            if (payload(right, found + 1) != head->length || memcmp(head + 1, right, head->length)) die("torn record");
            found++, at += sizeof *head + head->length;
        }
        if (is(ONE_SYNC) && at < until) die("torn record");
        if (planted(ZEROS_REFUSED) && at + sizeof(struct record) <= until) {
            uint32_t length = ((struct record *)(bytes + at))->length;
            if (length == 0 || at + sizeof(struct record) + length <= until) die("damaged record");
        }
        if (at < (size_t)size && !is(ASYNC_MAP) && !is(ONE_SYNC)) repair(fd, at, bytes);
        close(fd);
    }
    printf("recovered %d\n", (int)found);
}

int main(int count, char **words) {
    if (count != 4) return 2;
    bug = abs(atoi(words[2])), sound = words[2][0] == '-';
    dir = open(words[3], O_RDONLY | O_DIRECTORY);
    need(dir >= 0, words[3]);
    words[1][1] == 'u' ? run() : recover();
    return 0;
}
