/*
 * A queue of jobs in persistent memory, shared by threads.
 *
 *     queue POOL work         opens or creates the pool; two threads put jobs in, two take them out, for ever; prints how
 *                             many were done once no crash can take it back
 *     queue POOL show         prints how many jobs were put in, are waiting and were done, and the sum of those done
 *     queue POOL try          throws out of transactions, and says what is left of them
 *
 * Kill it at any moment and start it again: no job is lost, and none is done twice.
 */
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "outlast.hpp"

using outlast::Ptr;
using outlast::Transaction;

struct Job {
    Ptr<Job> next;
    std::uint64_t number;
};

/* The root block. */
struct Queue {
    Ptr<Job> first, last;
    std::uint64_t put, done, sum;
};

static Ptr<Queue> find(outlast::Lane &lane) {
    return lane.run([](Transaction &tx) {
        auto queue = tx.root<Queue>();
        if (!queue) {
            queue = tx.make(Queue{});
            tx.set_root(queue);
        }
        return queue;
    });
}

/* At most this many wait. */
constexpr std::uint64_t WAITING_MAX = 100;

static bool put(Transaction &tx, Ptr<Queue> at) {
    Queue queue = tx.load(at);
    if (queue.put - queue.done >= WAITING_MAX) return false;
    const auto job = tx.make(Job{{}, ++queue.put});
    if (queue.last) tx.store(queue.last, &Job::next, job);
    else queue.first = job;
    queue.last = job;
    tx.store(at, queue);
    return true;
}

/* The number of jobs done; 0 where none waits. */
static std::uint64_t take(Transaction &tx, Ptr<Queue> at) {
    Queue queue = tx.load(at);
    if (!queue.first) return 0;
    const Job job = tx.load(queue.first);
    tx.free(queue.first);
    queue.first = job.next;
    if (!queue.first) queue.last = {};
    queue.done += 1;
    queue.sum += job.number;
    tx.store(at, queue);
    return queue.done;
}

static void work(const outlast::Pool &pool) {
    std::vector<std::thread> threads;
    std::mutex printing;
    std::uint64_t printed = 0;
    for (int number = 0; number < 4; number++)
        threads.emplace_back([&, number] {
            try {
                auto lane = pool.lane();
                const auto queue = find(lane);
                for (;;) {
                    if (number % 2 == 0) {
                        if (!lane.run([&](Transaction &tx) { return put(tx, queue); })) std::this_thread::yield();
                        continue;
                    }
                    const auto done = lane.run([&](Transaction &tx) { return take(tx, queue); });
                    const std::lock_guard<std::mutex> lock(printing);
                    if (done > printed) std::printf("done %" PRIu64 "\n", printed = done);
                }
            } catch (const std::exception &error) {
                std::fprintf(stderr, "queue: %s\n", error.what());
                std::_Exit(1);
            }
        });
    for (auto &thread : threads) thread.join();
}

static void show(outlast::Lane &lane) {
    const auto at = find(lane);
    lane.run([&](Transaction &tx) {
        const Queue queue = tx.load(at);
        std::uint64_t waiting = 0, expected = queue.done;
        for (auto job = queue.first; job; job = tx.load(job, &Job::next), waiting++)
            if (tx.load(job, &Job::number) != ++expected) throw std::runtime_error("a job is missing");
        std::printf("put %" PRIu64 " waiting %" PRIu64 " done %" PRIu64 " sum %" PRIu64 "\n", queue.put, waiting, queue.done,
                    queue.sum);
    });
}

static void attempt(const outlast::Pool &pool, outlast::Lane &lane) {
    const auto queue = find(lane);
    const auto puts = [&] { return lane.run([&](Transaction &tx) { return tx.load(queue, &Queue::put); }); };
    const auto before = puts();
    try {
        lane.run([&](Transaction &tx) {
            put(tx, queue);
            throw std::runtime_error("enough");
        });
    } catch (const std::runtime_error &error) {
        std::printf("%s: %" PRIu64 "\n", error.what(), puts() - before);
    }
    try {
        lane.run([&](Transaction &tx) {
            put(tx, queue);
            tx.load(Ptr<Job>{UINT64_MAX - 7});
        });
    } catch (const outlast::Error &error) {
        std::printf("%s: %" PRIu64 "\n", outlast_error_text(error.code()), puts() - before);
    }
    outlast_ticket ticket{};
    lane.run_async([&](Transaction &tx) { put(tx, queue); }, ticket);
    pool.await(ticket);
    std::printf("async: %" PRIu64 ", durable %d\n", puts() - before, pool.is_durable(ticket));
    auto moved = std::move(lane);
    lane = std::move(moved);
    try {
        outlast::Pool::open("no/such.pool");
    } catch (const outlast::Error &error) {
        std::printf("%d: %s\n", static_cast<int>(error.code()), error.what());
    }
}

int main(int argc, char **argv) {
    const std::string what = argc == 3 ? argv[2] : "";
    if (what != "work" && what != "show" && what != "try") {
        std::fprintf(stderr, "queue POOL work, show or try; %s\n", outlast_version());
        return 2;
    }
    try {
        auto pool = outlast::Pool::open_or_create(argv[1], 16 << 20, outlast::Options().lanes(8));
        /* A line is out when it is whole, so that what was printed was committed. */
        std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
        if (what == "work") work(pool);
        auto lane = pool.lane();
        if (what == "show") show(lane);
        if (what == "try") attempt(pool, lane);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "queue: %s\n", error.what());
        return 1;
    }
    return 0;
}
