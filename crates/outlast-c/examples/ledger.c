/*
 * A ledger in persistent memory: entries that are appended until somebody pulls the plug.
 *
 *     ledger POOL [SCHEME]    opens or creates the pool and appends for ever; prints the number of
 *                             each entry once no crash can take it back
 *     ledger POOL show        prints how many entries there were, and those that are kept
 *     ledger POOL check       checks the pool: also that each entry has one owner
 *     ledger schemes          prints what there is
 *
 * Each entry is a block of its own, linked to the next; the last sixteen are kept, so that a
 * transaction takes one block and gives another back. Kill it at any moment and start it again:
 * no entry is there in part, and every one whose number was printed was appended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "outlast.h"

enum { KEPT = 16 };

/* The root. */
struct ledger {
    uint64_t entries; /* how many were appended, ever */
    uint64_t first;   /* the oldest that is kept, or 0 */
    uint64_t last;    /* the newest, or 0 */
};

struct entry {
    uint64_t next;
    uint64_t number;
    uint64_t amounts[6]; /* what the number makes of them */
};

/* The same for the pool to keep, so that a check follows the root: the ledger owns the first entry, and each entry the next. */
static const char *const schema =
    "ledger v1; ledger v1 { 0 entries: u64, 8 first: optional box of entry v1, 16 last: optional pointer to entry v1 }; "
    "entry v1 { 0 next: optional box of entry v1, 8 number: u64, 16 amounts: [u64; 6] }";

/* What a transaction works with. */
struct job {
    uint64_t at;     /* the ledger */
    uint64_t number; /* of the entry appended */
};

/* Ends the function when a call failed. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        outlast_code code = (call);                                                                \
        if (code != OUTLAST_OK) return (int)code;                                                  \
    } while (0)

static int complain(const char *what, int code) {
    fprintf(stderr, "ledger: %s: %s (%s)\n", what, outlast_last_error(), outlast_error_text(code));
    return 1;
}

/* Finds the ledger, or opens one. */
static int find(outlast_lane lane, void *context) {
    struct job *job = context;
    TRY(outlast_described_root(lane, schema, &job->at));
    if (job->at == 0) {
        const struct ledger empty = {0, 0, 0};
        TRY(outlast_set_described_root(lane, schema, sizeof empty, &job->at));
        TRY(outlast_store(lane, job->at, &empty, sizeof empty));
    }
    return 0;
}

/* Appends an entry, and forgets the oldest where there are enough. */
static int append(outlast_lane lane, void *context) {
    struct job *job = context;
    struct ledger ledger;
    TRY(outlast_load(lane, job->at, &ledger, sizeof ledger));

    struct entry entry = {0, ledger.entries + 1, {0}};
    for (uint64_t i = 0; i < 6; i++) entry.amounts[i] = entry.number * (i + 1);
    uint64_t at;
    TRY(outlast_alloc(lane, sizeof entry, &at));

    uint64_t old_last = ledger.last, old_first = ledger.first;
    ledger.last = at;
    ledger.entries += 1;
    if (old_first == 0) ledger.first = at;
    if (ledger.entries > KEPT) {
        struct entry oldest;
        TRY(outlast_load(lane, old_first, &oldest, sizeof oldest));
        ledger.first = oldest.next;
        TRY(outlast_free(lane, old_first));
    }
    /* Said at once, what is changed is logged at once. */
    const outlast_range ranges[2] = {{job->at, sizeof ledger}, {old_last, sizeof at}};
    TRY(outlast_announce(lane, ranges, old_last == 0 ? 1 : 2));
    TRY(outlast_store(lane, at, &entry, sizeof entry));
    TRY(outlast_store(lane, job->at, &ledger, sizeof ledger));
    if (old_last != 0) TRY(outlast_store(lane, old_last, &at, sizeof at));
    job->number = entry.number;
    return 0;
}

static int show(outlast_lane lane, void *context) {
    struct job *job = context;
    struct ledger ledger;
    TRY(outlast_load(lane, job->at, &ledger, sizeof ledger));
    printf("entries %" PRIu64 "\n", ledger.entries);
    struct entry entry;
    for (uint64_t at = ledger.first; at != 0; at = entry.next) {
        TRY(outlast_load(lane, at, &entry, sizeof entry));
        printf("entry %" PRIu64, entry.number);
        for (int i = 0; i < 6; i++) printf(" %" PRIu64, entry.amounts[i]);
        printf("\n");
    }
    return 0;
}

static int print_schemes(void) {
    for (size_t i = 0; i < outlast_scheme_count(); i++)
        printf("%s: %s\n", outlast_scheme_name(i), outlast_scheme_about(i));
    return 0;
}

/* Works with an open pool. */
static int work(outlast_pool pool, int shows) {
    outlast_lane lane;
    struct job job = {0, 0};
    int code = (int)outlast_take_lane(pool, &lane);
    if (code == OUTLAST_OK) code = (int)outlast_run(lane, find, &job);
    if (code == OUTLAST_OK && shows) code = (int)outlast_run(lane, show, &job);
    while (code == OUTLAST_OK && !shows) {
        code = (int)outlast_run(lane, append, &job);
        if (code == OUTLAST_OK) printf("done %" PRIu64 "\n", job.number);
    }
    if (code != OUTLAST_OK) return complain("working", code);
    outlast_give_back(lane);
    code = (int)outlast_close(pool);
    return code == OUTLAST_OK ? 0 : complain("closing", code);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "schemes") == 0) return print_schemes();
    if (argc < 2) {
        fprintf(stderr, "ledger POOL [SCHEME], ledger POOL show or check, ledger schemes; %s\n",
                outlast_version());
        return 2;
    }
    const char *path = argv[1], *what = argc > 2 ? argv[2] : NULL;
    int shows = what != NULL && strcmp(what, "show") == 0;
    if (what != NULL && strcmp(what, "check") == 0) {
        uint64_t findings = 0;
        int code = (int)outlast_check(path, NULL, &findings);
        if (code != OUTLAST_OK) return complain(path, code);
        printf("%" PRIu64 " findings\n", findings);
        return 0;
    }
    outlast_options options = {0};
    options.scheme = shows ? NULL : what;
    outlast_pool pool;
    int code = (int)outlast_open(path, &options, &pool);
    if (code == OUTLAST_NOT_FOUND && !shows)
        code = (int)outlast_create(path, UINT64_C(16) << 20, &options, &pool);
    if (code != OUTLAST_OK) return complain(path, code);
    /* A line is out when it is whole, so that what was printed was committed. */
    setvbuf(stdout, NULL, _IOLBF, 1 << 12);
    return work(pool, shows);
}
