"""Pools from Python: structures, transactions, threads, processes, arrays."""

import gc
import json
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


def in_child(program, *arguments):
    """A process that runs a program."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
    )


class PoolCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "pool")

    def tearDown(self):
        self.folder.cleanup()


class Structures(PoolCase):
    def test_a_map_is_a_mapping_in_the_order_of_keys(self):
        values = [None, True, False, 0, -5, 2**63, -(10**40), 1.5, float("-inf"), "", "ä", b"", b"\0\xff"]
        values += [[1, "a", None], {"k": [1.5, {}]}, "x" * 100_000]
        with outlast.Pool(self.path) as pool:
            one = pool.map("one")
            for number, value in enumerate(values):
                one[number] = value
            one["text"], one[b"bytes"], one[-1] = "t", "b", "m"
            self.assertEqual(list(one), [-1, *range(len(values)), "text", b"bytes"])
            with self.assertRaises(KeyError):
                one["missing"]
            self.assertEqual((one.get("missing"), one.get("missing", 7)), (None, 7))
            self.assertEqual(one.setdefault("new", 3), 3)
            self.assertEqual(one.setdefault("new", 4), 3)
            self.assertEqual(one.pop("new"), 3)
            self.assertEqual(one.pop("new", "gone"), "gone")
            one["none"] = None
            self.assertIsNone(one.pop("none", 5))
            del one["text"]
            with self.assertRaises(KeyError):
                del one["text"]
            for wrong in (1.5, None, (1,)):
                with self.assertRaises(TypeError):
                    one[wrong] = 1
            with self.assertRaises(TypeError):
                one[1] = object()
            with self.assertRaises(ValueError):
                one[2**64] = 1
        with outlast.Pool(self.path) as pool:
            one = pool["one"]
            self.assertIsInstance(one, outlast.Map)
            for number, value in enumerate(values):
                self.assertEqual(one[number], value)
                self.assertIs(type(one[number]), type(value))
            one.clear()
            self.assertEqual(len(one), 0)

    def test_a_map_of_many_pairs_is_read_part_by_part(self):
        with outlast.Pool(self.path) as pool:
            many = pool.map("many")
            many.update((number, number * number) for number in range(3000))
            self.assertEqual(len(many), 3000)
            self.assertEqual(list(many.items()), [(n, n * n) for n in range(3000)])
            self.assertEqual([key for key, _ in many.range(500, 1200)], list(range(500, 1200)))
            self.assertEqual(dict(many), {n: n * n for n in range(3000)})
            self.assertIn(7, many.keys())

    def test_a_list_grows_and_is_taken_from_both_ends(self):
        with outlast.Pool(self.path) as pool:
            items = pool.list("items")
            items.extend(range(600))
            items.append("last")
            self.assertEqual(items.pop(), "last")
            self.assertEqual([items.popleft() for _ in range(3)], [0, 1, 2])
            items[0], items[-1] = "first", "end"
            self.assertEqual((items[0], items[1], items[-1], len(items)), ("first", 4, "end", 597))
            self.assertEqual(items[1:4], [4, 5, 6])
            self.assertEqual(items[::200], ["first", 203, 403])
            self.assertEqual(list(items), ["first", *range(4, 599), "end"])
            for index in (597, -598):
                with self.assertRaises(IndexError):
                    items[index]
                with self.assertRaises(IndexError):
                    items[index] = 1
            items.clear()
            with self.assertRaises(IndexError):
                items.pop()

    def test_names_lead_to_structures_and_go_with_their_blocks(self):
        with outlast.Pool(self.path) as pool:
            pool.counter("first")
            used = pool.stats()["used_bytes"]
            for _ in range(3):
                pool.map("map").update((n, "x" * 500) for n in range(200))
                pool.list("list").extend(range(300))
                self.assertEqual(sorted(pool), ["first", "list", "map"])
                with self.assertRaises(TypeError):
                    pool.list("map")
                del pool["map"], pool["list"]
                self.assertNotIn("map", pool)
                with self.assertRaises(KeyError):
                    pool["map"]
            pool.run(lambda: None)
            self.assertEqual(pool.stats()["used_bytes"], used)


class Transactions(PoolCase):
    def test_a_block_is_all_or_nothing(self):
        with outlast.Pool(self.path) as pool:
            one, count = pool.map("one"), pool.counter("count")
            with pool.transaction():
                one["a"] = 1
                self.assertEqual(count.add(2), 2)
                self.assertEqual(one["a"], 1)
            with self.assertRaises(ZeroDivisionError):
                with pool.transaction():
                    one["a"] = 2
                    count.add()
                    1 / 0
            self.assertEqual((one["a"], int(count)), (1, 2))
            with pool.transaction():
                with self.assertRaises(outlast.Error):
                    with pool.transaction():
                        pass
                one["b"] = 3
            self.assertEqual(one["b"], 3)
            count.set(-(2**63))
            self.assertEqual(count.value, -(2**63))

    def test_run_repeats_after_conflicts(self):
        with outlast.Pool(self.path, scheme="swift") as pool:
            count, log = pool.counter("count"), pool.list("log")

            def one(name):
                log.append(name)
                return count.add()

            def many(name):
                for _ in range(200):
                    pool.run(one, name)

            threads = [threading.Thread(target=many, args=(name,)) for name in range(6)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            self.assertEqual((count.value, len(log)), (1200, 1200))
            self.assertEqual(sorted(log), sorted(list(range(6)) * 200))

    def test_more_threads_than_lanes(self):
        with outlast.Pool(self.path, lanes=2) as pool:
            count = pool.counter("count")
            threads = [threading.Thread(target=lambda: [count.add() for _ in range(50)]) for _ in range(12)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            self.assertEqual(count.value, 600)

    def test_a_closed_pool_says_so(self):
        pool = outlast.Pool(self.path)
        one = pool.map("one")
        pool.close()
        pool.close()
        self.assertTrue(pool.closed)
        for work in (lambda: one[1], lambda: one.update({1: 2}), lambda: pool.map("one"), pool.stats):
            with self.assertRaises(outlast.ClosedError):
                work()

    def test_errors_have_the_runtimes_words(self):
        with self.assertRaisesRegex(ValueError, "unknown|no scheme|swift"):
            outlast.Pool(self.path, scheme="swiftly")
        with open(self.path, "wb") as file:
            file.write(b"x" * (1 << 20))
        with self.assertRaisesRegex(outlast.Error, "not an Outlast pool"):
            outlast.Pool(self.path)
        with self.assertRaises(outlast.Error):
            outlast.Pool(self.path + "-missing", create=False)
        small = self.path + "-small"
        with outlast.Pool(small, size=4 << 20, grow_to=4 << 20) as pool:
            one = pool.map("one")
            with self.assertRaises(outlast.OutOfSpace):
                with pool.transaction():
                    for number in range(80):
                        one[number] = b"x" * 100_000
            self.assertEqual(len(one), 0)


class Processes(PoolCase):
    def test_what_was_acknowledged_survives_a_kill(self):
        program = """
