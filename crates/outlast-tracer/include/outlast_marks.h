/* Marks of transactions in captured programs: a system call that no kernel has, so it does nothing. */
#define OUTLAST_MARK(mark) ((void)syscall(20300, (long)(mark))) /* <unistd.h>, with _GNU_SOURCE */
#define OUTLAST_BEGIN() OUTLAST_MARK(1) /* a transaction begins */
#define OUTLAST_END() OUTLAST_MARK(2)   /* it ends: its stores are made */
#define OUTLAST_ACK() OUTLAST_MARK(3)   /* the program relies on it from here on */
