"""The package's types: the package itself, a user's program, and that the stubs are of this module."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import outlast

try:
    import mypy
    import numpy
except ImportError:
    mypy = None

try:
    import pandas
except ImportError:
    pandas = None

# Types of NumPy and pandas, which are read once.
CACHE = tempfile.TemporaryDirectory()

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

PROGRAM = """
import numpy
import outlast

with outlast.Pool("orders.pool", size=64 << 20) as pool:
    users, visits = pool.map("users"), pool.counter("visits")
    with pool.transaction():
        users["ada"] = {"born": 1815}
        visits += 1
    total: int = pool.run(visits.add, 10)
    names: list[int | str | bytes] = list(users)
    shown = numpy.asarray(pool.array("weights", (3, 4)))
    print(total, names, shown.sum(), users["ada"]["born"], visits > 3)


def look(reader: outlast.Reader) -> tuple[int, int]:
    return len(reader.map("users")), reader.counter("visits").value


with outlast.read("orders.pool") as reader:
    print(reader.run(look, reader))
"""

WRONG = """
import outlast

pool = outlast.Pool("orders.pool", size="64 MiB")
pool.map("users")[1.5] = 1
pool.counter("visits").add("1")
pool.run(len)
total: str = pool.run(pool.counter("visits").add)
"""

# It needs the command and pandas.
LABORATORY = """
import pathlib
from typing import Any

import outlast
from outlast import lab, sweep
from outlast.arguments import MachineLike, Settings, WorkLike
from outlast.crashed import Image, Page
from outlast.work import Work

small: dict[str, Any] = {"transactions": 200, "keys": 500}
settings: Settings = {"core.rob": [64, 224], "tlb.page": "4 KiB"}
runs: outlast.Results = outlast.sim("hash", scheme=["swift", "undo"], set=settings, **small)
table: outlast.Results = runs.wide("throughput", index="core.rob")
units: dict[str, str] = table.units
print(units["swift"].upper(), len(runs.failures), runs.attrs["seed"])
seen: outlast.Results = lab.run("sim", "hash", scheme="swift", transactions=200, keys=500, shared=False)

machine = outlast.Machine.of("tiny", **{"core.count": 1})
machine.core.count = 2
machine.core.count += 2
machine["llc.size"] = "256 KiB"
keys: list[str] = [key for key, value in machine.items() if value == 4]
text: str = machine.to_toml()
assert machine.changes["core.count"] == "4" and machine != machine.copy().name
sides = outlast.compare("hash", "fwb", machine=lab.Machine.toml(text), transactions=50, footprint="32K")
judged = outlast.crash("hash", "undo", points=40, policy=["lru", "random"], keys=200, transactions=40)
image: Image = outlast.image("hash", scheme="undo", point=300, keys=200, transactions=40)
lines: int = image.lines("before").shape[0] + image.changed().size
found: str | None = image.wrong
of_machine: Image = outlast.image("hash", "redu", point=(40, 3), machine="tiny")
memory: bytes = b"" if of_machine.memory is None else of_machine.memory.tobytes()
page: Page = outlast.explain(plant="flush-wrong-address", scheme="undo")
saved = page.save(pathlib.Path("page.html"))


def slow(work: WorkLike, machine: MachineLike = "tiny", **options: Any) -> outlast.Results:
    return lab.sim(work, scheme="swift", config=machine, **options)


work = Work(memory=8192, lanes=2, name="transfer")
work.init(0x40, 100, [100, 7])
for lane in (0, 1):
    with work.transaction(lane) as own:
        own.load(0x40, words=2)
        own.think(20)
        own.store(0x40, 90, 110)
work.save("transfer.work")
words: list[int] = Work.read("transfer.work").memory().tolist()
print(slow(work, timeout=60)["metric"].tolist(), slow("hash", transactions=50, keys=100).units)


def told(done: int, all: int, seconds: float) -> None:
    print(done, all)