import outlast, sys
pool = outlast.Pool(sys.argv[1])
numbers, count = pool.map("numbers"), pool.counter("count")
while True:
    with pool.transaction():
        number = count.add()
        numbers[number] = "n" * (number % 3000)
    print(number, flush=True)
"""
        last = 0
        for _ in range(3):
            child = in_child(program, self.path)
            for line in child.stdout:
                last = int(line)
                if last % 150 == 149:
                    break
            child.send_signal(signal.SIGKILL)
            last = max([last, *(int(line) for line in child.stdout.read().split("\n")[:-1])])
            child.wait()
            child.stdout.close()
            with outlast.Pool(self.path) as pool:
                count = pool.counter("count").value
                self.assertIn(count, (last, last + 1))
                numbers = dict(pool.map("numbers"))
                self.assertEqual(numbers, {n: "n" * (n % 3000) for n in range(1, count + 1)})
                last = count

    def test_a_reader_beside_a_writer_sees_one_moment(self):
        program = """
import outlast, sys, json
reader = outlast.read(sys.argv[1])
def look():
    pairs = reader["pairs"]
    return [pairs["left"], sum(1 for _ in pairs.items()), pairs["right"]]
for _ in range(300):
    left, _, right = reader.run(look)
    assert left == right, (left, right)
