"""How the house is built: imports go down, words mean one thing, documents use what is public."""

import ast
import functools
import importlib
import json
import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import farfield as ff
from module_sources import read

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src"
FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
# For users; decisions are about the inside, and the walk through the code is too.
FOR_USERS = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[a-ce-z]*/*.md")]
PAGES = [ROOT / "README.md", *sorted(set(FOR_USERS) - {ROOT / "docs" / "walk.md"})]
# Modules that call each other on purpose: a method that opens or writes its own file, and the file
# that makes the object again.
TOGETHER = {
    "farfield.guard": {"archive", "certificate", "export", "model", "pt2_file", "verify"},
}


def name_of(path):
    return ".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted((HOUSE / "farfield").rglob("*.py"))}


def imported(path):
    """What a module imports when it runs, inside of functions too; types alone do not run."""
    for node in (each.node for each in read(path).imports if not each.types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif (node.module or "").startswith("farfield"):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module


@functools.cache
def imports():
    """What each module imports."""
    return {name: set(imported(path)) - {name} for name, path in MODULES.items()}


def drawn_floors():
    """The floors as CONTRIBUTING draws them, the highest first."""
    drawing = next(
        block
        for language, block in FENCE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
        if language == "text" and block.startswith("cli")
    )
    return [line.split("  ")[0].split(", ") for line in drawing.splitlines()]


def part(module):
    """The part of the house that a module is in: a package, or a file at the top."""
    return module.split(".")[1] if "." in module else "farfield"


def test_imports_go_down_only():
    floor = {name: height for height, names in enumerate(drawn_floors()) for name in names}
    assert set(floor) == {part(name) for name in MODULES} - {"farfield"}
    up = [
        f"{name} imports {other}"
        for name, others in imports().items()
        for other in others
        if "farfield" not in (part(name), part(other))
        and part(name) != part(other)
        and floor[part(name)] >= floor[part(other)]
    ]
    assert not up, "\n".join(up)


def test_the_package_itself_is_imported_for_its_version_only():
    used = [
        f"{name}: {alias.name}"
        for name, path in MODULES.items()
        for node, *_ in read(path).imports
        if isinstance(node, ast.ImportFrom) and node.module == "farfield" and name != "farfield"
        for alias in node.names
        if alias.name != "__version__" and f"farfield.{alias.name}" not in MODULES
    ]
    assert not used


def test_no_module_imports_itself_in_the_end():
    def kept(name, other):
        package = TOGETHER.get(name.rpartition(".")[0], ())
        inside = name.rpartition(".")[0] == other.rpartition(".")[0]
        return not (inside and {name.rpartition(".")[2], other.rpartition(".")[2]} <= set(package))

    graph = {
        name: {other for other in others if kept(name, other)} for name, others in imports().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_two_classes_share_a_name():
    homes = defaultdict(list)
    for name, path in MODULES.items():
        for word in read(path).classes:
            if not word.startswith("_"):
                homes[word].append(name)
    assert not {word: where for word, where in homes.items() if len(where) > 1}


def public(package):
    """The names that a package promises; a module inside of one promises nothing."""
    if package != "farfield.errors" and MODULES[package].name != "__init__.py":
        return set()
    return set(getattr(importlib.import_module(package), "__all__", ()))


def private_uses(code):
    """Names of farfield in a piece of code that no ``__all__`` holds."""
    tree = ast.parse(code)
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "farfield":
                    aliases[alias.asname or alias.name] = "farfield"
                elif alias.name.startswith("farfield."):
                    yield alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("farfield"):
            yield from unlisted(node.module, [alias.name for alias in node.names])
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            start, _, rest = ast.unparse(node).partition(".")
            if start in aliases and re.fullmatch(r"\w+(\.\w+)*", rest):
                yield from unlisted("farfield", [rest])


def unlisted(package, names):
    """Those of some names, dotted or not, that are private; attributes of objects are their own."""
    for name in names:
        home = package
        for word in name.split("."):
            if word not in public(home):
                yield f"{home}.{word}"
                break
            home = f"{home}.{word}"
            if home not in MODULES or MODULES[home].name != "__init__.py":
                break


def test_private_names_are_noticed():
    code = (
        "import farfield as ff\nff.nonsense\nff.guard.archive\nff.guard.load('x')\n"
        "from farfield.report.plane import save_plane\nimport farfield.exact.germ\n"
        "ff.Audit.from_json('x')\nfrom farfield.datasets import half_moons"
    )
    found = {"farfield.exact.germ", "farfield.report.plane.save_plane", "farfield.nonsense"}
    assert set(private_uses(code)) == {*found, "farfield.guard.archive"}


EXAMPLES = [
    path for path in sorted((ROOT / "examples").rglob("*")) if path.suffix in (".py", ".ipynb")
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_use_what_is_public(path):
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    assert not list(private_uses(text))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_documents_use_what_is_public(path):
    text = path.read_text("utf-8")
    blocks = [block for language, block in FENCE.findall(text) if language in ("python", "py")]
    assert not [name for block in blocks for name in private_uses(block)]
    prose = FENCE.sub("", text)
    named = re.findall(r"`(?:farfield|ff)\.(?!toml\b)(\w+(?:\.\w+)*)", prose)
    assert not [name for each in named for name in unlisted("farfield", [each])]


@pytest.mark.parametrize("package", [name for name in ff.__all__ if f"farfield.{name}" in MODULES])
def test_every_public_package_keeps_its_promises(package):
    module = importlib.import_module(f"farfield.{package}")
    assert sorted(module.__all__) == list(dict.fromkeys(sorted(module.__all__)))
    for name in module.__all__:
        assert hasattr(module, name), name


def test_nothing_is_registered_twice_and_lists_agree():
    """Dictionaries that are written out are ruff's to check (F601); these are put together."""
    from farfield import estimators, reproduce
    from farfield.audit.conclusions import OFFERS
    from farfield.audit.sections import PARTS
    from farfield.cli.train import METHODS
    from farfield.guard.views.registry import VIEWS
    from farfield.guard.views.view import View
    from farfield.report.content.words import SCORES
    from farfield.scores import LOGIT_SCORES, PROBABILITY_SCORES

    for names in (
        [part.name for part in PARTS],
        [offer.name for offer in OFFERS],
        reproduce.NAMES,
    ):
        assert len(set(names)) == len(names)
    assert {*PROBABILITY_SCORES, *LOGIT_SCORES} <= set(SCORES)
    learners = {name for name in estimators.__all__ if name.endswith(("Classifier", "Regressor"))}
    assert set(METHODS.values()) == learners
    views = [view for view in View.__subclasses__() if view.__module__.startswith("farfield.")]
    assert sorted(VIEWS) == sorted(view.name for view in views)


def test_registries_refuse_a_second_entry():
    import farfield.graph.onnx.operators
    import farfield.graph.scikit.read  # noqa: F401 - these register them
    from farfield.graph.onnx.node import operator
    from farfield.graph.rules import RULES, register
    from farfield.graph.scikit import registry

    for target in list(RULES)[:3]:
        with pytest.raises(ValueError, match="has a rule already"):
            register(target, RULES[target])
    with pytest.raises(ValueError, match="Relu has a reading already"):
        operator("Relu")(len)
    with pytest.raises(ValueError, match="SVC has a reader already"):
        registry.classifier("SVC")(len)
