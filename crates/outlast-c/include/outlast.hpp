/*
 * Outlast for C++17: durable transactions whose ends no exception can miss.
 *
 *     auto pool = outlast::Pool::open_or_create("bank.pool", 16 << 20);
 *     auto lane = pool.lane();
 *     lane.run([&](outlast::Transaction &tx) {
 *         auto account = tx.root<Account>();
 *         tx.store(account, &Account::balance, tx.load(account, &Account::balance) + 10);
 *     });                      // no crash can take it back
 *
 * A function given to run may be called again when another transaction was in the way, so it has no effects of its own but
 * those of its transaction. An exception that leaves it undoes the transaction. Errors are outlast::Error. Persistent addresses
 * are typed offsets from the start of the pool, outlast::Ptr, never pointers; what they lead to is copied in and out, and is
 * trivially copyable. Destructors give lanes back and close pools: a pool outlives its lanes, and a lane stays with the thread
 * that took it.
 */
#ifndef OUTLAST_HPP
#define OUTLAST_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "outlast.h"

namespace outlast {

/* A call that failed: its code, and one line that names the thing. */
class Error : public std::runtime_error {
public:
    Error(outlast_code code, const std::string &text) : std::runtime_error(text), code_(code) {}
    outlast_code code() const noexcept { return code_; }

private:
    outlast_code code_;
};

namespace detail {

inline void check(outlast_code code) {
    if (code != OUTLAST_OK) throw Error(code, outlast_last_error());
}

/* Where a member stands in its structure. */
template <class T, class Member> std::uint64_t offset_of(Member T::*member) {
    static_assert(std::is_standard_layout_v<T>, "a member of a persistent structure has one place in it");
    alignas(T) static const unsigned char place[sizeof(T)] = {};
    const T *object = reinterpret_cast<const T *>(place);
    return static_cast<std::uint64_t>(reinterpret_cast<const unsigned char *>(&(object->*member)) - place);
}

} // namespace detail

/* The place of a T in a pool; 0 is none. It is itself trivially copyable, and may be stored in a pool. */
template <class T> struct Ptr {
    std::uint64_t at = 0;

    explicit operator bool() const noexcept { return at != 0; }
    friend bool operator==(Ptr a, Ptr b) noexcept { return a.at == b.at; }
    friend bool operator!=(Ptr a, Ptr b) noexcept { return a.at != b.at; }
    /* Of an array's elements. */
    friend Ptr operator+(Ptr first, std::uint64_t count) noexcept { return {first.at + count * sizeof(T)}; }
};

/* The place of a member. */
template <class T, class Member> Ptr<Member> operator->*(Ptr<T> whole, Member T::*member) {
    return {whole.at + detail::offset_of(member)};
}

/* How to open or create a pool: what is not set takes its default. */
class Options {
public:
    Options &scheme(std::string name) { return scheme_ = std::move(name), *this; }
    Options &ack(std::string name) { return ack_ = std::move(name), *this; }
    Options &domain(std::string name) { return domain_ = std::move(name), *this; }
    Options &grow_limit(std::uint64_t bytes) { return raw_.grow_limit_bytes = bytes, *this; }
    Options &lanes(std::uint32_t count) { return raw_.lanes = count, *this; }
    Options &lane_bytes(std::uint64_t bytes) { return raw_.lane_bytes = bytes, *this; }
    Options &checksums(bool keeps = true) { return raw_.checksums = keeps, *this; }

    /* For the functions of outlast.h, as long as these options live and stay as they are. */
    outlast_options raw() const {
        const auto text = [](const std::optional<std::string> &name) { return name ? name->c_str() : nullptr; };
        outlast_options raw = raw_;
        raw.scheme = text(scheme_);
        raw.ack = text(ack_);
        raw.domain = text(domain_);
        return raw;
    }

private:
    outlast_options raw_{};
    std::optional<std::string> scheme_, ack_, domain_;
};

/* A running transaction: the argument of a function given to run. */
class Transaction {
public:
    template <class T> T load(Ptr<T> from) const {
        static_assert(std::is_trivially_copyable_v<T>, "what a pool holds is copied byte by byte");
        alignas(T) unsigned char bytes[sizeof(T)];
        detail::check(outlast_load(lane_, from.at, bytes, sizeof bytes));
        T value;
        std::memcpy(&value, bytes, sizeof value);
        return value;
    }
    template <class T, class Member> Member load(Ptr<T> from, Member T::*member) const { return load(from->*member); }

    template <class T> void store(Ptr<T> to, const T &value) {
        static_assert(std::is_trivially_copyable_v<T>, "what a pool holds is copied byte by byte");
        detail::check(outlast_store(lane_, to.at, &value, sizeof value));
    }
    template <class T, class Member> void store(Ptr<T> to, Member T::*member, const Member &value) {
        store(to->*member, value);
    }

    void load_bytes(std::uint64_t at, void *out, std::size_t size) const { detail::check(outlast_load(lane_, at, out, size)); }
    void store_bytes(std::uint64_t at, const void *bytes, std::size_t size) {
        detail::check(outlast_store(lane_, at, bytes, size));
    }

    /* A new block for `count` elements, without content; it is taken if the transaction commits. */
    template <class T> Ptr<T> alloc(std::uint64_t count = 1) {
        static_assert(alignof(T) <= 64, "a block begins at a line at most");
        if (count > UINT64_MAX / sizeof(T)) throw std::length_error("a block of more bytes than can be counted");
        Ptr<T> block;
        detail::check(outlast_alloc(lane_, count * sizeof(T), &block.at));
        return block;
    }
    /* The same, with a content. */
    template <class T> Ptr<T> make(const T &value) {
        const Ptr<T> block = alloc<T>();
        store(block, value);
        return block;
    }
    template <class T> void free(Ptr<T> block) { detail::check(outlast_free(lane_, block.at)); }

