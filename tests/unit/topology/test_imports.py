"""The public API is in a few modules, without circular imports."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import kstorm.topology

FOLDER = Path(kstorm.topology.__file__).parent
PACKAGE = "kstorm.topology."


def imported(file: Path) -> Iterator[str]:
    """Yields the files of the folder that a file imports, also for types."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield str(node.module).removeprefix(PACKAGE)
        elif isinstance(node, ast.Import):
            yield from (
                name.name.removeprefix(PACKAGE)
                for name in node.names
                if name.name.startswith(PACKAGE)
            )


def test_imports_have_no_cycle() -> None:
    """`TopologicalSorter` raises `CycleError` with the files of a cycle."""
    needs = {
        file.stem: set(imported(file)) for file in FOLDER.glob("*.py") if file.stem != "__init__"
    }
    assert needs["components"]
    order = list(TopologicalSorter(needs).static_order())
    assert order.index("topology") < order.index("context") < order.index("components")


def test_public_names_come_from_the_package() -> None:
    """The package exports each one once."""
    names = kstorm.topology.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(kstorm.topology, name) for name in names)
