/* What a program says of its transactions to `outlast check`, and a loop for checks that stay.
 *
 *     outlast_issued(7);   before transaction 7 begins; transactions count from 1
 *     outlast_acked(7);    once it is acknowledged: it must survive a loss of power from here on
 *
 * Each is one system call under the checker, and nothing elsewhere. C99, POSIX, no library. */
#ifndef OUTLAST_CHECK_H
#define OUTLAST_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline void outlast_mark(char letter, unsigned long long number) {
  static int pipe = -2; /* not looked up yet; several threads find the same */
  int descriptor = pipe;
  if (descriptor == -2) {
    const char *text = getenv("OUTLAST_MARKS");
    struct stat found;
    descriptor = text ? atoi(text) : -1;
    /* A descriptor of that number that is something else is left alone. */
    if (descriptor < 3 || fstat(descriptor, &found) != 0 || !S_ISFIFO(found.st_mode)) {
      descriptor = -1;
    }
    pipe = descriptor;
  }
  if (descriptor >= 0) {
    char line[32];
    int length = snprintf(line, sizeof line, "%c %llu\n", letter, number);
    if (write(descriptor, line, (size_t)length) != length) {
      pipe = -1; /* the checker is gone */
    }
  }
}

static inline void outlast_issued(unsigned long long number) { outlast_mark('I', number); }
static inline void outlast_acked(unsigned long long number) { outlast_mark('A', number); }

/* What a check returns besides the number of the last transaction that it found whole. */
enum { OUTLAST_GOOD = -1, OUTLAST_BAD = -2 };

/* A check of the state in `dir`: OUTLAST_GOOD; OUTLAST_BAD, with the reason in `why`; or the number of
 * the last transaction that it found whole, to be judged by `acked` and `issued`. */
typedef long long (*outlast_checker)(const char *dir, unsigned long long acked,
                                     unsigned long long issued, char why[256]);

/* Answers states from standard input on standard output, until there are no more (`--server`). Returns 0,
 * or 1 at a line that is no state. A check that crashes is a verdict: the checker starts it anew. */
static inline int outlast_serve(outlast_checker check) {
  static char line[8192];
  while (fgets(line, sizeof line, stdin)) {
    char *issued = strrchr(line, '\t'), *acked;
    if (!issued) return 1;
    *issued++ = 0;
    if (!(acked = strrchr(line, '\t'))) return 1;
    *acked++ = 0;
    char why[256] = "";
    long long found = check(line, strtoull(acked, NULL, 10), strtoull(issued, NULL, 10), why);
    why[sizeof why - 1] = 0;
    if (found >= 0) printf("recovered %lld\n", found);
    else if (found == OUTLAST_GOOD) puts("ok");
    else printf("bad %.*s\n", (int)strcspn(why, "\r\n"), why);
    if (fflush(stdout) != 0) return 1;
  }
  return 0;
}

#endif
