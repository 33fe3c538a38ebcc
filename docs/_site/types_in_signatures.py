"""Where the types in signatures lead: to a public class, or nowhere if they have no page.

No two classes of farfield share a name, so that a class is found by its last word, wherever a
signature has it from. What a text names in so many words must be found, or Sphinx refuses to build.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment


def documented_as(domain: PythonDomain, word: str) -> str | None:
    """The shortest full name of what is documented and ends in a word."""
    names = [name for name in domain.objects if name.rpartition(".")[2] == word]
    return min(names, key=len, default=None)


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.Node | None:
    """Lead a name that Sphinx did not find to where it is documented."""
    if node.get("refdomain") != "py":
        return None
    target, domain = node["reftarget"], env.domains.python_domain
    ours = "." not in target or target.startswith("farfield.")
    name = documented_as(domain, target.rpartition(".")[2]) if ours else None
    if name is not None:
        page = node.get("refdoc", env.docname)
        return domain.resolve_xref(env, page, app.builder, "obj", name, node, text)
    return None if node.get("refwarn") and ours else text


def setup(app: Sphinx) -> dict[str, bool]:
    """Be asked about every name that was not found."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