grid = {"work": ["hash", work], "scheme": "swift", "seed": range(2), "transactions": 40}
swept: outlast.Results = outlast.sweep(outlast.sim, grid, workers=2, progress=told)
again: outlast.Results = sweep.run({"work": "hash", "scheme": "swift", **small}, progress=False)
whole: outlast.Results = outlast.sweep.crash("hash", "swift", parts=2, keys=200, transactions=40, points=20, policy="lru")
script: str = sweep.crash("hash", "swift", parts=2, slurm="array", points=20)
collected, missing = sweep.collect("array")
assert collected is None and missing == [0, 1]
points: list[dict[str, Any]] = outlast.sweep.points(grid)
"""

# It needs Matplotlib, pyarrow, Polars, Dask, or a system that lets a program be traced: it is checked, and does not run.
FURTHER = """
import outlast
import polars
from dask.distributed import Client
from matplotlib.axes import Axes

runs = outlast.sim("hash")
axes: Axes = runs.plot("fences", index="workload")
axes.set_title(axes.get_ylabel())
runs.wide().plot.bar()
runs.plot(kind="bar", rot=0)
height: int = runs.polars().height
frame: polars.DataFrame = runs.polars()
again: outlast.Results = outlast.lab.read(runs.to_arrow())
other: outlast.Results = outlast.lab.read("runs.parquet")
found = outlast.check(["./engine", "data"], "data", then="./verify {}", twice=True)
parts: outlast.Results = outlast.sweep.check(("./engine", "data"), "data", "./verify {}", parts=16)
claims = outlast.reproduce("fwb", figure=["6", "7"], scale="quick")
speeds: outlast.Results = outlast.bench(["hash", "mine.work"], scheme="swift", threads=[1, 2])


def on_cluster(client: Client) -> outlast.Results:
    return outlast.sweep({"work": "hash"}, client=client)
"""

# Types of others are not read: that takes as long as all the rest.
STUBTEST = """
[mypy]
strict = True
[mypy-pandas.*,pyarrow.*,polars.*,matplotlib.*,dask.*,distributed.*]
follow_imports = skip
ignore_missing_imports = True
"""

# Names, and lines each of which is refused.
NAMES = """
import outlast
from outlast.crashed import Image
from outlast.work import Work

runs: outlast.Results
machine: outlast.Machine
image: Image
work: Work
"""
WRONG_LINES = """
outlast.simm("hash")
outlast.sim(3)
outlast.sim("hash", seed="1")
outlast.sim("hash", set=[("core.count", 4)])
outlast.sim("hash", transactions=object())
outlast.sim("hash", machine=4)
outlast.compare("hash", out=3)
outlast.crash("hash", points="most")
outlast.crash("hash", policy={1, 2})
outlast.check("./engine data", "data", "./verify {}")
outlast.check(["./engine"], 3, "./verify {}")
outlast.image("hash")
outlast.image("hash", ["undo", "redo"])
outlast.explain(plant=3)
outlast.reproduce("fwb", scale="huge")
outlast.lab.run("sim", program="./engine")
runs.wide(3)
runs.units["throughput"] + 1
runs.plot(5)
runs.plot("fences", axis=3)
outlast.lab.read(5)
machine.core = 4
machine.core.count = [4]
machine["core.count"] = None
machine[3]
machine.keys().append("core.count")
outlast.Machine.of(3)
outlast.Machine("tiny", set={"core.count": [1, 2]})
outlast.sweep(outlast.sim)
outlast.sweep(outlast.image, {"work": "hash"})
outlast.sweep(outlast.sim, [("work", "hash")])
outlast.sweep(outlast.sim, {"work": "hash"}, client="tcp://host:8786")
outlast.sweep(outlast.sim, {"work": "hash"}, progress=lambda done: done)
outlast.sweep.crash("hash", parts="4")
outlast.sweep.crash("hash", slurm="array").units
outlast.sweep.collect("array")[0].units
outlast.sweep.campaign("hash")
image.lines("after")
image.changed("crashed", 3)
image.wrong.upper()
Work(memory="8 KiB")
work.store("0x40", 1)
work.store(0x40, 1.5)
work.transaction(lane="0")
work.load(0x40, bytes=8)
""".strip().splitlines()


def pages():
    """Code of the book's pages and of notebooks by a name for its file."""
    docs = os.path.join(SOURCE, "..", "..", "docs")
    for path in (os.path.join(SOURCE, "README.md"), os.path.join(docs, "python.md"), os.path.join(docs, "own-work.md")):
        with open(path, encoding="utf-8") as file:
            blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
        name = os.path.basename(path).removesuffix(".md").replace("-", "_").lower()
        yield f"page_{name}", "import outlast\nfrom dask.distributed import Client\ndask_client: Client\n" + "\n".join(blocks)
    for name in sorted(os.listdir(os.path.join(SOURCE, "notebooks"))):
        if name.endswith(".ipynb"):
            with open(os.path.join(SOURCE, "notebooks", name), encoding="utf-8") as file:
                cells = json.load(file)["cells"]
            code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
            yield name.removesuffix(".ipynb").replace("-", "_"), "\n".join(code)


