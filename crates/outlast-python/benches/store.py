"""A transaction of one 8-byte store: the package against the same through ctypes and the C library.

    cargo build --release -p outlast-python -p outlast-c
    python3 benches/store.py target/release/liboutlast_c.so [--package FOLDER] [--domain process] [--rounds 40] [--most 1.2]

Both in turns, in one process, on pools of one scheme and domain in one folder. Prints medians and quartiles over the rounds.
"""

import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import time


class Handle(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64)]


class Options(ctypes.Structure):
    _fields_ = [
        ("scheme", ctypes.c_char_p),
        ("ack", ctypes.c_char_p),
        ("domain", ctypes.c_char_p),
        ("numbers", ctypes.c_uint64 * 3),
        ("flags", ctypes.c_uint32 * 8),
    ]


class CLibrary:
    """The C library, called as its header has it, with each result checked."""

    def __init__(self, library, path, scheme, domain):
        self.c = c = ctypes.CDLL(library)
        c.outlast_last_error.restype = ctypes.c_char_p
        word = ctypes.c_uint64
        c.outlast_create.argtypes = [ctypes.c_char_p, word, ctypes.POINTER(Options), ctypes.POINTER(Handle)]
        c.outlast_take_lane.argtypes = [Handle, ctypes.POINTER(Handle)]
        c.outlast_alloc.argtypes = [Handle, word, ctypes.POINTER(word)]
        c.outlast_store.argtypes = [Handle, word, ctypes.c_void_p, ctypes.c_size_t]
        for name in ("begin", "commit"):
            getattr(c, f"outlast_{name}").argtypes = [Handle]
        c.outlast_close.argtypes = c.outlast_give_back.argtypes = [Handle]
        self.pool, self.lane, self.at, self.word = Handle(), Handle(), word(), word()
        options = Options(scheme=scheme.encode(), domain=domain and domain.encode())
        self.done(c.outlast_create(path.encode(), 64 << 20, options, self.pool))
        self.done(c.outlast_take_lane(self.pool, self.lane))
        self.done(c.outlast_begin(self.lane))
        self.done(c.outlast_alloc(self.lane, 64, self.at))
        self.done(c.outlast_commit(self.lane))

    def done(self, code):
        if code:
            raise RuntimeError(self.c.outlast_last_error().decode())

    def run(self, count):
        begin, store, commit, done = self.c.outlast_begin, self.c.outlast_store, self.c.outlast_commit, self.done
        lane, at, word = self.lane, self.at.value, self.word
        place = ctypes.byref(word)
        for number in range(count):
            code = begin(lane)
            if code:
                done(code)
            word.value = number
            code = store(lane, at, place, 8)
            if code:
                done(code)
            code = commit(lane)
            if code:
                done(code)

    def close(self):
        self.done(self.c.outlast_give_back(self.lane))
        self.done(self.c.outlast_close(self.pool))


class Package:
    """The package: a counter set in a `with` block, or without one."""

    def __init__(self, outlast, path, scheme, domain):
        self.pool = outlast.Pool(path, size=64 << 20, scheme=scheme, domain=domain)
        self.count = self.pool.counter("count")

    def run(self, count):
        transaction, store = self.pool.transaction, self.count.set
        for number in range(count):
            with transaction():
                store(number)

    def run_alone(self, count):
        store = self.count.set
        for number in range(count):
            store(number)

    def close(self):
        self.pool.close()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("library")
    arguments.add_argument("--package", help="the folder that has it, where it is not installed")
    arguments.add_argument("--most", type=float, help="the ratio of medians from which on the run fails")
    arguments.add_argument("--scheme", default="swift")
    arguments.add_argument("--domain", default=None)
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--count", type=int, default=5000)
    given = arguments.parse_args()
    if given.package:
        sys.path.insert(0, given.package)
    import outlast

    with tempfile.TemporaryDirectory() as folder:
        c = CLibrary(given.library, os.path.join(folder, "c"), given.scheme, given.domain)
        own = Package(outlast, os.path.join(folder, "python"), given.scheme, given.domain)
        runs = {"ctypes": c.run, "with": own.run, "alone": own.run_alone}
        times = {name: [] for name in runs}
        for run in runs.values():
            run(given.count)
        for turn in range(given.rounds):
            # Each comes first as often as last.
            for name in list(runs)[:: 1 if turn % 2 else -1]:
                began = time.perf_counter()
                runs[name](given.count)
                times[name].append((time.perf_counter() - began) / given.count * 1e9)
        for name in runs:
            low, middle, high = statistics.quantiles(times[name], n=4)
            ratios = [own / peer for own, peer in zip(times[name], times["ctypes"])]
            low_ratio, ratio, high_ratio = statistics.quantiles(ratios, n=4)
            print(
                f"{name:7} {middle:7.0f} ns a transaction ({low:.0f} to {high:.0f}), "
                f"{ratio:.2f} of ctypes ({low_ratio:.2f} to {high_ratio:.2f})"
            )
        print(f"scheme {own.pool.scheme}, domain {own.pool.domain}, {given.rounds} rounds of {given.count}")
        ratio = statistics.median(times["with"]) / statistics.median(times["ctypes"])
        c.close()
        own.close()
    return given.most is not None and ratio > given.most


sys.exit(main())
