"""Run notebooks from top to bottom and write what they print and draw into them.

Usage: python tools/run_notebooks.py NOTEBOOK.ipynb ...

Cells run in one namespace, in a folder that is thrown away. What is printed, the value of a last
expression and open figures of pyplot become outputs, as Jupyter would keep them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

Output = dict[str, Any]


def lines(text: str) -> list[str]:
    """A text as notebooks keep it: its lines, with their ends."""
    return text.splitlines(keepends=True)


def evaluate(source: str, namespace: dict[str, Any]) -> Any:
    """Run a cell; the value of its last expression, if it ends with one."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)


def figures() -> list[Output]:
    """Open figures as pictures; they are closed."""
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        file = io.BytesIO()
        pyplot.figure(number).savefig(file, format="png", dpi=110, bbox_inches="tight")
        data = {"image/png": base64.b64encode(file.getvalue()).decode()}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    pyplot.close("all")
    return found


def run_cell(source: str, namespace: dict[str, Any], count: int) -> list[Output]:
    """Run one cell of code."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = evaluate(source, namespace)
    outputs: list[Output] = []
    if printed.getvalue():
        text = lines(printed.getvalue())
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        result = {"data": {"text/plain": lines(repr(value))}, "metadata": {}}
        outputs.append({"output_type": "execute_result", "execution_count": count, **result})
    return outputs + figures()


def run(notebook: dict[str, Any]) -> list[list[Output]]:
    """The outputs of all cells of code."""
    import matplotlib

    matplotlib.use("agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return [
                run_cell("".join(cell["source"]), namespace, number)
                for number, cell in enumerate(cells, 1)
            ]
        finally:
            os.chdir(before)


def main(paths: list[Path]) -> None:
    """Run notebooks, and write them with their outputs."""
    for path in paths:
        notebook = json.loads(path.read_text("utf-8"))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for count, (cell, outputs) in enumerate(zip(cells, run(notebook), strict=True), 1):
            cell["outputs"], cell["execution_count"] = outputs, count
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(path)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