def check(*arguments):
    """Runs a tool of mypy's; it finds the package as one that is installed."""
    path = os.pathsep.join([os.path.dirname(os.path.dirname(outlast.__file__)), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "MYPY_CACHE_DIR": CACHE.name}
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


@unittest.skipIf(mypy is None, "mypy is missing: pip install mypy numpy")
class Types(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.settings = os.path.join(SOURCE, "pyproject.toml")

    def refused(self, **programs):
        """Checks programs, strictly; the lines of each that are refused, and all that was said."""
        for name, program in programs.items():
            with open(f"{name}.py", "w", encoding="utf-8") as file:
                file.write(program)
        _, said = check("mypy", "--strict", *(f"{name}.py" for name in programs))
        found = re.findall(r"^(\w+)\.py:(\d+): error:", said, re.MULTILINE)
        return {name: {int(line) for of, line in found if of == name} for name in programs}, said

    def test_the_package(self):
        code, said = check("mypy", "--strict", "--config-file", self.settings, "-p", "outlast")
        self.assertEqual(code, 0, said)

    def test_programs_of_a_user(self):
        wrong = NAMES + "\n".join(WRONG_LINES)
        right = {"pools": PROGRAM, "laboratory": LABORATORY, "further": FURTHER, **dict(pages())}
        self.assertEqual(len(right), 9)
        refused, said = self.refused(**right, wrong=WRONG, wrong_laboratory=wrong)
        # Lines of the program that begin behind its names; a first line is empty.
        first = NAMES.count("\n") + 1
        expected = {first + number: line for number, line in enumerate(WRONG_LINES)}
        taken = [line for number, line in expected.items() if number not in refused["wrong_laboratory"]]
        self.assertEqual((taken, refused["wrong_laboratory"] - {*expected}), ([], set()), said)
        self.assertEqual(len(refused["wrong"]), 5, said)
        for name in right:
            self.assertEqual(refused[name], set(), said)

    def test_the_program_of_pools_runs(self):
        exec(compile(PROGRAM, "pools.py", "exec"), {})

    @unittest.skipIf(pandas is None, "pandas is missing: pip install pandas")
    @unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
    def test_the_program_of_the_laboratory_runs(self):
        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": os.getcwd()}), contextlib.redirect_stdout(io.StringIO()):
            exec(compile(LABORATORY, "laboratory.py", "exec"), {"__name__": "laboratory"})

    @unittest.skipIf(pandas is None, "pandas is missing: pip install pandas")
    def test_the_stubs_are_of_this_module(self):
        with open("stubtest.ini", "w", encoding="utf-8") as file:
            file.write(STUBTEST)
        code, said = check("mypy.stubtest", "--mypy-config-file", "stubtest.ini", "--concise", "outlast")
        self.assertEqual(code, 0, said)


if __name__ == "__main__":
    unittest.main()
