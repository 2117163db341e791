"""No two modules of the product import each other, not even for types or within a function."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = [ROOT / "shared/src", *sorted((ROOT / "services").glob("*/src"))]


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
        for source in SOURCES
        for path in source.rglob("*.py")
    }


def imports(tree: ast.AST, known: Mapping[str, object]) -> Iterator[str]:
    """Yield the known modules that a module imports anywhere, also if only for types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "the product uses absolute imports"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else str(node.module)


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the groups of modules that import each other."""
    above = {name: reachable(name, graph) for name in graph}
    groups = [{other for other in above[name] if name in above[other]} for name in graph]
    return [each for number, each in enumerate(groups) if each and each not in groups[:number]]


def reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_product_has_no_import_circles() -> None:
    known = modules()
    graph = {
        name: {other for other in imports(ast.parse(path.read_text()), known) if other in known}
        - {name}
        for name, path in known.items()
    }
    assert len(graph) > 400
    assert circles(graph) == []


def test_circles_of_types_are_found() -> None:
    lines = {
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b import B\n",
        "b": "def make():\n    import c\n",
        "c": "from a import A\n",
        "d": "import a\n",
    }
    graph = {name: set(imports(ast.parse(text), lines)) & {*lines} for name, text in lines.items()}
    assert circles(graph) == [{"a", "b", "c"}]
