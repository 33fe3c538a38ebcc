"""``docs/cli.md`` is what the commands say of themselves."""

from pathlib import Path

from click.testing import CliRunner

from farfield.cli import farfield
from farfield.cli.document import commands_page

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text("utf-8") == commands_page(), "run make docs"


def test_every_command_and_option_is_there():
    text = commands_page()
    for name, command in farfield.commands.items():
        section = text.split(f"\n## farfield {name}\n")[1].split("\n## ")[0]
        assert all(
            opt in section for option in command.params for opt in option.opts if opt[0] == "-"
        )


def test_rules_are_explained_in_a_terminal():
    shown = CliRunner().invoke(farfield, ["explain", "rules"]).output
    assert shown.startswith("Copies: values are moved, nothing is computed\n")
    relu = next(line for line in shown.splitlines() if line.split()[:1] == ["aten.relu"])
    assert relu.split(maxsplit=1)[1] == "max(x, 0)."
    assert "|" not in shown
