"""Pages of the public modules. mkdocstrings fills them in from docstrings."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from tools.docs.tables import page

PUBLIC: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "public.md"


def modules() -> dict[str, str]:
    """Return the text about each public module, by its name."""
    rows = re.findall(r"(?m)^\| `(kstorm[\w.]*)` \| (.*) \|$", PUBLIC.read_text())
    return {name: text for name, text in rows if name != "kstorm"}


def api_pages() -> dict[str, str]:
    """Return the pages, by their file in docs/reference/api."""
    found = {
        f"{name}.md": page(f"`{name}`", _about(text), *_directives(name))
        for name, text in modules().items()
    }
    listed = "\n".join(
        f"* [`{name}`]({name}.md): {_about(text)}" for name, text in modules().items()
    )
    return {"README.md": page("API", "The public modules, from their docstrings:", listed)} | found


def _about(text: str) -> str:
    """Return the text without a link's target."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return f"{plain[:1].upper()}{plain[1:]}."


def _directives(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    for each in names_of(module):
        yield f"::: {name}.{each}"


def names_of(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed, key=str.lower)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    )
