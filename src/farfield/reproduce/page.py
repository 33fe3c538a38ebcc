"""The page of an experiment, and the page of all of them: self-contained, everything escaped."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from farfield.files import replacing
from farfield.reproduce.findings import Findings, PaperComparison, ResultTable, Value, format_value

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --good: #1a7f37; --bad: #b35900; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem; }
h1 { line-height: 1.2; margin-bottom: .2rem; } h2 { margin-top: 2rem; }
.source { opacity: .75; margin-top: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0 1rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
  vertical-align: top; }
th { background: var(--soft); }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
caption { text-align: left; padding-bottom: .3rem; }
.agrees { color: var(--good); } .differs { color: var(--bad); }
figure { margin: 1rem 0 2rem; } figcaption { font-size: .9rem; }
img { max-width: 100%; height: auto; background: white; border-radius: 4px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .9rem; }
dt { opacity: .75; } dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { max-width: none; } }
"""


def write_page(
    path: Path,
    title: str,
    source: str,
    findings: Findings,
    images: Mapping[str, Path],
    run: Mapping[str, Any],
) -> Path:
    """Write the page of one experiment.

    Args:
        path: The file to write.
        title: What was reproduced.
        source: The document.
        findings: What was found.
        images: Name of a picture to its PNG file, which is put into the page.
        run: What was run: settings, time, versions.
    """
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="source">{escape(source)}</p>',
        *(f"<p>{escape(sentence)}</p>" for sentence in findings.summary),
    ]
    if findings.comparisons:
        body += ["<h2>Ours beside the published</h2>", _comparisons(findings.comparisons)]
    if findings.pictures:
        body.append("<h2>Figures</h2>")
        body += [_figure(p.name, p.caption, images[p.name]) for p in findings.pictures]
    if findings.tables:
        body += ["<h2>Tables</h2>", *(_table(table) for table in findings.tables)]
    body += ["<h2>What was run</h2>", _facts(run)]
    return _write(path, title, body)


def write_overview(
    path: Path, entries: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
) -> Path:
    """Write the page that leads to all experiments.

    Args:
        path: The file to write.
        entries: Per experiment its ``name``, ``title``, ``status``, ``reason`` and ``seconds``.
        run: What was run.
    """
    rows = []
    for entry in entries:
        name, title = escape(entry["name"]), escape(entry["title"])
        linked = entry["status"] == "done"
        cell = f'<a href="{name}/index.html">{name}</a>' if linked else name
        status = escape(entry["status"] + (f": {entry['reason']}" if entry["reason"] else ""))
        seconds = f"{entry['seconds']:.0f} s" if linked else ""
        rows.append(
            f"<tr><td>{cell}</td><td>{title}</td><td>{status}</td>"
            f'<td class="number">{seconds}</td></tr>'
        )
    head = "<tr><th>name</th><th>what</th><th>status</th><th>computing</th></tr>"
    body = [
        "<h1>Every table and figure, beside the published one</h1>",
        f'<div class="scroll"><table><thead>{head}</thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>",
        "<h2>What was run</h2>",
        _facts(run),
    ]
    return _write(path, "farfield: reproduced", body)


def _write(path: Path, title: str, body: Sequence[str]) -> Path:
    text = "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
            *body,
            "</main></body></html>\n",
        ]
    )
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _comparisons(comparisons: Sequence[PaperComparison]) -> str:
    names = ("quantity", "published", "ours", "difference", "agrees", "source", "why they differ")
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = []
    for each in comparisons:
        verdict = {True: "yes", False: "no", None: "-"}[each.agreement]
        look = {True: "agrees", False: "differs", None: ""}[each.agreement]
        gap = "" if each.difference is None else f"{each.difference:+.3g}"
        rows.append(
            f"<tr><td>{escape(each.quantity)}</td>{_cell(each.published)}{_cell(each.ours)}"
            f'<td class="number">{gap}</td><td class="{look}">{verdict}</td>'
            f"<td>{escape(each.source)}</td>"
            f"<td>{escape(each.why if each.agreement is not True else '')}</td></tr>"
        )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _table(table: ResultTable) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in table.rows)
    files = f"tables/{escape(table.name)}"
    links = f'<a href="{files}.csv">CSV</a>, <a href="{files}.tex">LaTeX</a>'
    return (
        f'<div class="scroll"><table><caption>{escape(table.caption)} ({links})</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(value: Value) -> str:
    look = "" if isinstance(value, str) else ' class="number"'
    return f"<td{look}>{escape(format_value(value))}</td>"


def _figure(name: str, caption: str, image: Path) -> str:
    encoded = base64.b64encode(image.read_bytes()).decode()
    links = ", ".join(
        f'<a href="figures/{escape(name)}.{ending}">{ending.upper()}</a>'
        for ending in ("png", "svg")
    )
    return (
        f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{encoded}">'
        f"<figcaption>{escape(caption)} ({links})</figcaption></figure>"
    )


def _facts(facts: Mapping[str, Any]) -> str:
    entries = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(_fact(value))}</dd>"
        for name, value in facts.items()
    )
    return f"<dl>{entries}</dl>"


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_fact(each) for each in value) + "]"
    return format_value(value) if isinstance(value, float) else str(value)
