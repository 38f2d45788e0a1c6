/*
 * A bank in persistent memory: transfers between accounts until somebody pulls the plug.
 *
 *     bank POOL [SCHEME [ACK]]    opens or creates the pool and transfers for ever; prints the
 *                                 number of each transfer once it is acknowledged
 *     bank POOL show              prints how many transfers there were, and every balance
 *
 * Kill it at any moment and start it again: no transfer is there in part, and every one whose
 * number was printed is there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archapt.h"

enum { ACCOUNTS = 16, FIRST_BALANCE = 1000, ACCOUNT_BYTES = 64 };

/* The root block: a line with the number of transfers, then a line for each account. */
enum { BANK_BYTES = ACCOUNT_BYTES * (ACCOUNTS + 1) };

static uint64_t account_at(uint64_t bank, uint64_t account) {
    return bank + ACCOUNT_BYTES * (account + 1);
}

/* Ends the program when a call failed that has no reason to. */
static void demand(ArchaptCode code, const char *what) {
    if (code != ARCHAPT_OK) {
        fprintf(stderr, "bank: %s: %s (%s)\n", what, Archapt_Last_Error(),
                Archapt_Error_Text((int)code));
        exit(1);
    }
}

/* What the transfer of that number does: the same in every run, so that it can be checked. */
struct transfer {
    uint64_t from, to, amount;
};

static struct transfer transfer_of(uint64_t number) {
    uint64_t random = number * UINT64_C(0x9e3779b97f4a7c15);
    random ^= random >> 32;
    struct transfer transfer = {random % ACCOUNTS, 0, random / 256 % 50};
    transfer.to = (transfer.from + 1 + random / 65536 % (ACCOUNTS - 1)) % ACCOUNTS;
    return transfer;
}

/* One transfer, in the running transaction. The first call that fails says why. */
static ArchaptCode move_money(uint64_t bank, uint64_t *number) {
    ArchaptCode code = Archapt_Load(bank, number, sizeof *number);
    if (code != ARCHAPT_OK) return code;
    *number += 1;
    struct transfer transfer = transfer_of(*number);
    uint64_t from_at = account_at(bank, transfer.from), to_at = account_at(bank, transfer.to);
    /* Said at once, what is changed is logged at once. */
    if ((code = Archapt_Will_Write(bank, sizeof *number)) != ARCHAPT_OK) return code;
    if ((code = Archapt_Will_Write(from_at, sizeof(int64_t))) != ARCHAPT_OK) return code;
    if ((code = Archapt_Will_Write(to_at, sizeof(int64_t))) != ARCHAPT_OK) return code;

    int64_t from, to;
    if ((code = Archapt_Load(from_at, &from, sizeof from)) != ARCHAPT_OK) return code;
    if ((code = Archapt_Load(to_at, &to, sizeof to)) != ARCHAPT_OK) return code;
    from -= (int64_t)transfer.amount;
    to += (int64_t)transfer.amount;
    if ((code = Archapt_Store(from_at, &from, sizeof from)) != ARCHAPT_OK) return code;
    if ((code = Archapt_Store(to_at, &to, sizeof to)) != ARCHAPT_OK) return code;
    return Archapt_Store(bank, number, sizeof *number);
}

/* Transfers once and returns its number when it is acknowledged. */
static uint64_t transfer_once(uint64_t bank) {
    for (;;) {
        uint64_t number = 0;
        demand(Archapt_Tx_Start(), "starting");
        ArchaptCode code = move_money(bank, &number);
        if (code == ARCHAPT_OK) {
            code = Archapt_Tx_LCommit();
            if (code == ARCHAPT_OK) {
                demand(Archapt_Tx_End(), "ending");
                return number;
            }
        } else {
            demand(Archapt_Tx_Abort(), "giving up");
        }
        if (code != ARCHAPT_CONFLICT) demand(code, "transferring");
    }
}

/* Finds the bank, or founds it. */
static uint64_t bank_of_pool(void) {
    uint64_t bank = 0;
    demand(Archapt_Tx_Start(), "starting");
    demand(Archapt_Root(&bank), "looking for the bank");
    if (bank == 0) {
        bank = Archapt_Malloc(ARCHAPT_VALUE, BANK_BYTES);
        if (bank == 0) demand(Archapt_Last_Code(), "founding the bank");
        static const char zeros[BANK_BYTES];
        demand(Archapt_Store(bank, zeros, sizeof zeros), "founding the bank");
        for (uint64_t account = 0; account < ACCOUNTS; account++) {
            int64_t balance = FIRST_BALANCE;
            demand(Archapt_Store(account_at(bank, account), &balance, sizeof balance), "paying in");
        }
        demand(Archapt_Set_Root(bank), "founding the bank");
    }
    demand(Archapt_Tx_LCommit(), "founding the bank");
    demand(Archapt_Tx_End(), "founding the bank");
    return bank;
}

static void show(uint64_t bank) {
    uint64_t number = 0;
    demand(Archapt_Tx_Start(), "starting");
    demand(Archapt_Load(bank, &number, sizeof number), "reading");
    printf("transfers %" PRIu64 "\n", number);
    for (uint64_t account = 0; account < ACCOUNTS; account++) {
        int64_t balance = 0;
        demand(Archapt_Load(account_at(bank, account), &balance, sizeof balance), "reading");
        printf("account %" PRIu64 " %" PRId64 "\n", account, balance);
    }
    demand(Archapt_Tx_Abort(), "ending");
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "bank POOL [SCHEME [ACK]], or bank POOL show; Outlast %s\n",
                Archapt_Version());
        return 2;
    }
    int shows = argc > 2 && strcmp(argv[2], "show") == 0;
    ArchaptOptions options = {0};
    options.path = argv[1];
    options.size_bytes = shows ? 0 : UINT64_C(16) << 20;
    options.scheme = shows ? NULL : argc > 2 ? argv[2] : NULL;
    options.ack = argc > 3 ? argv[3] : NULL;
    demand(Archapt_Init(&options), argv[1]);

    uint64_t bank = bank_of_pool();
    if (shows) {
        show(bank);
        demand(Archapt_Close(), "closing");
        return 0;
    }
    /* A line is out when it is whole, so that what was printed was acknowledged. */
    setvbuf(stdout, NULL, _IOLBF, 1 << 12);
    for (;;) printf("done %" PRIu64 "\n", transfer_once(bank));
}
