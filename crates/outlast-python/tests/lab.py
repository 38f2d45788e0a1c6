"""The laboratory as functions, and sweeps. Needs pandas, and the command: OUTLAST_COMMAND."""

import os
import subprocess
import tempfile
import unittest

try:
    import pandas
except ImportError:
    pandas = None

if pandas is not None:
    from outlast import lab, sweep

SMALL = {"transactions": 300, "keys": 1000}


def has_parquet():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


@unittest.skipIf(pandas is None, "pandas is missing: pip install pandas")
@unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
class Laboratory(unittest.TestCase):
    def test_a_run_is_a_frame_with_units(self):
        runs = lab.sim("hash", scheme=["swift", "undo"], **SMALL)
        self.assertEqual(list(runs["scheme"].unique()), ["swift", "undo"])
        self.assertEqual(runs.attrs["units"]["throughput"], "tx/s")
        self.assertEqual(runs.attrs["seed"], 1)
        wide = runs.wide("throughput")
        self.assertEqual((list(wide.index), list(wide.columns)), (["hash"], ["swift", "undo"]))
        self.assertGreater(wide.loc["hash", "swift"], 0)
        self.assertTrue(runs.equals(lab.sim("hash", scheme=["swift", "undo"], **SMALL)))
        with self.assertRaisesRegex(KeyError, "no metric 'speed'"):
            runs.wide("speed")

    def test_options_are_those_of_the_command(self):
        fast = lab.sim("hash", scheme="swift", set={"core.clock": "8000 MHz"}, **SMALL)
        slow = lab.sim("hash", scheme="swift", set={"core.clock": "1000 MHz"}, **SMALL)
        self.assertGreater(fast.wide().iloc[0, 0], slow.wide().iloc[0, 0])
        for wrong in ({"scheme": "swiftly"}, {"set": {"core.cluck": 1}}, {"no_such_option": 3}):
            with self.assertRaises(ValueError):
                lab.sim("hash", **{**SMALL, **wrong})

    def test_a_crash_campaign_says_what_it_found(self):
        good = lab.crash("words", scheme="swift", transactions=40)
        self.assertEqual(good.attrs["verdict"], "good")
        self.assertIn("crash_points", set(good["metric"]))

    def test_a_sweep_is_the_same_wherever_it_ran(self):
        grid = {"work": ["hash", "btree"], "scheme": "swift", "seed": [1, 2], **SMALL}
        told = []
        one = sweep.run(lab.sim, grid, workers=1, progress=lambda *what: told.append(what))
        two = sweep.run(lab.sim, grid, workers=2)
        self.assertTrue(one.equals(two))
        self.assertEqual(list(one["at_work"].unique()), ["hash", "btree"])
        self.assertEqual(told[-1][:2], (4, 4))
        with self.assertRaises(TypeError):
            sweep.run(print, grid)

    def test_a_run_that_dies_costs_its_point_alone(self):
        grid = {"work": "hash", "scheme": "swift", "seed": [1, 2, 3], **SMALL}
        real = os.environ["OUTLAST_COMMAND"]
        with tempfile.TemporaryDirectory() as folder:
            dies, tries = os.path.join(folder, "outlast"), os.path.join(folder, "tries")
            with open(dies, "w") as file:
                file.write(f'#!/bin/sh\ncase "$*" in *"--seed 2 "*) echo >>{tries}; kill -9 $$;; esac\nexec {real} "$@"\n')
            os.chmod(dies, 0o755)
            os.environ["OUTLAST_COMMAND"] = dies
            try:
                frame = sweep.run(lab.sim, grid, workers=1)
            finally:
                os.environ["OUTLAST_COMMAND"] = real
            with open(tries) as file:
                self.assertEqual(len(file.readlines()), 2, "it is tried once more")
        failed = frame[frame["error"].notna()]
        self.assertEqual(list(failed["at_seed"]), [2])
        self.assertEqual(sorted(frame["at_seed"].unique()), [1, 2, 3])

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_a_sweep_that_was_interrupted_goes_on(self):
        grid = {"work": "hash", "scheme": "swift", "seed": [1, 2, 3], **SMALL}
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "sweep.parquet")

            def stop(done, all, seconds):
                raise KeyboardInterrupt

            with self.assertRaises(KeyboardInterrupt):
                sweep.run(lab.sim, grid, workers=1, file=file, progress=stop)
            done = pandas.read_parquet(file)["at_seed"].nunique()
            self.assertIn(done, (1, 2))
            told = []
            whole = sweep.run(lab.sim, grid, file=file, progress=lambda *what: told.append(what))
            self.assertEqual(len(told), 3 - done)
            self.assertEqual(list(whole["at_seed"].unique()), [1, 2, 3])

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_an_array_of_tasks_makes_the_same_frame(self):
        grid = {"work": "hash", "scheme": "swift", "seed": [1, 2], **SMALL}
        with tempfile.TemporaryDirectory() as folder:
            script = sweep.slurm(lab.sim, grid, folder, ["--time=0:10:00"])
            for number in ("0", "1"):
                found, missing = sweep.collect(folder)
                self.assertEqual(len(missing), 2 - int(number))
                subprocess.run(["sh", script], env={**os.environ, "SLURM_ARRAY_TASK_ID": number}, check=True)
            found, missing = sweep.collect(folder)
            self.assertEqual(missing, [])
            whole = sweep.run(lab.sim, grid)
            pandas.testing.assert_frame_equal(found, whole, check_dtype=False)


if __name__ == "__main__":
    unittest.main()
