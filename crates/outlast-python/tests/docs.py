"""The documentation: every public name has a text, and examples give the results that they show."""

import doctest
import inspect
import os
import re
import tempfile
import unittest

import outlast

try:
    import numpy
except ImportError:
    numpy = None

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "README.md")


class Documentation(unittest.TestCase):
    def test_every_public_name_has_a_text(self):
        lacking = []
        for name in outlast.__all__:
            found = getattr(outlast, name)
            self.assertTrue(inspect.getdoc(found), name)
            if not inspect.isclass(found) or issubclass(found, BaseException):
                continue
            for member in dir(found):
                owner = next(own for own in found.__mro__ if member in vars(own))
                is_ours = owner.__module__.split(".")[0] == "outlast"
                if is_ours and not member.startswith("_") and not inspect.getdoc(getattr(found, member)):
                    lacking.append(f"{name}.{member}")
        self.assertEqual(lacking, [])

    @unittest.skipIf(numpy is None, "NumPy is missing: pip install numpy")
    def test_examples_of_docstrings(self):
        tests = doctest.DocTestFinder().find(outlast)
        self.assertGreater(sum(len(test.examples) for test in tests), 8)
        for test in tests:
            with tempfile.TemporaryDirectory() as folder:
                test.globs.update(outlast=outlast, path=os.path.join(folder, "pool"))
                said = []
                result = doctest.DocTestRunner().run(test, out=said.append)
                self.assertEqual(result.failed, 0, "".join(said))

    @unittest.skipIf(numpy is None, "NumPy is missing: pip install numpy")
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
