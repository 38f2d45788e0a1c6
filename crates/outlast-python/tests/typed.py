"""The package's types: the package itself, a user's program, and that the stubs are of this module."""

import os
import subprocess
import sys
import tempfile
import unittest

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


def check(*arguments):
    """Runs a tool of mypy's."""
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@unittest.skipIf(mypy is None, "mypy is missing: pip install mypy numpy")
class Types(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        # mypy does not follow PYTHONPATH into packages that are not installed.
        os.symlink(os.path.dirname(outlast.__file__), os.path.join(folder.name, "outlast"))
        os.chdir(folder.name)
        self.settings = os.path.join(SOURCE, "pyproject.toml")

    def test_the_package_and_a_program_of_a_user(self):
        for name, program in (("user", PROGRAM), ("wrong", WRONG)):
            with open(f"{name}.py", "w", encoding="utf-8") as file:
                file.write(program)
        code, said = check("mypy", "--strict", "--config-file", self.settings, "-p", "outlast")
        self.assertEqual(code, 0, said)
        code, said = check("mypy", "--strict", "user.py")
        self.assertEqual(code, 0, said)
        exec(compile(PROGRAM, "user.py", "exec"), {})
        code, said = check("mypy", "--strict", "wrong.py")
        self.assertEqual((code, said.count("wrong.py:")), (1, 5), said)

    @unittest.skipIf(pandas is None, "pandas is missing: pip install pandas")
    def test_the_stubs_are_of_this_module(self):
        code, said = check(
            "mypy.stubtest", "--mypy-config-file", self.settings, "--concise",
            "--allowlist", os.path.join(SOURCE, "tests", "stubtest.txt"), "--ignore-unused-allowlist", "outlast",
        )
        self.assertEqual(code, 0, said)


if __name__ == "__main__":
    unittest.main()
