#!/usr/bin/env python3
"""Makes the book's pages of the notebooks: `pages.py` writes docs/notebook-NAME.md, `pages.py --figures` also runs the notebooks and
draws the figures of cells that are tagged so. A test compares the pages with the notebooks.
"""

import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parents[2] / "docs"


def notebooks():
    """Each notebook's name with its cells."""
    files = sorted(HERE.glob("*.ipynb"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8"))["cells"] for file in files}


def text_of(cell):
    return "".join(cell["source"])


def figures(name, cells):
    """The file names of the figures, by the place of their cells."""
    tagged = [place for place, cell in enumerate(cells) if "figure" in cell["metadata"].get("tags", [])]
    return {place: f"notebook-{name}-{number}.svg" for number, place in enumerate(tagged, 1)}


def page(name, cells):
    """The page of a notebook: its text, its code and its figures."""
    drawn = figures(name, cells)
    parts = []
    for place, cell in enumerate(cells):
        if cell["cell_type"] == "markdown":
            parts.append(text_of(cell))
        else:
            parts.append(f"```python\n{text_of(cell)}\n```")
        if place == 0:
            parts.append(f"The notebook is `crates/outlast-python/notebooks/{name}.ipynb`.")
        if place in drawn:
            parts.append(f"![The figure of the cell above]({drawn[place]})")
    return "\n\n".join(parts) + "\n"


def run(cells, after=lambda place: None):
    """Runs the code cells as one program, in a folder of its own. ``after`` is called behind each of them."""
    names = {"__name__": "__main__"}
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for place, cell in enumerate(cells):
                if cell["cell_type"] == "code":
                    exec(compile(text_of(cell), f"cell {place}", "exec"), names)
                    after(place)
        finally:
            os.chdir(before)
    return names


def draw(name, cells):
    """Runs a notebook and writes its figures."""
    import matplotlib

    matplotlib.use("Agg")
    # Text stays text, and the same figure is the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "outlast"})
    from matplotlib import pyplot

    drawn = figures(name, cells)

    def after(place):
        if place in drawn:
            pyplot.gcf().savefig(DOCS / drawn[place], metadata={"Date": None, "Creator": None})
        pyplot.close("all")

    run(cells, after)


if __name__ == "__main__":
    for name, cells in notebooks().items():
        if "--figures" in sys.argv:
            draw(name, cells)
        (DOCS / f"notebook-{name}.md").write_text(page(name, cells), encoding="utf-8")
