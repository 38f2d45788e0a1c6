"""The laboratory as functions, and sweeps. Needs pandas, and the command: OUTLAST_COMMAND."""

import importlib.util
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

try:
    import pandas
except ImportError:
    pandas = None

import outlast

if pandas is not None:
    from outlast import lab, sweep

SMALL = {"transactions": 300, "keys": 1000}
PLANTED = {"plant": "flush-wrong-address", "keys": 200, "transactions": 60, "points": 60, "policy": "lru,random"}

#: A log whose records are acknowledged before they are synced: `python -c LOG unsynced DIR`. With `recover` it counts them.
LOG = """
import os, sys
what, path = sys.argv[1], sys.argv[2] + "/log"
if what == "recover":
    print("recovered", open(path).read().count(".") if os.path.exists(path) else 0)
    sys.exit()
file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
if what == "synced":
    os.fsync(os.open(sys.argv[2], os.O_RDONLY))
for number in range(1, 5):
    print("I", number, flush=True)
    os.write(file, b"x" * 20 + b".")
    if what == "synced":
        os.fsync(file)
    print("A", number, flush=True)
"""


def has(module):
    return importlib.util.find_spec(module) is not None


def has_parquet():
    return has("pyarrow")


def can_trace():
    with tempfile.TemporaryDirectory() as folder:
        line = [os.environ["OUTLAST_COMMAND"], "check", "--dir", folder, "--then", "true {}", "--", "true"]
        return "refuses to trace" not in subprocess.run(line, capture_output=True, text=True).stderr


