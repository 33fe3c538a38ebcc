"""Names in prose lead to their pages: `ff.audit`, `farfield guard` and `FF201` need no link.

Public names lead to the reference, commands to the command line, codes to findings. A name that
leads nowhere breaks the build. Decisions and the changelog name what is inside, and what is gone.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import make_refnode

from farfield.cli import farfield

PYTHON = re.compile(r"(?:ff|farfield)\.((?!toml\b)\w+(?:\.\w+)*)(?:\(.*\))?")
COMMAND = re.compile(r"farfield ([a-z]\w+)\b.*", re.DOTALL)
CODE = re.compile(r"FF\d{3}")
TO_COMMAND = "farfield-command"
LEFT_ALONE = ("decisions/", "changelog", "contributing")
LINKS = (nodes.reference, addnodes.pending_xref, nodes.title)


def reference(text: str, page: str) -> addnodes.pending_xref | None:
    """Where a piece of code leads, if it is a name of ours."""
    if found := PYTHON.fullmatch(text):
        return _to("py", "obj", f"farfield.{found[1]}", page)
    if (found := COMMAND.fullmatch(text)) and found[1] in farfield.commands:
        return _to("", TO_COMMAND, found[1], page)
    if CODE.fullmatch(text):
        return _to("std", "doc", f"/findings/{text}", page)
    return None


def _to(domain: str, kind: str, target: str, page: str) -> addnodes.pending_xref:
    return addnodes.pending_xref(
        "", refdomain=domain, reftype=kind, reftarget=target, refdoc=page,
        refexplicit=True, refwarn=True,
    )  # fmt: skip


def ancestors(node: nodes.Node) -> list[nodes.Node]:
    """A node's parents, up to the document."""
    found = []
    while node.parent is not None:
        found.append(node := node.parent)
    return found


class NamesInProse(SphinxTransform):
    """Put a reference around every name of ours that is written as code."""

    default_priority = 500

    def apply(self) -> None:
        """Look at all code in running text that is no link already."""
        if self.env.docname.startswith(LEFT_ALONE):
            return
        for literal in list(self.document.findall(nodes.literal)):
            found = reference(literal.astext(), self.env.docname)
            if found is not None and not any(
                isinstance(each, LINKS) for each in ancestors(literal)
            ):
                literal.replace_self(found)
                found += literal


def to_command(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.TextElement
) -> nodes.Node | None:
    """Lead a command to its heading on the page of the command line."""
    if node["reftype"] != TO_COMMAND:
        return None
    if "cli" not in env.found_docs:
        raise ExtensionError("docs/cli.md is missing; run make docs")
    return make_refnode(app.builder, node["refdoc"], "cli", f"farfield-{node['reftarget']}", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform and what resolves commands."""
    app.add_transform(NamesInProse)
    app.connect("missing-reference", to_command)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