    /* The root block, from which everything is found; none before the first set_root. */
    template <class T> Ptr<T> root() const {
        Ptr<T> root;
        detail::check(outlast_root(lane_, &root.at));
        return root;
    }
    template <class T> void set_root(Ptr<T> root) { detail::check(outlast_set_root(lane_, root.at)); }

    /* Ranges that will be stored to, to be logged together. */
    void announce(std::initializer_list<outlast_range> ranges) {
        detail::check(outlast_announce(lane_, ranges.begin(), ranges.size()));
    }
    template <class T> static outlast_range range(Ptr<T> first, std::uint64_t count = 1) {
        return {first.at, count * sizeof(T)};
    }

    Transaction(const Transaction &) = delete;
    Transaction &operator=(const Transaction &) = delete;

private:
    friend class Lane;
    explicit Transaction(outlast_lane lane) : lane_(lane) {}
    outlast_lane lane_;
};

/* A lane of a pool: one transaction at a time, of the thread that took it. */
class Lane {
public:
    Lane(Lane &&other) noexcept : lane_(std::exchange(other.lane_, outlast_lane{})) {}
    Lane &operator=(Lane &&other) noexcept {
        std::swap(lane_, other.lane_);
        return *this;
    }
    ~Lane() {
        if (lane_.id != 0) outlast_give_back(lane_);
    }

    /* Runs `body` as one transaction, again after each conflict, and commits it. Returns the result of `body`. */
    template <class Body> auto run(Body &&body) {
        return end(body, [](outlast_lane lane) { return outlast_commit(lane); });
    }

    /* The same, not durable yet: Pool::await waits for the ticket. */
    template <class Body> auto run_async(Body &&body, outlast_ticket &ticket) {
        return end(body, [&](outlast_lane lane) { return outlast_commit_async(lane, &ticket); });
    }

private:
    friend class Pool;
    explicit Lane(outlast_lane lane) : lane_(lane) {}

    template <class Body, class Commit> auto end(Body &body, Commit commit) {
        using Result = std::invoke_result_t<Body &, Transaction &>;
        for (;;) {
            detail::check(outlast_begin(lane_));
            try {
                Transaction tx(lane_);
                if constexpr (std::is_void_v<Result>) {
                    body(tx);
                    if (is_committed(commit(lane_))) return;
                } else {
                    Result result = body(tx);
                    if (is_committed(commit(lane_))) return result;
                }
            } catch (const Ended &ended) {
                throw Error(ended.error);
            } catch (const Error &error) {
                outlast_abort(lane_);
                if (error.code() != OUTLAST_CONFLICT) throw;
            } catch (...) {
                outlast_abort(lane_);
                throw;
            }
        }
    }

    /* A failed commit has ended the transaction already. */
    struct Ended {
        Error error;
    };
    static bool is_committed(outlast_code code) {
        if (code != OUTLAST_OK && code != OUTLAST_CONFLICT) throw Ended{Error(code, outlast_last_error())};
        return code == OUTLAST_OK;
    }

    outlast_lane lane_;
};

/* An open pool. */
class Pool {
public:
    static Pool create(const std::string &path, std::uint64_t size_bytes, const Options &options = {}) {
        const outlast_options raw = options.raw();
        outlast_pool pool{};
        detail::check(outlast_create(path.c_str(), size_bytes, &raw, &pool));
        return Pool(pool);
    }
    static Pool open(const std::string &path, const Options &options = {}) {
        const outlast_options raw = options.raw();
        outlast_pool pool{};
        detail::check(outlast_open(path.c_str(), &raw, &pool));
        return Pool(pool);
    }
    /* Another process may create it meanwhile: then it is opened. */
    static Pool open_or_create(const std::string &path, std::uint64_t size_bytes, const Options &options = {}) {
        const outlast_options raw = options.raw();
        outlast_pool pool{};
        outlast_code code = outlast_open(path.c_str(), &raw, &pool);
        if (code == OUTLAST_NOT_FOUND) code = outlast_create(path.c_str(), size_bytes, &raw, &pool);
        if (code == OUTLAST_EXISTS) code = outlast_open(path.c_str(), &raw, &pool);
        detail::check(code);
        return Pool(pool);
    }

    Pool(Pool &&other) noexcept : pool_(std::exchange(other.pool_, outlast_pool{})) {}
    Pool &operator=(Pool &&other) noexcept {
        std::swap(pool_, other.pool_);
        return *this;
    }
    ~Pool() {
        if (pool_.id != 0) outlast_close(pool_);
    }
    /* Closes it, and says if that failed: OUTLAST_BUSY while it has lanes. */
    void close() {
        detail::check(outlast_close(pool_));
        pool_ = {};
    }

    /* A lane for this thread. */
    Lane lane() const {
        outlast_lane lane{};
        detail::check(outlast_take_lane(pool_, &lane));
        return Lane(lane);
    }

    /* Every asynchronous commit that has returned becomes durable; or that of a ticket. */
    void sync() const { detail::check(outlast_sync(pool_)); }
    void await(outlast_ticket ticket) const { detail::check(outlast_await_durable(pool_, ticket)); }
    bool is_durable(outlast_ticket ticket) const {
        int is_durable = 0;
        detail::check(outlast_is_durable(pool_, ticket, &is_durable));
        return is_durable != 0;
    }

    outlast_info info() const {
        outlast_info info{};
        detail::check(outlast_pool_info(pool_, &info));
        return info;
    }

private:
    explicit Pool(outlast_pool pool) : pool_(pool) {}
    outlast_pool pool_;
};

} // namespace outlast

#endif /* OUTLAST_HPP */