class Lazily(unittest.TestCase):
    def test_pandas_is_imported_with_the_laboratory_alone(self):
        code = "import sys, outlast; assert 'pandas' not in sys.modules; assert 'sim' in dir(outlast)"
        subprocess.run([sys.executable, "-c", code], check=True)
        with self.assertRaisesRegex(AttributeError, "no attribute 'simm'"):
            outlast.simm


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

    def test_wrong_arguments_are_told_in_a_line(self):
        runs = lab.sim("hash", scheme="swift", **SMALL)
        grid = {"work": "hash"}
        for wrong, kind, said in (
            (lambda: lab.sim("hash", scheme={"swift", "undo"}), TypeError, "^scheme=.*expected text, a number, a truth value, or a list"),
            (lambda: lab.sim("hash", transactions=object()), TypeError, "^transactions=.*expected text"),
            (lambda: lab.check("./engine data", "data", "true"), TypeError, r"a list of words, such as \['./engine', 'data'\]"),
            (lambda: runs.plot("speed"), KeyError, "no metric 'speed': there are throughput"),
            (lambda: sweep.run(lab.sim), TypeError, "a sweep needs a grid"),
            (lambda: sweep.run(lab.sim, [("work", "hash")]), TypeError, "a grid has values by their names"),
            (lambda: sweep.run(lab.image, grid), TypeError, r"that returns results \(sim, compare"),
            (lambda: sweep.run(lab.sim, grid, client="tcp://host:8786"), TypeError, r"dask.distributed.Client\('tcp://host:8786'\)"),
            (lambda: sweep.crash("hash", parts="4"), TypeError, "cannot be interpreted as an integer"),
        ):
            with self.assertRaisesRegex(kind, said):
                wrong()
        values = lab.sim("hash", scheme="swift", set={"core.rob": range(64, 193, 128)}, **SMALL)["core.rob"]
        self.assertEqual(sorted(values.unique()), [64, 192])

    def test_the_names_of_the_package_are_those_of_the_laboratory(self):
        for name in ("sim", "compare", "crash", "check", "reproduce", "bench", "image", "explain", "Machine"):
            self.assertIs(getattr(outlast, name), getattr(lab, name), name)
        lab.image  # The module of its class has another name.
        self.assertIs(outlast.image, lab.image)
        swept = outlast.sweep({"work": "hash", "scheme": "swift", "seed": [1, 2], **SMALL})
        self.assertEqual(list(swept["at_seed"].unique()), [1, 2])
        self.assertEqual(swept.units["throughput"], "tx/s")

    def test_units_stay_with_slices_and_joined_frames(self):
        runs = lab.sim("hash", scheme=["swift", "undo"], **SMALL)
        other = lab.sim("btree", scheme="swift", **SMALL)
        for part in (runs[runs["metric"] == "throughput"], runs.head(3), runs.sort_values("value"), pandas.concat([runs, other])):
            self.assertIsInstance(part, lab.Results)
            self.assertEqual(part.units["throughput"], "tx/s")
        joined = pandas.concat([runs, other])
        self.assertEqual((joined.attrs["seed"], "command" in joined.attrs), (1, False))
        self.assertEqual(joined.wide().shape, (2, 2))
        self.assertEqual(runs.wide().units["swift"], "tx/s")

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_units_stay_in_arrow_and_in_files(self):
        runs = lab.sim("hash", scheme="swift", **SMALL)
        speeds = runs[runs["metric"] == "throughput"]
        table = speeds.to_arrow()
        self.assertEqual(json.loads(table.schema.metadata[b"units"])["throughput"], "tx/s")
        self.assertEqual(table.schema.field("value").metadata[b"unit"], b"tx/s")
        self.assertIsNone(runs.to_arrow().schema.field("value").metadata, "rows of several units")
        wide = runs.wide().to_arrow()
        self.assertEqual(wide.schema.field("swift").metadata[b"unit"], b"tx/s")
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "runs.parquet")
            runs.to_parquet(file)
            for back in (lab.read(file), lab.read(runs.to_arrow())):
                self.assertEqual((back.units, back.attrs["seed"]), (runs.units, 1))
                pandas.testing.assert_frame_equal(pandas.DataFrame(back), pandas.DataFrame(runs))

    @unittest.skipUnless(has("polars") and has_parquet(), "polars is missing: pip install polars pyarrow")
    def test_polars_has_the_same_rows(self):
        runs = lab.sim("hash", scheme="swift", **SMALL)
        frame = runs.polars()
        self.assertEqual((frame.height, frame["value"].to_list()), (len(runs), runs["value"].tolist()))

    def test_machines_are_objects(self):
        machine = lab.Machine.of("archapt")
        self.assertEqual(machine.core.count, 12)
        machine.core.count = 4
        machine["core.clock"] = "3 GHz"
        self.assertEqual((machine.core.count, machine.core.clock), (4, "3000 MHz"))
        for key, value in (("core.cluck", 3), ("core.count", "many")):
            with self.assertRaisesRegex(ValueError, "did you mean 'core.clock'|give a whole number"):
                machine[key] = value
        with self.assertRaisesRegex(AttributeError, "did you mean 'core.clock'"):
            machine.core.cluck
        with self.assertRaisesRegex(ValueError, "did you mean 'hwl'"):
            lab.Machine.of("hvl")
        self.assertEqual(machine.changes, {"core.count": "4", "core.clock": "3 GHz"}, "what was refused is not kept")
        self.assertEqual(pickle.loads(pickle.dumps(machine)), machine)
        again = lab.Machine.toml(machine.to_toml())
        self.assertEqual(dict(again.items()), dict(machine.items()))
        work = {"scheme": "fwb", "transactions": 50, "footprint": "64K"}
        runs = lab.sim("hash", machine=again, **work)
        self.assertEqual((list(runs["machine"].unique()), "/tmp" in runs.attrs["command"]), (["machine.toml"], False))
        same = lab.sim("hash", config=machine, **work)
        of_machine = lambda results: results[results["metric"] != "sim_speed"]["value"].tolist()
        self.assertEqual(of_machine(runs), of_machine(same))
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "mine.toml")
            with open(file, "w") as text:
                text.write(machine.to_toml())
            self.assertEqual(lab.Machine.of(file).core.count, 4)
            grid = {"work": "hash", "machine": [again, machine], **work}
            swept = sweep.run(lab.sim, grid)
            self.assertEqual(swept["value"].tolist(), 2 * of_machine(runs))
            self.assertTrue(swept.equals(sweep.run(lab.sim, grid)))

    def test_several_values_of_a_key_are_a_column(self):
        runs = lab.sim("hash", scheme="swift", set={"core.rob": [64, 224], "tlb.page": "4 KiB"}, **SMALL)
        self.assertEqual(sorted(runs["core.rob"].unique()), [64, 224])
        self.assertEqual(runs.wide(index="core.rob").shape, (2, 1))

    @unittest.skipUnless(has("matplotlib"), "Matplotlib is missing: pip install matplotlib")
    def test_each_kind_of_results_has_its_figure(self):
        from matplotlib import pyplot

        runs = lab.sim("hash", scheme=["swift", "undo"], **SMALL)
        bars = runs.plot()
        self.assertEqual((bars.get_ylabel(), len(bars.patches)), ("throughput (tx/s)", 2))
        self.assertEqual(runs.plot("fences").get_ylabel(), "fences (fences/tx)")
        self.assertEqual(len(runs.wide().plot.bar().patches), 2, "pandas' own are there")
        compared = lab.compare("hash", scheme=["fwb", "undo-clwb"], transactions=100, footprint="64K")
        self.assertFalse(os.path.exists("compare"), "no page is left here")
        axes = compared.plot()
        self.assertEqual([text.get_text() for text in axes.get_yticklabels()][-1], "non-pers")
        crashed = lab.crash("hash", scheme="undo", part="1/1", **PLANTED)
        axes = crashed.plot()
        judged = crashed[crashed["metric"] == "crash_points"]["value"].sum()
        self.assertEqual(sum(bar.get_width() for bar in axes.patches), judged)
        rows = [
            {"kind": "claim", "workload": "all", "scheme": "s", "metric": "p.m", "unit": "%", "value": 9.0, "paper": "p", "claim": "c", "paper_value": 6.0, "verdict": "reached"},
            {"kind": "claim", "workload": "all", "scheme": "s", "metric": "p.n", "unit": "%", "paper": "p", "claim": "d", "paper_value": 6.0, "verdict": "not_testable"},
        ]
        axes = lab.Results.of({"records": rows}).plot()
        self.assertIn([1, 1.5], [list(line.get_xdata()) for line in axes.lines])
        pyplot.close("all")

    def test_a_crash_campaign_says_what_it_found(self):
        good = lab.crash("words", scheme="swift", transactions=40)
        self.assertEqual(good.attrs["verdict"], "good")
        self.assertIn("crash_points", set(good["metric"]))
        self.assertEqual(len(good.failures), 0)
        hardware = lab.crash("hash", scheme="fwb", points=20)
        self.assertEqual(hardware.attrs["verdict"], "good")
        self.assertIn("images_verified", set(hardware["metric"]))
        with self.assertRaisesRegex(ValueError, "models of caches"):
            lab.crash("hash", scheme="swift", machine="hwl")

    @unittest.skipUnless(has("numpy"), "NumPy is missing: pip install numpy")
    def test_a_crash_can_be_looked_at(self):
        found = lab.crash("hash", scheme="undo", part="1/1", **PLANTED)
        self.assertEqual(found.attrs["verdict"], "bad")
        row = found.failures.iloc[1]
        image = lab.image("hash", "undo", point=row["crash_op"], caches=row["caches"], **{**PLANTED, "policy": row["policy"]})
        self.assertEqual((image.wrong, image.point), (row["wrong"], row["crash_op"]))
        self.assertEqual((image.crashed.dtype, image.crashed.shape), ("uint8", image.recovered.shape))
        # The image is the pool before, with the writes of the journal that are in it.
        made = image.before.copy()
        made.resize(image.crashed.shape)
        for at, data in image.journal[image.journal["in_image"]][["address", "data"]].itertuples(index=False):
            made[at : at + len(data) // 2] = bytearray.fromhex(data)
        self.assertTrue((made == image.crashed).all())
        self.assertGreater(len(image.changed("crashed", "recovered")), 0)
        missing = image.line_states().query("not is_newest")
        self.assertTrue((missing["words_missing"] > 0).all())
        operations = image.operations
        self.assertEqual(set(operations["lane"]), {0, 1})
        self.assertEqual((operations["kind"] == "ack").sum(), len(image.transactions))
        self.assertEqual(operations["before_crash"].sum(), int(row["crash_op"].split("+")[0]))
        self.assertIn("<iframe srcdoc", image._repr_html_())
        with self.assertRaisesRegex(ValueError, "--crash-op OPERATIONS names one"):
            lab.image("hash", "undo", keys=200, transactions=40, points=40)
        with self.assertRaisesRegex(ValueError, "the run has .* operations"):
            lab.image("hash", "undo", point=10**9, keys=200, transactions=40)
        self.assertIn("flush-wrong-address", lab.explain(plant="flush-wrong-address", scheme="undo").html)

    @unittest.skipUnless(has("numpy"), "NumPy is missing: pip install numpy")
    def test_a_crash_of_a_scheme_of_the_machine_can_be_looked_at(self):
        found = lab.crash("hash", scheme="fwb", points="all", plant="HWL-1")
        row = found.failures.iloc[0]
        image = lab.image("hash", "fwb", point=row["crash_entry"], plant="HWL-1")
        first = lab.image("hash", "fwb", plant="HWL-1")
        self.assertEqual((image.wrong, image.point), (row["wrong"], row["crash_entry"]))
        self.assertEqual((first.wrong, first.replay), (image.wrong, row["replay"]))
        pair = (row["crash_entry"], row["resume_entry"])
        self.assertEqual(lab.image("hash", "fwb", point=pair, plant="HWL-1").replay, image.replay)
        # Memory before, with the writes of the journal that are in the image.
        made = image.before.copy()
        in_image = image.journal[image.journal["in_image"]]
        self.assertEqual(len(in_image), row["crash_entry"])
        for at, data in in_image[["address", "data"]].itertuples(index=False):
            made[at : at + len(data) // 2] = bytearray.fromhex(data)
        self.assertTrue((made == image.crashed).all())
        self.assertEqual(image.transactions["acked"].notna().sum(), len(image.transactions))
        self.assertTrue(image.transactions["acked_before_crash"].any())
        self.assertTrue((image.line_states().query("not is_newest")["words_missing"] > 0).all())
        sound = lab.image("hash", "redu", point=(40, 3))
        self.assertEqual((sound.wrong, sound.point), (None, (40, 3)))
        self.assertIn("transactions of data 0", sound.attrs["kept"])
        self.assertEqual(len(sound.memory) % 64, 0)
        for refused, options in (("--crash-entry ENTRY names one", {"points": 20}), ("entries", {"point": 10**9})):
            with self.assertRaisesRegex(ValueError, refused):
                lab.image("hash", "fwb", **options)
        with self.assertRaisesRegex(ValueError, "those of the machine crash on a machine"):
            lab.image("hash", "fwb", policy="lru")

    def test_parts_of_a_campaign_are_the_whole(self):
        whole = lab.crash("hash", scheme="undo", part="1/1", **PLANTED)
        for parts in (1, 3):
            told = []
            found = sweep.crash("hash", "undo", parts=parts, progress=lambda *news: told.append(news), **PLANTED)
            pandas.testing.assert_frame_equal(found, whole)
            pandas.testing.assert_frame_equal(found.failures, whole.failures)
            self.assertEqual((found.attrs["verdict"], told[-1][:2]), ("bad", (parts, parts)))
        with self.assertRaisesRegex(ValueError, "no scheme"):
            sweep.crash("hash", "undoo", parts=2)
        of_machine = {"machine": lab.Machine.of("tiny"), "plant": "skeleton-unordered", "points": 60}
        whole = lab.crash("hash", "skeleton", **of_machine)
        found = sweep.crash("hash", "skeleton", parts=3, **of_machine)
        pandas.testing.assert_frame_equal(found, whole)
        self.assertEqual(len(found.failures), 16)
        pandas.testing.assert_frame_equal(found.failures, whole.failures)

    def test_parts_of_a_check_are_the_whole(self):
        if not can_trace():
            self.skipTest("this system refuses to trace")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "log.py")
            with open(program, "w") as file:
                file.write(LOG)
            python = [sys.executable, "-S", "-E", program]
            then = " ".join([*python, "recover", "{}"])
            for kind in ("unsynced", "synced"):
                run = lambda name: {"program": [*python, kind, os.path.join(folder, name)], "dir": os.path.join(folder, name), "then": then}
                whole = lab.check(**run(f"{kind}-whole"))
                found = sweep.check(**run(f"{kind}-parts"), parts=3, workers=2)
                self.assertEqual(found.attrs["states"], whole.attrs["states"])
                self.assertEqual(found.attrs["verdict"], whole.attrs["verdict"])
                faults = lambda results: sorted(results.get("class", []))
                self.assertEqual(faults(found), faults(whole))
                self.assertEqual(bool(len(found)), kind == "unsynced")
                if kind == "synced":
                    self.assertEqual(found.attrs["distinct"], whole.attrs["distinct"])
                    array = os.path.join(folder, "array")
                    script = sweep.check(**run("array-parts"), parts=2, slurm=array)
                    self.assertEqual(sweep.collect(array), (None, [0, 1]))
                    sbatch(script)
                    self.assertEqual(sweep.collect(array)[0].attrs["states"], whole.attrs["states"])

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
    def test_a_sweep_that_was_killed_while_it_wrote_goes_on(self):
        grid = {"work": "hash", "scheme": "swift", "seed": list(range(8)), **SMALL}
        whole = sweep.run(lab.sim, grid)
        # Each point is stored, and the writer dies in the middle of its third file.
        code = """
import json, os, sys
from outlast import lab, sweep
sweep._time.monotonic = iter(range(10**9)).__next__
write, times = sweep._pandas.DataFrame.to_parquet, []
def half(frame, path):
    write(frame, path)
    times.append(path)
    if len(times) == 3:
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), 9)
sweep._pandas.DataFrame.to_parquet = half
grid = json.loads(sys.argv[2])
sweep.run(lab.sim, grid, workers=1, file=sys.argv[1])
"""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "sweep.parquet")
            done = subprocess.run([sys.executable, "-c", code, file, json.dumps(grid)])
            self.assertEqual(done.returncode, -signal.SIGKILL)
            self.assertEqual(len(os.listdir(folder)), 2, "a file that is whole, and a half one beside it")
            told = []
            resumed = sweep.run(lab.sim, grid, file=file, progress=lambda *news: told.append(news))
            self.assertIn(len(told), range(1, 8))
            self.assertEqual(os.listdir(folder), ["sweep.parquet"])
            pandas.testing.assert_frame_equal(resumed, whole)

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_what_failed_is_tried_again(self):
        grid = {"work": "hash", "scheme": ["swift", "swiftly"], "seed": 1, **SMALL}
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "sweep.parquet")
            told = []
            for expected in (2, 1):
                told.clear()
                frame = sweep.run(lab.sim, grid, file=file, progress=lambda *news: told.append(news))
                self.assertEqual(len(told), expected)
                self.assertEqual(list(frame[frame["error"].notna()]["at_scheme"]), ["swiftly"])
        with self.assertRaisesRegex(ValueError, "swiftly"):
            sweep.run(lab.sim, {**grid, "scheme": ["swiftly"]})

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_an_array_of_tasks_makes_the_same_frame(self):
        grid = {"work": "hash", "scheme": "swift", "seed": [1, 2], **SMALL}
        with tempfile.TemporaryDirectory() as folder:
            script = sweep.slurm(lab.sim, grid, folder, ["--time=0:10:00"])
            self.assertEqual(sweep.collect(folder)[1], [0, 1])
            with open(script) as text:
                self.assertIn("#SBATCH --time=0:10:00\n", text.read())
            sbatch(script, leave_out=1)
            self.assertEqual(sweep.collect(folder)[1], [1])
            sbatch(script)
            found, missing = sweep.collect(folder)
            self.assertEqual(missing, [])
            pandas.testing.assert_frame_equal(found, sweep.run(lab.sim, grid))
        with tempfile.TemporaryDirectory() as folder:
            sbatch(sweep.crash("hash", "undo", parts=2, slurm=folder, **PLANTED))
            found, missing = sweep.collect(folder)
            pandas.testing.assert_frame_equal(found, lab.crash("hash", scheme="undo", part="1/1", **PLANTED))


