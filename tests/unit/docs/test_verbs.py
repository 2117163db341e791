"""Some page mentions every command of `./run` and of `kstorm`."""

import re
from pathlib import Path

import pytest

from kstorm.cli.__main__ import app

ROOT = Path(__file__).parents[3]
PAGES = "".join(
    page.read_text()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)


def verbs() -> list[str]:
    """Return the commands as users type them: `kstorm drain`, `kstorm topology list`."""
    found = [
        command.callback.__name__.replace("_", "-")
        for command in app.registered_commands
        if command.callback and not command.hidden
    ]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        commands = group.typer_instance.registered_commands
        found += [
            f"{group.name} {command.name or getattr(command.callback, '__name__', '')}"
            for command in commands
        ]
    return sorted(found)


@pytest.mark.parametrize("verb", verbs())
def test_command_of_kstorm_is_documented(verb: str) -> None:
    """`offsets show|set|reset` counts as three."""
    group, _, name = verb.partition(" ")
    several = rf"kstorm {group} [a-z|]*\b{name}\b" if name else rf"kstorm {verb}\b"
    assert re.search(several, PAGES.replace("\\|", "|"))


@pytest.mark.parametrize(
    "verb", re.findall(r"(?m)^    ([a-z0-9]+)\) ready", (ROOT / "run").read_text())
)
def test_command_of_run_is_documented(verb: str) -> None:
    assert re.search(rf"\./run {verb}\b", PAGES)
