"""The documentation: every public name has a text, and examples give the results that they show."""

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import tempfile
import unittest

import outlast

MODULES = ["arguments", "crashed", "figures", "lab", "machine", "results", "sweep", "work"]
OF_THE_LABORATORY = ["numpy", "pandas", "pyarrow", "matplotlib"]
README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "README.md")


def missing(*modules):
    """The line that says which modules are missing, or nothing."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"missing: pip install {' '.join(absent)}" if absent else None


def can_trace():
    with tempfile.TemporaryDirectory() as folder:
        line = [os.environ["OUTLAST_COMMAND"], "check", "--dir", folder, "--then", "true {}", "--", "true"]
        return "refuses to trace" not in subprocess.run(line, capture_output=True, text=True).stderr


def modules():
    """The package, and its modules that can be imported here."""
    yield outlast
    for name in MODULES:
        with contextlib.suppress(ImportError):
            yield importlib.import_module(f"outlast.{name}")


def lacking(name, found):
    """Public names of a class, a function or a module that have no text."""
    if not inspect.getdoc(found):
        yield name
    if not inspect.isclass(found) or issubclass(found, BaseException):
        return
    for member in dir(found):
        owner = next((own for own in found.__mro__ if member in vars(own)), None)
        is_ours = owner is not None and owner.__module__.split(".")[0] == "outlast"
        if is_ours and not member.startswith("_") and not inspect.getdoc(getattr(found, member)):
            yield f"{name}.{member}"


class Documentation(unittest.TestCase):
    def test_every_public_name_has_a_text(self):
        without = []
        for module in modules():
            without += lacking(module.__name__, module)
            for name in module.__all__:
                found = getattr(module, name)
                if inspect.isclass(found) or inspect.isroutine(found):
                    without += lacking(f"{module.__name__}.{name}", found)
        self.assertEqual(without, [])

    def run_examples(self, module, leave_out=()):
        """Runs the examples of a module's texts, each in a folder of its own; how many there are."""
        count = 0
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            if test.name in leave_out:
                continue
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), self.subTest(test.name):
                test.globs.update(outlast=outlast, path=os.path.join(folder, "pool"))
                said = []
                result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
                self.assertEqual(result.failed, 0, "".join(said))
                count += result.attempted
        return count

    @unittest.skipIf(missing("numpy"), missing("numpy"))
    def test_examples_of_pools_and_own_work(self):
        self.assertGreater(self.run_examples(outlast), 8)
        self.assertGreater(self.run_examples(importlib.import_module("outlast.work")), 5)

    @unittest.skipIf(missing(*OF_THE_LABORATORY), missing(*OF_THE_LABORATORY))
    @unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
    def test_examples_of_the_laboratory(self):
        import matplotlib.pyplot

        matplotlib.use("Agg")
        untraced = () if can_trace() else ("outlast.lab.check", "outlast.sweep.check")
        for module in modules():
            if module.__name__ not in ("outlast", "outlast.work"):
                self.assertGreater(self.run_examples(module, untraced), 0, module.__name__)
        matplotlib.pyplot.close("all")

    @unittest.skipIf(missing("numpy"), missing("numpy"))
    def test_examples_of_the_readme(self):
        with open(README, encoding="utf-8") as file:
            # Those of the laboratory have tests of their own.
            pools, _, _laboratory = file.read().partition("## The laboratory")
        blocks = re.findall(r"```python\n(.*?)```", pools, re.DOTALL)
        self.assertTrue(blocks)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                names = {}
                for block in blocks:
                    exec(compile(block, "README.md", "exec"), names)
            finally:
                os.chdir(before)


if __name__ == "__main__":
    unittest.main()
