"""Write ``docs/cli.md`` from the commands themselves: ``python -m farfield.cli.document FILE``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import click

from farfield.cli import farfield, main

HEAD = """# The command line

This page is generated from the commands by `make docs`; `farfield COMMAND --help` says the same.
"""


def commands_page() -> str:
    """Render every command as Markdown."""
    with click.Context(farfield, info_name="farfield") as outer:
        commands = [farfield.commands[name] for name in farfield.list_commands(outer)]
        codes = inspect.getdoc(main).partition("Exit codes: ")[2].replace("\n", " ")  # type: ignore[union-attr]
        parts = [HEAD, f"\nExit codes: {codes}\n"]
        parts += [_section(each, click.Context(each, outer, each.name)) for each in commands]
    return "".join(parts)


def _section(command: click.Command, context: click.Context) -> str:
    """One command: usage, what it does, its options, examples."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    rows = [_row(option, context) for option in command.params if isinstance(option, click.Option)]
    table = "\n| option | |\n|---|---|\n" + "".join(rows) if rows else ""
    return (
        f"\n## {context.command_path}\n\n```text\n{usage}\n```\n\n{_prose(command)}\n"
        f"{table}{_examples(command)}"
    )


def _prose(command: click.Command) -> str:
    """What a command's help says, in one paragraph for each of its own."""
    paragraphs = inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _row(option: click.Option, context: click.Context) -> str:
    """One option, as a row of a table."""
    names, meaning = option.get_help_record(context) or ("", "")
    text = " ".join(meaning.split()).replace("|", "\\|").replace("<", "&lt;")
    return f"| `{names.replace('|', chr(92) + '|')}` | {text} |\n"


def _examples(command: click.Command) -> str:
    """The examples at the end of a command's help."""
    lines = (command.epilog or "").replace("\b", "").strip().splitlines()
    shown = [line.strip() for line in lines if line.startswith("  ")]
    return "\n```sh\n" + "\n".join(shown) + "\n```\n" if shown else ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(commands_page(), encoding="utf-8")
