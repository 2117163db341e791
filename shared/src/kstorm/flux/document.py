"""A parsed YAML file: its values and their positions in the file."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kstorm.errors import ConfigError
from kstorm.flux.substitution import REFERENCE, Replacements

Step = str | int
"""A key of a mapping or an index of a list."""

_TEXT: Final = "tag:yaml.org,2002:str"
_KINDS: Final = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "null")}
_NUMBERS: Final = {"tag:yaml.org,2002:float", "tag:yaml.org,2002:int"}
_NO_KEYS: Final = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "null", "timestamp")}
_MERGE: Final = "tag:yaml.org,2002:merge"
_AMBIGUOUS: Final = re.compile(r".*:.*|[-+]?0[0-9_]+")
_MOST_VALUES: Final = 100_000
"""Maximum number of values in a file, counting each alias as a copy."""


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position in a file. Lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file."""

    file: str
    values: Any
    _root: Node

    def place(self, path: Iterable[Step] = (), *, key: bool = False) -> FilePosition:
        """Return the position of a value, or of its key. If it does not exist, return that of its
        nearest ancestor."""
        node = shown = self._root
        for step in path:
            found = _entry(node, step)
            if found is None:
                break
            shown, node = (found[0] if key else found[1]), found[1]
        return _place(self.file, shown)


def parse(text: str, file: str, replacements: Replacements) -> Document:
    """Parse a YAML file and replace `${…}`. Tags can only produce plain values.

    Raises `ConfigError` with the position.
    """
    try:
        return _parsed(text, file, replacements)
    except yaml.MarkedYAMLError as error:
        at = (
            ""
            if error.problem_mark is None
            else f":{error.problem_mark.line + 1}:{error.problem_mark.column + 1}"
        )
        raise ConfigError(f"{file}{at}: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {' '.join(str(error).split())}") from None
    except (
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
        # raised by PyYAML, for example for `!!int ''`
    ) as error:
        raise ConfigError(
            f"{file} has a value that does not fit its tag, or is nested too deeply: {error}"
        ) from None


def _parsed(text: str, file: str, replacements: Replacements) -> Document:
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node() or MappingNode("tag:yaml.org,2002:map", [])
        _NodeWalk(file, replacements, loader).check(root)
        return Document(file, loader.construct_document(root), root)
    finally:
        loader.dispose()


