"""No use of the package from Python stops the interpreter or harms a pool: structures that are gone, views, forks, threads that
are left over, transactions that are not ended. Each program of a kind that might is a process of its own."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import outlast

try:
    import numpy
except ImportError:
    numpy = None

# Ctrl-C is ignored by programs that a script has started in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)


class HostileCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "pool")

    def run_program(self, program, *arguments):
        """Runs a program to its end, which is an orderly one."""
        command = [sys.executable, "-c", program, self.path, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def in_child(self, work):
        """Runs `work` in a forked child; whether it ended in time and well."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work()
                code = 0
            finally:
                os._exit(code)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status == 0
            time.sleep(0.005)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False


class Gone(HostileCase):
    def test_a_handle_of_a_removed_structure_stores_nothing(self):
        with outlast.Pool(self.path) as pool:
            gone = [pool.map("map"), pool.list("list"), pool.counter("counter")]
            gone[0]["key"] = 1
            for name in list(pool):
                del pool[name]
            other = pool.map("other")
            other.update((number, "x" * 300) for number in range(200))
            for store in (lambda: gone[0].update(key=2), lambda: gone[1].append(1), lambda: gone[2].add()):
                with self.assertRaisesRegex(outlast.Error, "any more"):
                    store()
            self.assertEqual(dict(other), {number: "x" * 300 for number in range(200)})
            again = pool.map("map")
            again["key"] = 3
            self.assertEqual(gone[0]["key"], 3, "a handle leads to the structure of its name")
            with self.assertRaises(outlast.Error):
                pool.map("list")
                gone[1].append(1)

    def test_a_structure_of_an_undone_transaction_is_gone(self):
        with outlast.Pool(self.path) as pool:
            kept = pool.map("kept")
            kept["a"] = 1
            with self.assertRaises(ZeroDivisionError):
                with pool.transaction():
                    made = pool.counter("made")
                    made.add(5)
                    del pool["kept"]
                    with self.assertRaisesRegex(outlast.Error, "any more"):
                        kept["a"]
                    pool.map("kept")["b"] = 2
                    self.assertEqual(dict(kept), {"b": 2})
                    1 / 0
            self.assertEqual(dict(kept), {"a": 1})
            with self.assertRaisesRegex(outlast.Error, "any more"):
                made.add()

    def test_threads_use_and_remove_one_name(self):
        with outlast.Pool(self.path) as pool:
            wrong, kept = [], pool.list("kept")

            def use():
                race = pool.map("race")
                for number in range(400):
                    try:
                        race[number % 50] = [number]
                    except outlast.Error as error:
                        if "any more" not in str(error):
                            wrong.append(repr(error))
                        pool.map("race")

            def remove():
                for number in range(60):
                    if "race" in pool:
                        try:
                            del pool["race"]
                        except KeyError:
                            pass
                    other = pool.map(f"other{number % 3}")
                    other["key"] = b"y" * 300
                    kept.append(number)

            threads = [threading.Thread(target=work) for work in (use, use, remove)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            self.assertEqual(wrong, [])
            self.assertEqual(list(kept), list(range(60)))
            for name in list(pool):
                del pool[name]
            self.assertEqual(list(pool), [])


@unittest.skipIf(numpy is None, "NumPy is missing: pip install numpy")
class Views(HostileCase):
    def test_views_keep_their_memory(self):
        with outlast.Pool(self.path, size=4 << 20, grow_to=1 << 28) as pool:
            array, filled = pool.array("array", 1000), pool.map("filled")
            array[...] = numpy.arange(1000.0)
            shown = numpy.asarray(array)
            for number in range(60):
                filled[number] = b"x" * 100_000
            self.assertGreater(pool.stats()["pool_bytes"], 4 << 20)
            with self.assertRaises(BufferError):
                pool.close()
            with self.assertRaises(BufferError):
                del pool["array"]
            with self.assertRaises(BufferError):
                with pool.transaction():
                    del pool["filled"], pool["array"]
            self.assertEqual((len(filled), sorted(pool)), (60, ["array", "filled"]))
            with self.assertRaises(ValueError):
                shown[0] = 1
            with self.assertRaises(ValueError):
                shown.setflags(write=True)
        # The pool is closed for all work, and the view as it was.
        with self.assertRaises(outlast.ClosedError):
            array[0]
        with self.assertRaises(outlast.Error):
            outlast.Pool(self.path)
        del pool, array, filled
        gc.collect()
        self.assertTrue((shown == numpy.arange(1000.0)).all())
        del shown
        gc.collect()
        with outlast.Pool(self.path) as pool:
            del pool["array"]

    def test_a_readers_array_is_a_copy_of_one_moment(self):
        with outlast.Pool(self.path, scheme="swift") as pool:
            array = pool.array("array", (64, 8), "int64")
            reader, stop = outlast.read(self.path), threading.Event()

            def write():
                number = 0
                while not stop.is_set():
                    number += 1
                    array[...] = number

            writer = threading.Thread(target=write)
            writer.start()
            for _ in range(100):
                copied = numpy.asarray(reader.array("array"))
                self.assertEqual(copied.min(), copied.max())
            stop.set()
            writer.join()
            copied[0] = 5
            with self.assertRaises(ValueError):
                numpy.array(reader.array("array"), copy=False)

    def test_types_and_shapes(self):
        with outlast.Pool(self.path) as pool:
            kinds = ["?", "i1", "u8", "f2", "f4", ">f8", "g", "F", "D", "M8[ns]", "m8[s]", "S10", "U5", "V8"]
            for number, kind in enumerate(kinds):
                array = pool.array(f"{number}", (3, 2), kind)
                array[1] = numpy.asarray(array)[0]
                self.assertEqual(numpy.asarray(array).dtype, numpy.dtype(kind))
            for kind in (object, [("a", "i4")], ("f4", (2,)), "S", "U"):
                with self.assertRaises(TypeError):
                    pool.array("refused", 3, kind)
            for shape in (-1, (3, -1), (1,) * 40, 1 << 62, (1 << 40, 1 << 40)):
                with self.assertRaises((ValueError, outlast.Error)):
                    pool.array("refused", shape)
            for shape in (2.5, (2.5,), "ab", None):
                with self.assertRaises(TypeError):
                    pool.array("refused", shape)
            self.assertNotIn("refused", pool)
            for kind in ("|O8", "<f", "f8", "", "é", "<f0", "<f8x", "<U9999999999999999999"):
                with self.assertRaises(ValueError):
                    pool._make_array("refused", kind, [3])
            # NumPy drops lengths of 1 in front.
            array = pool.array("array", (2, 3))
            array[1] = numpy.ones((1, 1, 3))
            array[:, 0] = numpy.full((1, 2), 2)
            self.assertEqual(array[...].tolist(), [[2, 0, 0], [2, 1, 1]])
            none, one = pool.array("none", (0, 5)), pool.array("one", ())
            self.assertEqual((numpy.asarray(none).shape, none[...].shape, len(none)), ((0, 5), (0, 5), 0))
            none[...] = 1
            one[...] = 3
            self.assertEqual((float(one[()]), one[...].shape, one.nbytes), (3.0, (), 8))
            with self.assertRaises(TypeError):
                len(one)
            with self.assertRaises(IndexError):
                one[0]
            for index in (0, -1, (0, 0), (0, 9)):
                with self.assertRaises(IndexError):
                    none[index]


class Transactions(HostileCase):
    def test_a_transaction_that_is_not_ended_is_undone(self):
        with outlast.Pool(self.path) as pool:
            one = pool.map("one")

            def left():
                with pool.transaction():
                    one["left"] = 1
                    yield

            # Dropped; closed by another thread, which cannot end it; begun and forgotten; left by a thread that ends.
            generator = left()
            next(generator)
            del generator
            gc.collect()
            self.assertNotIn("left", one)
            box, said = [left()], []
            next(box[0])

            def close():
                try:
                    box.pop().close()
                except outlast.Error as error:
                    said.append(str(error))

            thread = threading.Thread(target=close)
            thread.start()
            thread.join()
            self.assertRegex(said.pop(), "another thread")
            gc.collect()
            self.assertNotIn("left", one)

            def forget():
                begun = pool.transaction()
                begun.__enter__()
                one["left"] = 1

            begun = pool.transaction()
            begun.__enter__()
            one["left"] = 1
            del begun
            self.assertNotIn("left", one)
            thread = threading.Thread(target=forget)
            thread.start()
            thread.join()
            self.assertNotIn("left", one)
            one["kept"] = 1
            self.assertEqual(dict(one), {"kept": 1})

    def test_wrong_ends(self):
        with outlast.Pool(self.path) as pool:
            one, begun, said = pool.map("one"), pool.transaction(), []
            with self.assertRaisesRegex(outlast.Error, "not begun"):
                begun.__exit__(None, None, None)
            begun.__enter__()
            one["a"] = 1

            def end():
                try:
                    begun.__exit__(None, None, None)
                except outlast.Error as error:
                    said.append(str(error))

            thread = threading.Thread(target=end)
            thread.start()
            thread.join()
            self.assertRegex(said[0], "another thread")
            with self.assertRaises(BufferError):
                pool.close()
            begun.__exit__(None, None, None)
            self.assertEqual(one["a"], 1)
            start = time.monotonic()
            with pool.transaction():
                with self.assertRaises(IndexError):
                    pool.queue("queue").get()
            self.assertLess(time.monotonic() - start, 30)

    def test_a_snapshot_in_which_a_transaction_begins(self):
        with outlast.Pool(self.path) as pool:
            one = pool.map("one")
            one["a"] = 1
            reader, kept = outlast.read(self.path), []

            def begin():
                kept.append(pool.transaction())
                kept[0].__enter__()
                one["a"] = 2
                return reader.map("one")["a"]

            self.assertEqual(reader.run(begin), 1)
            self.assertEqual(reader.map("one")["a"], 1)
            kept.pop().__exit__(None, None, None)
            self.assertEqual(reader.map("one")["a"], 2)

    def test_an_interrupt_undoes_all_or_nothing(self):
        with outlast.Pool(self.path) as pool:
            one = pool.map("one")
            one.update(left=0, right=0)
            for _ in range(5):
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
                with self.assertRaises(KeyboardInterrupt):
                    number = 0
                    while True:
                        number += 1
                        with pool.transaction():
                            one["left"] = number
                            one["right"] = number
                self.assertEqual(one["left"], one["right"])

    def test_a_transaction_that_is_dropped_stands_in_no_way(self):
        with outlast.Pool(self.path) as pool:
            one = pool.map("one")
            begun = pool.transaction()
            begun.__enter__()
            one["left"] = 1
            del begun
            thread = threading.Thread(target=lambda: one.update(other=1), daemon=True)
            thread.start()
            thread.join(20)
            self.assertFalse(thread.is_alive(), "it waits for the transaction")
            self.assertEqual(dict(one), {"other": 1})
            begun = pool.transaction()
            begun.__enter__()
            one["left"] = 1
            del begun
            pool.close()

    def test_a_transaction_is_one_threads(self):
        with outlast.Pool(self.path) as pool:
            one, shared, said = pool.map("one"), pool.transaction(), []

            def enter():
                try:
                    with shared:
                        one["other"] = 1
                except outlast.Error as error:
                    said.append(str(error))

            with shared:
                one["own"] = 1
                thread = threading.Thread(target=enter)
                thread.start()
                thread.join()
            self.assertRegex(said[0], "another thread is in this transaction")
            self.assertEqual(dict(one), {"own": 1})
            enter()
            self.assertEqual(dict(one), {"own": 1, "other": 1})

    def test_work_behind_the_transaction_is_refused(self):
        with outlast.Pool(self.path) as pool:
            one = pool.map("one")

            async def later():
                one["later"] = 1

            def generator():
                one["later"] = 1
                yield

            async def both():
                one["later"] = 1
                yield

            for function in (later, generator, both):
                with self.assertRaisesRegex(TypeError, "a plain function is possible"):
                    pool.run(function)
                with self.assertRaises(TypeError), pool.transaction():
                    pool.run(function)
                with self.assertRaises(TypeError), outlast.read(self.path) as reader:
                    reader.run(function)
            self.assertEqual(dict(one), {})
            self.assertEqual(list(pool.run(lambda: (number for number in range(2)))), [0, 1])

    def interrupted(self, work):
        """Seconds until Ctrl-C ends it."""
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        start = time.monotonic()
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            work()
            timer.join()
            time.sleep(1)
        return time.monotonic() - start

    def test_an_interrupt_ends_waiting(self):
        with outlast.Pool(self.path, lanes=1) as pool:
            one, begun, end = pool.map("one"), threading.Event(), threading.Event()

            def hold():
                with pool.transaction():
                    one["held"] = 1
                    begun.set()
                    end.wait(60)

            thread = threading.Thread(target=hold)
            thread.start()
            begun.wait()
            try:
                self.assertLess(self.interrupted(lambda: one.update(a=1)), 4)
                self.assertLess(self.interrupted(lambda: outlast.Pool(self.path, wait=20)), 15)
            finally:
                end.set()
                thread.join()
            self.assertEqual(dict(one), {"held": 1})

    def test_a_long_wait_is_one(self):
        outlast.Pool(self.path, wait=1e18).close()


class Threads(HostileCase):
    def test_threads_that_are_left_over_end_with_the_program(self):
        program = """
import outlast, sys, threading, time
pool = outlast.Pool(sys.argv[1])
one, reader = pool.map("one"), outlast.read(sys.argv[1])
one["a"] = [1] * 50
def spin(read):
    for _ in range(300):
        pass
    return read["a"]
def write():
    while True:
        pool.run(spin, one)
        one["a"] = {"b": [1, 2.5, None]}
def look():
    while True:
        reader.run(lambda: spin(reader.map("one")))
for work in (write, look, look):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
        for _ in range(5):
            self.run_program(program)

    def test_the_program_ends_with_a_transaction_open(self):
        program = """
import outlast, sys, threading
pool = outlast.Pool(sys.argv[1])
one = pool.map("one")
begun = pool.transaction()
begun.__enter__()
one["a"] = 1
reader = outlast.read(sys.argv[1])
snapshot = reader.snapshot()
snapshot.__enter__()
"""
        self.run_program(program)
        with outlast.Pool(self.path) as pool:
            self.assertEqual(dict(pool.map("one")), {})

    def test_an_interpreter_in_the_interpreter(self):
        program = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    sys.exit()
own = interpreters.create()
work = "import outlast; p = outlast.Pool(%r + 'sub'); p.map('m')['a'] = [1]; assert p['m']['a'] == [1]" % sys.argv[1]
try:
    interpreters.run_string(own, "import sys; sys.path[:] = %r; %s" % (sys.path, work))
except interpreters.RunFailedError as error:
    assert "ImportError" in str(error) or "RuntimeError" in str(error), error
interpreters.destroy(own)
import outlast
pool = outlast.Pool(sys.argv[1])
pool.map("m")["a"] = [1]
assert pool["m"]["a"] == [1]
"""
        self.run_program(program)

    def test_threads_share_a_reader(self):
        with outlast.Pool(self.path) as pool:
            pool.map("one").update((number, number) for number in range(500))
            reader, wrong = outlast.read(self.path), []

            def look():
                for _ in range(20):
                    with reader.snapshot():
                        if len(reader.map("one")) != 500:
                            wrong.append("a part")

            threads = [threading.Thread(target=look) for _ in range(6)]
            with reader.snapshot():
                [thread.start() for thread in threads]
                [thread.join() for thread in threads]
            self.assertEqual(wrong, [])
            reader.close()
            with self.assertRaises(outlast.ClosedError):
                list(reader)


@unittest.skipUnless(hasattr(os, "fork"), "no fork")
class Forks(HostileCase):
    def test_a_child_harms_no_transaction(self):
        with outlast.Pool(self.path) as pool:
            one, begun = pool.map("one"), pool.transaction()
            begun.__enter__()
            one["a"] = 1

            def child():
                for work in (lambda: one.update(b=1), lambda: begun.__exit__(None, None, None), pool.close):
                    with self.assertRaisesRegex(outlast.Error, "forked"):
                        work()

            self.assertTrue(self.in_child(child))
            child = os.fork()
            if child == 0:
                try:
                    one["b"] = 1
                except outlast.Error:
                    pass
                del pool, one, begun
                gc.collect()
                os._exit(0)
            os.waitpid(child, 0)
            begun.__exit__(None, None, None)
            self.assertEqual(dict(one), {"a": 1})

    def test_a_child_waits_for_no_thread_of_its_parent(self):
        with outlast.Pool(self.path) as pool:
            count, stop = pool.counter("count"), threading.Event()

            def write():
                while not stop.is_set():
                    count.add()

            def child():
                works = (count.add, pool.stats, pool.close, lambda: pool.map("other"), lambda: repr(count))
                for work in works:
                    try:
                        work()
                    except (outlast.Error, BufferError):
                        pass
                assert outlast.read(self.path).counter("count") > 0

            count.add()
            threads = [threading.Thread(target=write) for _ in range(3)]
            [thread.start() for thread in threads]
            self.assertEqual([self.in_child(child) for _ in range(10)], [True] * 10)
            stop.set()
            [thread.join() for thread in threads]


class Values(HostileCase):
    def test_values_come_back_as_they_were_or_are_refused(self):
        with outlast.Pool(self.path) as pool:
            one, own = pool.map("one"), []
            own.append(own)
            for wrong in ({1: 2}, [b"x"], {1}, range(3), 1j, object(), {"a": [object()]}):
                with self.assertRaises(TypeError, msg=repr(wrong)):
                    one["a"] = wrong
            for wrong in (own, 10**5000):
                with self.assertRaises(ValueError):
                    one["a"] = wrong
            with self.assertRaises(UnicodeEncodeError):
                one["a"] = "\ud800"
            with self.assertRaises(outlast.Error):
                one["k" * 100_000] = 1
            self.assertEqual(len(one), 0)

            class Shown(int):
                def __str__(self):
                    return "5"

            one["a"] = Shown(2**70)
            self.assertEqual(one["a"], 2**70)
            for value in ([1, [2.5, None, True, "ä\ud800"], {}], {"a": {"b": []}}, bytearray(b"ab"), memoryview(b"ab")):
                one["a"] = value
                self.assertEqual(one["a"], bytes(value) if isinstance(value, (bytearray, memoryview)) else value)
            if numpy is not None:
                one[numpy.int64(7)] = numpy.float32(2.5)
                one["true"] = numpy.bool_(True)
                self.assertEqual((one[7], one["true"]), (2.5, True))
                with self.assertRaisesRegex(TypeError, "pool.array"):
                    one["a"] = numpy.zeros(3, "u1")

    def test_counters_are_numbers(self):
        with outlast.Pool(self.path) as pool:
            count = pool.counter("count")
            self.assertFalse(count)
            count += 2
            pool["count"] += 3
            count -= 1
            self.assertTrue(count == 4 and count != 5 and count < 4.5 and count >= pool.counter("count"))
            self.assertFalse(count == "4" or count is None)
            if numpy is not None:
                self.assertTrue(count == numpy.int64(4) and numpy.int64(3) < count)
            self.assertEqual([10, 11, 12, 13, 14][count], 14)
            with self.assertRaises(TypeError):
                pool["other"] = 1
        self.assertEqual(repr(count), "<counter 'count'>")

    def test_a_pool_without_structures_is_true(self):
        with outlast.Pool(self.path) as pool:
            self.assertTrue(pool and outlast.read(self.path))
            self.assertEqual(len(pool), 0)

    def test_nothing_of_a_pool_is_pickled(self):
        import copy
        import pickle

        with outlast.Pool(self.path) as pool:
            for own in (pool, pool.map("m"), pool.list("l"), pool.queue("q"), outlast.read(self.path)):
                with self.assertRaisesRegex(TypeError, "stays in its process"):
                    pickle.dumps(own)
                with self.assertRaises(TypeError):
                    copy.copy(own)


if __name__ == "__main__":
    unittest.main()
