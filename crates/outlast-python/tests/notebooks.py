"""The notebooks: they run, hold no output, and are the book's pages. Needs pandas, Matplotlib, and the command."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "notebooks"
SPEC = importlib.util.spec_from_file_location("pages", FOLDER / "pages.py")
pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pages)


def missing(*modules):
    """The line that says which modules are missing, or nothing."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"missing: pip install {' '.join(absent)}" if absent else None


def refuses_to_trace():
    with tempfile.TemporaryDirectory() as folder:
        line = [os.environ["OUTLAST_COMMAND"], "check", "--dir", folder, "--then", "true {}", "--", "true"]
        done = subprocess.run(line, capture_output=True, text=True)
    return "refuses to trace" in done.stderr


class Notebooks(unittest.TestCase):
    def test_pages_of_the_book_are_the_notebooks(self):
        found = pages.notebooks()
        self.assertEqual(len(found), 3)
        for name, cells in found.items():
            page = pages.DOCS / f"notebook-{name}.md"
            self.assertEqual(page.read_text(encoding="utf-8"), pages.page(name, cells), f"{FOLDER / 'pages.py'} makes it")
            for figure in pages.figures(name, cells).values():
                self.assertTrue((pages.DOCS / figure).exists(), figure)

    def test_outputs_are_left_out(self):
        for name, cells in pages.notebooks().items():
            code = [cell for cell in cells if cell["cell_type"] == "code"]
            self.assertTrue(code, name)
            for cell in code:
                self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None), name)

    @unittest.skipIf(missing("numpy", "pandas", "matplotlib"), missing("numpy", "pandas", "matplotlib"))
    @unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
    def test_they_run_as_programs(self):
        import matplotlib

        matplotlib.use("Agg")
        for name, cells in pages.notebooks().items():
            with self.subTest(name):
                if name == "find-a-bug" and refuses_to_trace():
                    print(f"left out: {name}: this system refuses to trace", file=sys.stderr)
                    continue
                pages.run(cells)

    @unittest.skipIf(missing("nbclient", "nbformat", "ipykernel", "pandas", "matplotlib"), missing("nbclient", "nbformat", "ipykernel"))
    @unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
    def test_they_run_in_jupyter(self):
        import nbclient
        import nbformat

        # The kernel's own shows figures in the notebook.
        environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
        for name in pages.notebooks():
            with self.subTest(name):
                if name == "find-a-bug" and refuses_to_trace():
                    continue
                notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
                nbformat.validate(notebook)
                with tempfile.TemporaryDirectory() as folder:
                    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute(env=environment)
                kinds = {kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
                self.assertIn("image/png", kinds, "a figure is shown")


if __name__ == "__main__":
    unittest.main()