class _NodeWalk:
    """Walks a file's nodes, rejects duplicate keys and cycles, and replaces `${…}`."""

    def __init__(self, file: str, replacements: Replacements, loader: yaml.SafeLoader) -> None:
        self._file = file
        self._replacements = replacements
        self._loader = loader
        self._above: list[Node] = []
        self._sizes: dict[int, int] = {}

    def check(self, node: Node) -> None:
        """Check a node and everything below it."""
        if any(node is one for one in self._above):
            raise ConfigError(
                f"{_place(self._file, node)}: this value contains itself; an alias must not refer "
                "to a value that contains it"
            )
        if isinstance(node, ScalarNode):
            self._refuse_ambiguous(node)
            return
        if id(node) in self._sizes:
            return
        self._above.append(node)
        if isinstance(node, MappingNode):
            self._refuse_twice(node)
            for key, _ in node.value:
                self._refuse_key(key)
            node.value = [(key, self._replaced(value)) for key, value in node.value]
            for _, value in node.value:
                self.check(value)
        elif isinstance(node, SequenceNode):
            node.value = [self._replaced(value) for value in node.value]
            for value in node.value:
                self.check(value)
        self._above.pop()
        self._weigh(node)

    def _weigh(self, node: Node) -> None:
        """Refuse too many nested aliases, because a few lines of them can expand to billions of
        values."""
        below = (
            [one for _, one in node.value] if isinstance(node, MappingNode) else list(node.value)
        )
        size = self._sizes[id(node)] = 1 + sum(self._sizes.get(id(one), 1) for one in below)
        if size > _MOST_VALUES:
            raise ConfigError(
                f"{_place(self._file, node)}: with its aliases, this value has more than "
                f"{_MOST_VALUES:,} values: write fewer aliases of values that contain aliases"
            )

    def _refuse_ambiguous(self, node: ScalarNode) -> None:
        """Refuse numbers that YAML 1.1 reads in another base: 10:30 is 630, and 012 is 10."""
        if node.style is None and node.tag in _NUMBERS and _AMBIGUOUS.fullmatch(node.value):
            number = self._loader.construct_object(node)
            raise ConfigError(
                f"{_place(self._file, node)}: {node.value} means {number} in YAML: write {number} "
                f"for the number, or '{node.value}' for text"
            )

    def _refuse_key(self, node: Node) -> None:
        """Refuse keys without quotes that YAML 1.1 does not read as text: on, No, ~, 2026-11-23."""
        if not isinstance(node, ScalarNode):
            return
        self._refuse_ambiguous(node)
        if node.style is None and node.tag in _NO_KEYS:
            value = self._loader.construct_object(node)
            raise ConfigError(
                f"{_place(self._file, node)}: the key {node.value} means {value} in YAML: write "
                f"'{node.value}' for text"
            )

    def _refuse_twice(self, node: MappingNode) -> None:
        known: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in known:
                    raise ConfigError(
                        f"{_place(self._file, key)}: the key {key.value!r} appears twice: keep one"
                    )
                known.add((key.tag, key.value))

    def _replaced(self, node: Node) -> Node:
        if not isinstance(node, ScalarNode) or not REFERENCE.search(node.value):
            return node
        alone = REFERENCE.fullmatch(node.value) is not None
        try:
            text = REFERENCE.sub(self._one, node.value)
        except ConfigError as error:
            raise ConfigError(f"{_place(self._file, node)}: {error}") from None
        if node.style is not None or node.tag != _TEXT:
            return self._scalar(node, text, node.tag)
        if alone and text.startswith("["):
            return SequenceNode(
                "tag:yaml.org,2002:seq", [self._item(node, item) for item in self._list(node, text)]
            )
        return self._read(node, text)

    def _one(self, match: re.Match[str]) -> str:
        if match["literal"]:
            return match[0][1:]
        return self._replacements.get(match["name"], _texts_of)

    def _list(self, node: ScalarNode, text: str) -> list[ScalarNode]:
        found = _items_of(text)
        if found is None:
            raise ConfigError(
                f"{_place(self._file, node)}: {node.value} starts like a list, but is not a list "
                "of single values: write [a, b]"
            )
        return found

    def _item(self, node: Node, item: ScalarNode) -> ScalarNode:
        return (
            self._read(node, item.value)
            if item.style is None
            else self._scalar(node, item.value, _TEXT)
        )

    def _read(self, node: Node, text: str) -> ScalarNode:
        """Resolve text as YAML resolves a value without quotes. Times, values that look like times,
        and numbers that begin with 0 remain text."""
        tag = _tag_of(self._loader, text)
        plain = tag in _KINDS and _AMBIGUOUS.fullmatch(text) is None
        return self._scalar(node, text, tag if plain else _TEXT)

    def _scalar(self, node: Node, text: str, tag: str) -> ScalarNode:
        return ScalarNode(
            tag, text, node.start_mark, node.end_mark, style="'" if tag == _TEXT else None
        )


def _tag_of(loader: yaml.SafeLoader, text: str) -> str:
    return str(loader.resolve(ScalarNode, text, (True, False)))  # type: ignore[no-untyped-call]


def _items_of(text: str) -> list[ScalarNode] | None:
    """Return the items of a list of scalars. Return None if the text is not such a list."""
    try:
        found = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    if not isinstance(found, SequenceNode) or not all(
        isinstance(item, ScalarNode) for item in found.value
    ):
        return None
    return list(found.value)


def _texts_of(text: str) -> list[str] | None:
    found = _items_of(text)
    return None if found is None else [str(item.value) for item in found]


def _entry(node: Node, step: Step) -> tuple[Node, Node] | None:
    """Return the key and the value of a mapping's entry. For an item of a list, return the item
    twice."""
    if isinstance(node, MappingNode) and isinstance(step, str):
        return next(_entries(node, step), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _entries(node: MappingNode, name: str) -> Iterator[tuple[Node, Node]]:
    return (
        (key, value)
        for key, value in node.value
        if isinstance(key, ScalarNode) and key.value == name
    )


def _place(file: str, node: Node) -> FilePosition:
    mark = node.start_mark
    return (
        FilePosition(file, 1, 1)
        if mark is None
        else FilePosition(file, mark.line + 1, mark.column + 1)
    )
