"""What the source of a module says, parsed once for all tests that ask."""

import ast
import functools
from typing import NamedTuple


class Import(NamedTuple):
    """An import, whether it is for types alone, and whether it waits in a function."""

    node: ast.Import | ast.ImportFrom
    types: bool
    waits: bool


class Source(NamedTuple):
    """What a module says: imports, classes, texts, those of errors, arguments and fields."""

    imports: list[Import]
    classes: list[str]
    texts: list[str]
    errors: list[str]
    arguments: set[str]


def children(node):
    """What is directly below a node, but for signs and whether names are read or written."""
    found = []
    for name in node._fields:
        below = getattr(node, name, None)
        if isinstance(below, list):
            found += [each for each in below if isinstance(each, ast.AST)]
        elif isinstance(below, ast.AST) and name not in ("ctx", "op"):
            found.append(below)
    return found


@functools.cache
def read(path):
    """The source of a module; no whole tree is kept."""
    found = Source([], [], [], [], set())
    ahead = [(ast.parse(path.read_text("utf-8")), False, False, False)]
    while ahead:
        node, types, waits, fails = ahead.pop()
        if isinstance(node, ast.Name | ast.Constant):
            text = getattr(node, "value", None)
            if isinstance(text, str):
                found.texts.append(text)
                found.errors.extend([text] if fails else [])
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.imports.append(Import(node, types, waits))
        elif isinstance(node, ast.ClassDef):
            found.classes.append(node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waits = True
        elif isinstance(node, ast.arg):
            found.arguments.add(node.arg)
        elif isinstance(node, ast.AnnAssign):
            found.arguments.add(ast.unparse(node.target))
        elif isinstance(node, ast.Raise):
            fails = True
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            ahead += [(child, True, waits, fails) for child in node.body]
            ahead += [(child, types, waits, fails) for child in node.orelse]
            continue
        ahead += [(child, types, waits, fails) for child in children(node)]
    return found