print(json.dumps([left, sorted(reader), reader.stats()["lanes"] > 0]))
"""
        with outlast.Pool(self.path, scheme="swift") as pool:
            pairs = pool.map("pairs")
            pairs.update(left=0, right=0)
            child = in_child(program, self.path)
            number = 0
            while child.poll() is None:
                number += 1
                with pool.transaction():
                    pairs["left"], pairs["right"] = number, number
            said = child.stdout.read()
            child.stdout.close()
            self.assertEqual(child.returncode, 0)
            seen, names, _ = json.loads(said)
            self.assertEqual(names, ["pairs"])
            self.assertGreater(seen, 0)
        reader = outlast.read(self.path)
        self.assertEqual(reader["pairs"]["left"], number)
        with self.assertRaises(KeyError):
            reader["other"]
        with self.assertRaises(outlast.Error):
            reader["pairs"]["left"] = 1
        self.assertEqual(reader.run(reader.stats)["pool_bytes"], reader.stats()["pool_bytes"])

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_forked_child_is_refused_and_harms_nothing(self):
        with outlast.Pool(self.path) as pool:
            one = pool.map("one")
            one["parent"] = 1
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    one["child"] = 1
                except outlast.Error:
                    code = 0
                finally:
                    os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            one["after"] = 2
            self.assertEqual(dict(one), {"parent": 1, "after": 2})

    def test_a_queue_goes_from_process_to_process(self):
        with outlast.Pool(self.path) as pool:
            queue = pool.queue("jobs")
            for number in range(5):
                queue.put({"job": number})
        with outlast.Pool(self.path) as pool:
            queue = pool.queue("jobs")
            self.assertEqual([queue.get()["job"] for _ in range(5)], list(range(5)))
            start = time.monotonic()
            with self.assertRaises(queue.Empty):
                queue.get(timeout=0.05)
            self.assertGreater(time.monotonic() - start, 0.04)
            late = threading.Timer(0.05, lambda: queue.put("late"))
            late.start()
            self.assertEqual(queue.get(timeout=20), "late")
            late.join()

    def test_a_checkpoint_is_written(self):
        with outlast.Pool(self.path) as pool:
            pool.map("one")["a"] = 1
            written = pool.checkpoint()
            self.assertTrue(os.path.exists(written))
            self.assertEqual(str(pool.checkpoint(self.path + "-other")), self.path + "-other")

    def test_a_pool_of_a_relative_path_stays_where_it_is(self):
        before = os.getcwd()
        folder, name = os.path.split(self.path)
        other = tempfile.TemporaryDirectory()
        self.addCleanup(other.cleanup)
        with outlast.Pool(os.path.join(other.name, name)) as pool:
            pool.map("one")["a"] = "of another pool"
        try:
            os.chdir(folder)
            with outlast.Pool(name) as pool, outlast.read(name) as reader:
                pool.map("one")["a"] = 1
                os.chdir(other.name)
                self.assertEqual(str(pool.checkpoint()), self.path + ".checkpoint")
                time.sleep(0.01)
                seen = []
                with reader.snapshot():
                    seen.append(dict(reader.map("one")))
                    thread = threading.Thread(target=lambda: seen.append(dict(reader.map("one"))))
                    thread.start()
                    thread.join()
                self.assertEqual(seen, [{"a": 1}] * 2)
        finally:
            os.chdir(before)
        for opened in (outlast.Pool, outlast.read):
            with self.assertRaises(outlast.Error):
                opened("")


@unittest.skipIf(numpy is None, "NumPy is missing: pip install numpy")
class Arrays(PoolCase):
    def test_numpy_sees_the_memory_itself(self):
        with outlast.Pool(self.path) as pool:
            array = pool.array("weights", (100, 8), "float32")
            shown, again = numpy.asarray(array), numpy.asarray(pool["weights"])
            address = shown.__array_interface__["data"][0]
            self.assertEqual(address, again.__array_interface__["data"][0])
            self.assertFalse(shown.flags.writeable)
            self.assertEqual((shown.shape, shown.dtype), ((100, 8), numpy.dtype("float32")))
            array[3] = range(8)
            self.assertEqual(list(shown[3]), list(range(8)))
            with self.assertRaises(BufferError):
                pool.close()
            del shown, again
            gc.collect()

    def test_parts_are_stored_in_transactions(self):
        with outlast.Pool(self.path) as pool:
            array, model = pool.array("a", (20, 30), "int64"), numpy.zeros((20, 30), "int64")
            random = numpy.random.default_rng(1)
            indexes = [
                (slice(2, 5),), (7,), (-1,), (slice(None, None, 3), slice(4, 9)), (slice(0, 0),), (Ellipsis,),
                (slice(None), 3), (5, 6), (numpy.array([1, 4, 5]),), (model == 0,),
            ]
            for index in indexes:
                index = index[0] if len(index) == 1 else index
                values = random.integers(0, 1000, model[index].shape)
                model[index] = values
                array[index] = values
                self.assertTrue((numpy.asarray(array) == model).all())
                self.assertTrue((array[index] == model[index]).all())
            with self.assertRaises(ZeroDivisionError):
                with pool.transaction():
                    array[0] = 7
                    self.assertEqual(array[0, 0], 7)
                    1 / 0
            self.assertTrue((array[...] == model).all())
            with self.assertRaises(TypeError):
                pool.array("objects", 3, object)
            with self.assertRaises(TypeError):
                pool.array("a", (20, 31), "int64")
            empty, one = pool.array("empty", 0), pool.array("scalar", ())
            self.assertEqual(numpy.asarray(empty).shape, (0,))
            one[()] = 5
            self.assertEqual(float(one[()]), 5.0)
        copied = outlast.read(self.path)["a"][...]
        self.assertTrue((copied == model).all())


if __name__ == "__main__":
    unittest.main()
