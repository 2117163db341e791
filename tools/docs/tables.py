"""Parts that the generated pages share."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from typing import Final

GENERATED: Final = "<!-- `./run docs write` generates this page from the code. Do not edit it. -->"


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", GENERATED, *parts]) + "\n"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    first, *others = [f"| {' | '.join(map(cell, line))} |" for line in (heads, *rows)]
    return "\n".join([first, "|---" * len(heads) + "|", *others])


def cell(text: str) -> str:
    """Return a text in one line that no reader takes for the end of a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return a text between backticks, or nothing for an empty one."""
    return f"`{text}`" if text else ""


def field_texts(owner: type) -> Mapping[str, tuple[str, str, str]]:
    """Return the type, the default and the text of each field of a dataclass, by name.

    The text is the string below the field.
    """
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, tuple[str, str, str]] = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ):
                found[name] = (ast.unparse(annotation), _default(value), inspect.cleandoc(meaning))
    return found


def _default(value: ast.expr | None) -> str:
    match value:
        case None:
            return ""
        case ast.Call(func=ast.Name(id="field"), keywords=keywords):
            given = {keyword.arg: keyword.value for keyword in keywords}
            return ast.unparse(given["default"]) if "default" in given else ""
    return ast.unparse(value)
