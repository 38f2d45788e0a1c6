"""Transactions of one's own from Python. The command runs them: OUTLAST_COMMAND."""

import os
import pathlib
import pickle
import random
import tempfile
import unittest

from outlast.work import Work

try:
    import numpy
except ImportError:
    numpy = None
try:
    from outlast import lab
except ImportError:
    lab = None

COMMAND = os.environ.get("OUTLAST_COMMAND")


def transfer():
    work = Work(memory=8192, lanes=2, name="transfer")
    work.init(0x40, 100, 100)
    for amount in (10, 20):
        with work.transaction(lane=0):
            work.load(0x40, 2)
            work.think(20)
            work.store(0x40, 100 - amount, 100 + amount)
        with work.transaction(lane=1):
            work.store(0x1000, amount, -1)
    return work


class Lines(unittest.TestCase):
    def test_the_text_is_that_of_the_format(self):
        lines = transfer().text().splitlines()
        self.assertEqual(lines[:4], ["outlast-work 1", "memory 8192", "lanes 2", "init 0x40 100 100"])
        self.assertIn("  load 0x40 2", lines)
        self.assertIn("  store 0x40 90 110", lines)
        self.assertIn("  store 0x1000 10 18446744073709551615", lines)
        memory = transfer().memory()
        self.assertEqual((memory[8], memory[512], memory[513], memory[0]), (80, 20, 2**64 - 1, 0))

    def test_what_is_written_is_read_back(self):
        draw = random.Random(5)
        with tempfile.TemporaryDirectory() as folder:
            for number in range(40):
                work = Work(memory=64 * draw.randint(2, 40), lanes=draw.randint(1, 4))
                place = lambda: 8 * draw.randrange(work.memory_bytes // 8 - 3)
                for _ in range(draw.randint(0, 9)):
                    work.init(place(), [draw.getrandbits(64) for _ in range(draw.randint(1, 3))])
                for lane in [*range(work.lanes), *(draw.randrange(work.lanes) for _ in range(6))]:
                    with work.transaction(lane):
                        for _ in range(draw.randint(0, 4)):
                            work.load(place(), draw.randint(1, 3))
                            work.store(place(), *(draw.getrandbits(64) for _ in range(draw.randint(1, 3))))
                            work.think(draw.randrange(1000))
                path = pathlib.Path(folder, f"{number}.work")
                work.save(path)
                again = Work.read(path)
                self.assertEqual(again, work)
                self.assertEqual(again.memory(), work.memory())
                self.assertEqual(repr(again).split("-", 1)[1], repr(work).split("-", 1)[1])
                self.assertEqual(pickle.loads(pickle.dumps(work)), work)

    def test_its_name_follows_its_content(self):
        work, names = Work(memory=64), set()
        for _ in range(2):
            names.add(repr(work))
            work.init(0, len(names))
            names.add(repr(work))
            with work.transaction():
                names.add(repr(work))
            names.add(repr(work))
        self.assertEqual(len(names), 5, "all but the one within a transaction, and the first of the second round")
        self.assertEqual(repr(Work.parse(work.text())), repr(work))

    def test_mistakes_are_told_where_they_are_made(self):
        work = Work(memory=64)
        with self.assertRaisesRegex(ValueError, "no transaction is open"):
            work.store(0, 1)
        with self.assertRaisesRegex(ValueError, "there is no lane 1"):
            with work.transaction(lane=1):
                pass
        with work.transaction():
            for wrong, why in (
                (lambda: work.store(4, 1), "address 0x4: expected a multiple of 8"),
                (lambda: work.store(56, 1, 2), "2 words at 0x38 end outside of the memory of 64 bytes"),
                (lambda: work.store(8), "0 words at once"),
                (lambda: work.store(8, 2**64), "64 bits are possible"),
                (lambda: os.fspath(work), "a transaction is open"),
            ):
                with self.assertRaisesRegex(ValueError, why):
                    wrong()
            with self.assertRaises(TypeError):
                work.store(8, 1.5)
            for value in ("5", b"5", {5: 6}):
                with self.assertRaisesRegex(TypeError, "values are integers"):
                    work.store(8, value)
        with self.assertRaisesRegex(ValueError, "end outside of the memory"):
            work.init(56, 1, 2)
        self.assertEqual(work.memory()[7], 0, "all of them or none")
        for wrong in ((0,), (100,), (1 << 40,), (64, 0), (64, 9)):
            with self.assertRaisesRegex(ValueError, "expected .* to "):
                Work(*wrong)
        for wrong in ("+5", "1_000", "0x", "-0x1", "1.5", "\u0663"):
            with self.assertRaisesRegex(ValueError, "^4: expected a number, found"):
                Work.parse(f"outlast-work 1\nmemory 64\ntx\nstore 0 {wrong}\nend\n")
        self.assertEqual(len(work), 1)
        with self.assertRaises(KeyError):
            with work.transaction():
                raise KeyError("left out")
        self.assertEqual(len(work), 1)
        with self.assertRaisesRegex(ValueError, "^3: no line of the format: 'stor 8 1'"):
            Work.parse("outlast-work 1\nmemory 64\nstor 8 1\n")
        with self.assertRaisesRegex(ValueError, "expected `end` of the last transaction"):
            Work.parse("outlast-work 1\nmemory 64\ntx\n")

    @unittest.skipIf(numpy is None, "NumPy is missing: pip install numpy")
    def test_arrays_are_values(self):
        work = Work(memory=1024)
        with work.transaction():
            work.store(0, numpy.arange(4, dtype=numpy.uint64))
            work.store(64, numpy.int64(-2), numpy.array([7, 8]))
        memory = numpy.frombuffer(work.memory(), dtype=numpy.uint64)
        self.assertEqual(memory[:4].tolist(), [0, 1, 2, 3])
        self.assertEqual(memory[8:11].tolist(), [2**64 - 2, 7, 8])


@unittest.skipIf(lab is None, "pandas is missing: pip install pandas")
@unittest.skipUnless(COMMAND, "OUTLAST_COMMAND names no command")
class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = folder.name
        restore = lambda: os.environ.__setitem__("XDG_CACHE_HOME", before)
        self.addCleanup(restore if before else lambda: os.environ.pop("XDG_CACHE_HOME", None))

    def test_it_runs_where_a_workload_does(self):
        work = transfer()
        runs = lab.sim(work, scheme=["swift", "fwb"], config="tiny")
        self.assertEqual(set(runs["scheme"]), {"swift", "fwb"})
        name, = set(runs["workload"])
        self.assertRegex(name, "^transfer-[0-9a-f]{12}$")
        self.assertTrue(os.fspath(work).endswith(f"/{name}.work"))
        self.assertTrue((runs["transactions"] == 4).all())
        found = lab.crash(work, scheme="swift", points=40)
        self.assertEqual(found.attrs["verdict"], "good")
        measured = lab.bench(work, scheme=["swift"], rounds=2, turn_ms=1)
        self.assertIn("throughput", set(measured["metric"]))
        both = lab.bench([work, "words"], scheme=["swift"], rounds=2, turn_ms=1, threads=2)
        self.assertEqual(len(set(both["workload"])), 2)

    def test_a_planted_bug_is_found_with_it(self):
        found = lab.crash(transfer(), scheme="undo", points=200, plant="skip-flush:UndoData")
        self.assertEqual(found.attrs["verdict"], "bad")
        control = lab.crash(transfer(), scheme="undo", points=200, plant="flush-twice")
        self.assertEqual(control.attrs["verdict"], "good")

    def test_the_command_reads_what_python_writes_and_says_what_is_wrong(self):
        with self.assertRaisesRegex(ValueError, "lane 1 has no transaction"):
            work = Work(memory=64, lanes=2)
            with work.transaction():
                work.store(0, 1)
            lab.sim(work, scheme="swift")


if __name__ == "__main__":
    unittest.main()
