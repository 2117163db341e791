"""The README, the documentation and the examples import public names only."""

import ast
import importlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstorm

ROOT = Path(__file__).parents[3]
PUBLIC = re.findall(
    r"^\| `(kstorm[\w.]*)` \|", (ROOT / "docs/reference/public.md").read_text(), re.MULTILINE
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [
    path for path in sorted((ROOT / "examples").rglob("*")) if path.suffix in (".py", ".yaml")
]


def names_of(module: str) -> set[str]:
    found = importlib.import_module(module)
    return set(getattr(found, "__all__", [name for name in vars(found) if name[0] != "_"]))


def imports_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import of kstorm in code."""
    for statement in re.findall(
        r"^[ \t]*from kstorm[\w.]* import (?:\([^)]*\)|[^\n(]*)", text, re.MULTILINE
    ):
        (node,) = ast.parse(textwrap.dedent(statement).strip()).body
        assert isinstance(node, ast.ImportFrom)
        yield from ((str(node.module), alias.name) for alias in node.names)
    yield from re.findall(r"\b(kstorm[\w.]*):([A-Z]\w*)", text)


def private_imports(text: str) -> list[str]:
    return [
        f"{module}.{name}"
        for module, name in imports_of(text)
        if f"{module}.{name}" not in PUBLIC
        and (module not in PUBLIC or name not in names_of(module))
    ]


@pytest.mark.parametrize("path", PAGES + EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_are_public(path: Path) -> None:
    assert private_imports(path.read_text()) == []


def test_private_imports_are_found() -> None:
    text = (
        "    from kstorm.core.wire import (\n        decode,\n    )\n"
        "from kstorm.kafka import KafkaSpout, nothing\nclass: kstorm.kafka.spout:KafkaSpout\n"
    )
    assert private_imports(text) == [
        "kstorm.core.wire.decode",
        "kstorm.kafka.nothing",
        "kstorm.kafka.spout.KafkaSpout",
    ]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_exist(module: str) -> None:
    found = importlib.import_module(module)
    assert all(hasattr(found, name) for name in names_of(module))


def test_first_names_are_those_of_their_modules() -> None:
    for name in kstorm.__all__:
        homes = [each for each in PUBLIC[1:] if each in ("kstorm.topology", "kstorm.kafka")]
        assert any(
            getattr(importlib.import_module(home), name, None) is getattr(kstorm, name)
            for home in homes
        )
    with pytest.raises(AttributeError, match="has no attribute 'Bolts'"):
        getattr(kstorm, "Bolts")  # noqa: B009


def test_import_of_kstorm_imports_nothing_else() -> None:
    """The set-up and the development images import it without its dependencies."""
    code = "import sys, kstorm; print(*(m for m in sys.modules if m.startswith(('kstorm.', 'msgspec', 'numpy'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
