"""Reads the prose of a file sentence by sentence, with line numbers.

Prose is the text of Markdown, the docstrings and comments of Python, and the comments of YAML. A message in Python code
is prose too: an argument of a raised exception, of `print` or of a logger, and the value of `help=`. Headings, table
headers, code and texts of less than three words are not prose.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class Sentence(NamedTuple):
    """A sentence, and the line on which it starts."""

    line: int
    text: str


# The lines of one paragraph, list item, table cell or message, with their numbers.
Block = list[tuple[int, str]]

_SHORTEST = 3
_ITEM = re.compile(r"\s*(?:[*+-]|\d+\.)\s+")
_ROW = re.compile(r"\s*\|")
_RULE = re.compile(r"\s*\|[\s|:-]+$")
_CELL = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"(`+).+?\1")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"[.!?…][\"')\]*_]*\s+")
_ABBREVIATIONS = ("e.g.", "i.e.", "vs.", "etc.", "cf.")
_DIRECTIVES = ("#!", "# type:", "# noqa", "# fmt:", "# mypy:", "# ruff:", "# pragma")
_SETTING = re.compile(r"(?:- )?[\w./\"-]+:(?:\s|$)|- |[{}\[\]]")
_COMMENT = re.compile(r"^(\s*)#(.*)|\s#\s(.*)")
_LOGS = {"debug", "info", "warning", "error", "exception", "critical", "print", "echo", "secho"}


def sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a file. Raises `KeyError` for a suffix other than those of `READERS`."""
    for block in READERS[path.suffix](path.read_text()):
        yield from _split(block)


def markdown(text: str) -> Iterator[Block]:
    """Yield paragraphs, list items and table cells."""
    text = re.sub(r"(?s)<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), text)
    yield from _paragraphs(list(enumerate(text.splitlines(), 1)))


def python(text: str) -> Iterator[Block]:
    """Yield the paragraphs of docstrings, the comments and the messages."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring), lineno=line)):
                yield from _paragraphs(_dedented(docstring, line))
            case ast.Raise(exc=ast.Call(args=arguments)):
                yield from _messages(arguments)
            case ast.Call(args=arguments, keywords=keywords):
                yield from _messages(word.value for word in keywords if word.arg == "help")
                if _called(node) in _LOGS:
                    yield from _messages(arguments)
    if "#" in text:
        yield from _comments(text)


def yaml(text: str) -> Iterator[Block]:
    """Yield the comments. A comment that holds a setting is not prose."""
    found: list[tuple[int, int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if comment := _COMMENT.search(line):
            whole_line = comment[1] is not None
            content = comment[2] if whole_line else comment[3]
            if not _SETTING.match(content.strip()):
                found.append((number, len(comment[1]) if whole_line else -1, content))
    yield from _joined(found)


READERS: dict[str, Callable[[str], Iterator[Block]]] = {
    ".md": markdown,
    ".py": python,
    ".yaml": yaml,
    ".yml": yaml,
}


def _paragraphs(lines: Block) -> Iterator[Block]:
    """Split Markdown, or a docstring that uses the same marks."""
    block: Block = []
    fence = after_blank = code = False
    for place, (number, line) in enumerate(lines):
        fence_line = line.lstrip().startswith("```")
        fence ^= fence_line
        blank = not line.strip()
        code = not blank and line.startswith("    ") and (code or after_blank)
        row = _ROW.match(line)
        item = _ITEM.match(line)
        if fence or fence_line or blank or code or row or item or line.startswith(("#", ">>>")):
            yield block
            block = []
        after_blank = blank
        if fence or fence_line or blank or code or line.startswith(("#", ">>>")):
            continue
        if row:
            following = lines[place + 1][1] if place + 1 < len(lines) else ""
            if not _RULE.match(line) and not _RULE.match(following):
                yield from ([(number, cell)] for cell in _CELL.split(line))
        else:
            block.append((number, line[item.end() :] if item else line.lstrip("> ")))
    yield block


def _dedented(docstring: str, line: int) -> Block:
    first, *others = docstring.splitlines() or [""]
    margin = min((len(x) - len(x.lstrip()) for x in others if x.strip()), default=0)
    return [(line, first.strip()), *((line + n, x[margin:]) for n, x in enumerate(others, 1))]


def _comments(text: str) -> Iterator[Block]:
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(_DIRECTIVES):
            row, column = token.start
            whole_line = not token.line[:column].strip()
            found.append((row, column if whole_line else -1, token.string.lstrip("#")))
    yield from _joined(found)


def _joined(comments: Iterable[tuple[int, int, str]]) -> Iterator[Block]:
    """Join comments that fill neighbouring lines. The column of one that follows code is negative."""
    block: Block = []
    expected = (0, 0)
    for line, column, content in comments:
        item = _ITEM.match(content)
        if (line, column) != expected or column < 0 or item or not content.strip():
            yield block
            block = []
        block.append((line, content[item.end() :] if item else content))
        expected = (line + 1, column)
    yield block


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _messages(arguments: Iterable[ast.expr]) -> Iterator[Block]:
    for argument in arguments:
        if isinstance(argument, ast.Constant | ast.JoinedStr):
            yield from ([(argument.lineno, part)] for part in _text(argument).split(";"))


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values))
        case _:
            return "X"


def _split(block: Block) -> Iterator[Sentence]:
    """Split a block into sentences. Code and links count as one word, and as their text."""
    text, starts = "", []
    for number, line in block:
        starts.append((len(text), number))
        text += line.strip() + " "
    # The length stays the same, so that offsets still lead to lines.
    shown = _CODE.sub(lambda code: "X".ljust(len(code[0]), "\0"), text)
    shown = _LINK.sub(lambda link: link[1].ljust(len(link[0]), "\0"), shown)
    begin = 0
    ends = [end.end() for end in _END.finditer(shown)]
    for end in [*ends, len(shown)]:
        if shown[:end].rstrip().endswith(_ABBREVIATIONS) and end != len(shown):
            continue
        sentence = " ".join(re.sub(r"\0|\*\*?|(?<!\w)_|_(?!\w)", "", shown[begin:end]).split())
        if sum(word.strip(".,:;()") != "X" for word in sentence.split()) >= _SHORTEST:
            yield Sentence(max(n for offset, n in starts if offset <= begin), sentence)
        begin = end
