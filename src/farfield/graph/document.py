"""Write ``docs/rules.md`` from the rule table: ``python -m farfield.graph.document FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

import farfield.graph.models  # noqa: F401 - importing it registers the rules
from farfield.graph.rules import RULES, Kind

SECTIONS: dict[Kind, str] = {
    "copy": "Copies: values are moved, nothing is computed",
    "affine": "Affine: slope and intercept alike, an offset on the intercept alone",
    "piecewise affine": "Piecewise affine: the piece that the germ ends up in",
    "largest": "Largest and smallest: the lexicographic order of germs",
    "smooth": "Smooth: the asymptote where the value moves, the function where it rests",
    "steps": "Steps: the end where a column moves, the interval it lies in where it rests",
    "choice": "Choices: one value or the other, by a mask that is at rest",
    "row function": "Functions of a row: their limit where it moves, themselves where it rests",
    "growth": "Growth: series in powers of t, as many orders as decisions need",
}
HEAD = """# What farfield can read

This page is generated from the rule table by `make docs`.

A model is traced to ATen operations. Every operation below has a rule, so a model that uses
nothing else is followed exactly; any other operation is refused by name, together with the module
and the line it sits in, before anything is computed. So are parameters for which a rule is not
true, such as a CELU with a negative `alpha`. Batch norm (evaluation mode) is folded into a scale
and a shift, recurrent layers are written out; what makes probabilities at the end is taken off:
softmaxes and sigmoids, also means of them. Comparisons, masks and `where` become `bend`, a
piecewise-affine function of one number that may jump, and `choose`, one value or another. Products
of two values that both depend on the input become `multiply`, `divide`, `multiply_matrices`,
`add_product` and `contract`. A model that moves the rows of a batch about (transposed, folded into
another dimension and unfolded) is read one row at a time.

Networks with an operation of the last section are followed in series in falling powers of `t`
([theory.md](theory.md)); all others by slope and intercept alone.

To add a rule, say what the operation is in `src/farfield/graph/` (`affine.py`, `placing.py`,
`activations.py`, `pooling.py` and others), add a line to `CASES` in `tests/rule_cases.py`, and run
`make docs`.
"""


def rules_page() -> str:
    """Render the rule table as Markdown."""
    parts = [HEAD]
    for kind, title in SECTIONS.items():
        rows = sorted(
            (_name(target), rule.summary) for target, rule in RULES.items() if rule.kind == kind
        )
        parts.append(f"\n## {title}\n\n| operation | at infinity |\n|---|---|\n")
        parts.extend(f"| `{name}` | {summary} |\n" for name, summary in rows)
    return "".join(parts)


def _name(target: object) -> str:
    text = str(target).removesuffix(".default")
    return text if text.startswith("aten") else str(getattr(target, "__name__", text))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(rules_page(), encoding="utf-8")