@unittest.skipIf(pandas is None, "pandas is missing: pip install pandas")
@unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
class Grids(unittest.TestCase):
    """Sweeps of all that an architect puts into a grid, and files that are not a sweep's own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "sweep.parquet")

    def points(self, frame, column):
        return list(frame.drop_duplicates(column)[column])

    def test_several_values_come_in_any_form(self):
        grid = {"work": "hash", "scheme": "swift", **SMALL}
        forms = [(1, 2), range(1, 3), {1: "a", 2: "b"}.keys(), (number for number in (1, 2)), pandas.Series([1, 2])]
        try:
            import numpy
        except ImportError:
            pass
        else:
            forms += [numpy.array([1, 2]), [numpy.int64(1), numpy.int64(2)]]
        expected = sweep.points({**grid, "seed": [1, 2]})
        for form in forms:
            self.assertEqual(sweep.points({**grid, "seed": form}), expected)
        with self.assertRaisesRegex(TypeError, "a set has no order"):
            sweep.points({**grid, "seed": {1, 2}})
        self.assertEqual(sweep.points({"a": "text", "b": {"c": 1}, "d": lab.Machine.of("tiny")})[0]["b"], {"c": 1})
        for wrong in ([grid], lab.sim):
            with self.assertRaisesRegex(TypeError, "a grid has values by their names"):
                sweep.points(wrong)
        runs = lab.sim("hash", scheme="swift", set={"core.rob": range(64, 129, 64)}, **SMALL)
        self.assertEqual(self.points(runs, "core.rob"), [64, 128])
        with self.assertRaisesRegex(TypeError, "'work'"):
            sweep.run(lab.sim, {"scheme": "swift"})

    def test_machines_of_one_name_are_two(self):
        machines = [lab.Machine.toml(f"[core]\nrob = {entries}\n") for entries in (16, 256)]
        found = sweep.run(lab.sim, {"work": "hash", "scheme": "swift", "machine": machines, **SMALL})
        self.assertEqual(found["at_machine"].nunique(), 2)
        cycles = lambda frame: list(frame[frame["metric"] == "throughput"]["value"])
        expected = [cycles(lab.sim("hash", scheme="swift", machine=machine, **SMALL))[0] for machine in machines]
        self.assertEqual(cycles(found), expected)
        self.assertNotEqual(*expected)

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_a_file_gives_back_what_it_was_given(self):
        own = os.path.join(self.folder, "own.work")
        with open(own, "w") as file:
            file.write("outlast-work 1\nmemory 0x1000\ntx\nstore 0 1\nend\n")
        machine = lab.Machine.of("tiny")
        grids = [
            {"work": ["hash", "nothing"], "scheme": ["fwb", "swift"], "config": "tiny", "set": [None, {"core.rob": [32, 64]}], **SMALL},
            {"work": "hash", "scheme": "swift", "seed": [1, "2", 2**64 - 1, 2**53 + 1], **SMALL},
            {"work": own, "scheme": "fwb", "machine": [machine, lab.Machine.of("tiny", **{"core.rob": 32})]},
        ]
        for grid in grids:
            whole = sweep.run(lab.sim, grid)
            for _ in range(2):
                kept = sweep.run(lab.sim, grid, file=self.file)
                pandas.testing.assert_frame_equal(pandas.DataFrame(kept), pandas.DataFrame(whole))
                self.assertEqual(kept.attrs, whole.attrs)
        self.assertEqual(set(whole["at_work"]), {own})
        self.assertIn(2**53 + 1, set(sweep.run(lab.sim, grids[1], file=self.file)["at_seed"]))

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_a_loss_at_one_point_is_the_sweeps(self):
        bug = PLANTED["plant"]
        for plants, verdict in (([None, bug], "bad"), ([None], "good"), ([None, bug], "bad")):
            found = sweep.run(lab.crash, {"work": "hash", "scheme": "undo", **PLANTED, "plant": plants}, file=self.file)
            self.assertEqual(found.attrs["verdict"], verdict)
            self.assertEqual(bool(found[found["metric"].isin(["lost", "torn"])]["value"].sum()), verdict == "bad")

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_a_file_answers_for_nothing_else(self):
        own = os.path.join(self.folder, "own.work")
        texts = ["tx\nstore 0 1\nend\n", "tx\nstore 0 1\nend\ntx\nstore 64 1\nend\n"]
        found = []
        for text in texts:
            with open(own, "w") as file:
                file.write("outlast-work 1\nmemory 0x1000\n" + text)
            found.append(sweep.run(lab.sim, {"work": own, "scheme": "fwb", "config": "tiny"}, file=self.file))
        self.assertFalse(found[0].equals(found[1]), "the file's work has changed")
        grid = {"work": "hash", "scheme": "fwb", "config": "tiny", **SMALL}
        sweep.run(lab.sim, grid, file=self.file)
        compared = sweep.run(lab.compare, grid, file=self.file)
        pandas.testing.assert_frame_equal(compared, sweep.run(lab.compare, grid))
        self.assertIn("speed_over_plain", set(compared["metric"]))

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_files_of_others_are_left_alone(self):
        grid = {"work": "hash", "scheme": "swift", **SMALL}
        told = []
        run = lambda file: sweep.run(lab.sim, grid, file=file, progress=lambda *news: told.append(news))
        foreign, text = (os.path.join(self.folder, name) for name in ("foreign.parquet", "text.parquet"))
        pandas.DataFrame({"a": [1]}).to_parquet(foreign)
        with open(text, "w") as file:
            file.write("text")
        for file in (foreign, text):
            with self.assertRaisesRegex(ValueError, "no file of a sweep"):
                run(file)
        with self.assertRaisesRegex(FileNotFoundError, "no folder"):
            run(os.path.join(self.folder, "missing", "sweep.parquet"))
        self.assertEqual(told, [], "nothing has run")
        self.assertEqual(list(pandas.read_parquet(foreign)["a"]), [1])
        backup = f"{self.file}.4000000"
        shutil.copy(foreign, backup)
        run(self.file)
        self.assertTrue(os.path.exists(backup))

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_sweeps_share_a_file(self):
        grid = {"work": "hash", "scheme": "swift", **SMALL}
        inner = []

        def told(*news):
            if not inner:
                inner.append(sweep.run(lab.sim, {**grid, "seed": [7, 8]}, file=self.file))

        sweep.run(lab.sim, {**grid, "seed": [1, 2]}, file=self.file, progress=told)
        told = []
        sweep.run(lab.sim, {**grid, "seed": [1, 2, 7, 8]}, file=self.file, progress=lambda *news: told.append(news))
        self.assertEqual(told, [], "all is in the file")

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_a_check_goes_on_with_the_run_that_it_began_with(self):
        if not can_trace():
            self.skipTest("this system refuses to trace")
        data, runs, script = (os.path.join(self.folder, name) for name in ("data", "runs", "log.py"))
        with open(script, "w") as file:
            file.write(LOG + f"open({runs!r}, 'a').write('.')\n")
        program = lambda kind: [sys.executable, "-S", "-E", script, kind, data]
        then = f"{sys.executable} -S -E {script} recover {{}}"
        told = []

        def check(kind, stop_after=99):
            def tell(*news):
                told.append(news)
                if news[0] == stop_after:
                    raise KeyboardInterrupt

            shutil.rmtree(data, ignore_errors=True)
            told.clear()
            return sweep.check(program(kind), data, then, parts=3, workers=1, file=self.file, progress=tell)

        with self.assertRaises(KeyboardInterrupt):
            check("unsynced", stop_after=1)
        # Nor does one go on whose files have changed: it would be judged by two.
        with open(script, "a") as file:
            file.write("\n")
        with self.assertRaises(KeyboardInterrupt):
            check("unsynced", stop_after=1)
        self.assertEqual(os.path.getsize(runs), 2, "it has run again")
        # Another program is judged by its own run.
        self.assertEqual(check("synced").attrs["verdict"], "good")
        self.assertEqual(len(told), 3)
        self.assertEqual(check("unsynced").attrs["verdict"], "bad")
        self.assertLess(len(told), 3)
        self.assertEqual(os.path.getsize(runs), 3, "it has not run again")
        self.assertEqual(check("unsynced").attrs["verdict"], "bad")
        self.assertEqual((len(told), os.path.getsize(runs)), (3, 4), "a whole one begins anew")
        self.assertEqual(len([name for name in os.listdir(self.folder) if name.endswith(".run")]), 1, "the run of the other files")
        with self.assertRaisesRegex(TypeError, "expected a list of words"):
            sweep.check("./engine data", data, then)

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_a_full_disk_costs_no_results(self):
        grid = {"work": "hash", "scheme": "swift", **SMALL}

        def full(frame, path):
            with open(path, "w") as file:
                file.write("half")
            raise OSError(28, "No space left on device")

        write, pandas.DataFrame.to_parquet = pandas.DataFrame.to_parquet, full
        try:
            with self.assertWarnsRegex(RuntimeWarning, "No space left"):
                found = sweep.run(lab.sim, grid, file=self.file)
        finally:
            pandas.DataFrame.to_parquet = write
        self.assertEqual(os.listdir(self.folder), [])
        pandas.testing.assert_frame_equal(found, sweep.run(lab.sim, grid))

    def test_a_run_that_takes_too_long_costs_its_point_alone(self):
        found = sweep.run(lab.sim, {"work": "hash", "scheme": "swift", "timeout": [1e-3, 600], **SMALL})
        self.assertEqual(set(found["error"].dropna()), {"outlast sim did not end within 0.001 s"})
        self.assertIn("throughput", set(found["metric"]))
        with self.assertRaisesRegex(TimeoutError, "did not end within"):
            lab.sim("hash", timeout=1e-3)

    @unittest.skipUnless(has_parquet(), "pyarrow is missing: pip install pyarrow")
    def test_an_array_takes_what_a_sweep_takes(self):
        from outlast.work import Work

        own = Work(memory=4096)
        with own.transaction():
            own.store(0, 1)
        folder = os.path.join(self.folder, "an array's $HOME")
        grid = {"work": [own, "nothing"], "scheme": "fwb", "machine": lab.Machine.of("tiny"), "set": [{"core.rob": [32, 64]}]}
        sbatch(sweep.slurm(lab.sim, grid, folder))
        found, missing = sweep.collect(folder)
        self.assertEqual(missing, [])
        pandas.testing.assert_frame_equal(found, sweep.run(lab.sim, grid))
        self.assertEqual(found["error"].notna().sum(), 1)
        # Its results are not those of another grid.
        with self.assertRaisesRegex(ValueError, "results of another array"):
            sweep.slurm(lab.sim, {**grid, "seed": 2}, folder)
        sweep.slurm(lab.sim, grid, folder)
        self.assertEqual(sweep.collect(folder)[1], [])
        with self.assertRaisesRegex(ValueError, "no points"):
            sweep.slurm(lab.sim, {"work": []}, folder)


@unittest.skipIf(pandas is None, "pandas is missing: pip install pandas")
@unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
class Mistakes(unittest.TestCase):
    """What is wrong is told in one line, and nothing else comes of it."""

    def test_of_machines(self):
        machine = lab.Machine.of("tiny")
        with self.assertRaisesRegex(ValueError, "machine and config are both given"):
            lab.sim("hash", "fwb", config="tiny", machine=machine, **SMALL)
        with self.assertRaisesRegex(ValueError, "a run is on one machine"):
            lab.sim("hash", "fwb", config=[machine, "tiny"], **SMALL)
        # Each key alone would not be right beside those of the other machine.
        whole = lab.Machine.of("server", **dict(machine.items()))
        self.assertEqual(dict(whole.items()), dict(machine.items()))
        self.assertEqual(lab.Machine.toml("[core]\nrob = 64\n", name="a/b")["core.rob"], 64)

    def test_of_schemes(self):
        with self.assertRaisesRegex(ValueError, "swift of the runtime and fwb of the machine crash in two ways"):
            lab.crash("hash", ["swift", "fwb"])
        self.assertEqual(set(lab.crash("hash", "fwb,hwl", points=5)["scheme"]), {"fwb", "hwl"})
        with self.assertRaisesRegex(ValueError, "an image is of one scheme"):
            lab.image("hash", ["undo", "swift"], point=5)
        for point in (1.5, "x", (1, 2, 3), float("nan"), (1, 2.5)):
            with self.assertRaisesRegex(ValueError, "no entry of the journal"):
                lab.image("hash", "fwb", point=point)
        row = lab.crash("hash", "fwb", plant="HWL-1").failures.iloc[0]
        image = lab.image("hash", "fwb", point=(float(row["crash_entry"]), row["resume_entry"]), plant="HWL-1")
        self.assertEqual((image.wrong, image.point), (row["wrong"], row["crash_entry"]))

    def test_of_numbers(self):
        for wrong in ({"seed": -1}, {"transactions": -5}, {"set": {"core.rob": -1}}, {"seed": 1.5}, {"seed": 2**64}):
            with self.assertRaisesRegex(ValueError, str(next(iter(wrong)))):
                lab.sim("hash", **wrong)

    def test_of_tables_and_figures(self):
        runs = sweep.run(lab.crash, {"work": ["hash", "nothing"], "scheme": "swift", "points": 5, "transactions": 5})
        with self.assertRaisesRegex(KeyError, "no column 'nope'"):
            runs.wide(index="nope")
        with self.assertRaisesRegex(KeyError, "no metric 'nope'"):
            runs.wide("nope")
        for empty in (lab.schemes(), sweep.run(lab.sim, {"work": []})):
            with self.assertRaisesRegex(KeyError, "no metrics"):
                empty.plot()
        if has("matplotlib"):
            self.assertEqual(runs.plot().get_title(), "hash under swift")
            with self.assertRaisesRegex(KeyError, "no metric 'nope'"):
                runs.plot("nope")

    def test_a_work_has_the_same_name_for_every_user(self):
        from outlast.work import Work

        own = Work(memory=4096, name="own")
        with own.transaction():
            own.store(0, 1)
        before, found = os.environ.get("XDG_CACHE_HOME"), []
        try:
            for _ in range(2):
                with tempfile.TemporaryDirectory() as home:
                    os.environ["XDG_CACHE_HOME"] = home
                    found.append(sweep.run(lab.sim, {"work": own, "scheme": "fwb", "config": "tiny"}))
        finally:
            os.environ.pop("XDG_CACHE_HOME")
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before
        pandas.testing.assert_frame_equal(*found)
        self.assertRegex(found[0]["workload"].iloc[0], "^own-[0-9a-f]{12}$")


def sbatch(script, leave_out=None):
    """Runs the tasks of an array as Slurm does, one after the other."""
    with open(script) as text:
        array = next(line for line in text if line.startswith("#SBATCH --array="))
    first, last = array.strip().split("=")[1].split("-")
    for number in range(int(first), int(last) + 1):
        if number != leave_out:
            subprocess.run(["sh", script], env={**os.environ, "SLURM_ARRAY_TASK_ID": str(number)}, check=True)


if __name__ == "__main__":
    unittest.main()
