"""Translate a file of Storm's Flux to kstorm's keys and classes. Comments and layout stay.

The translation replaces keys, names and classes where they stand in the text. A line that a person
must complete gets a comment with `TODO`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kstorm.errors import ConfigError
from kstorm.fitting import checked
from kstorm.topology import Config

_KEYS: Final = {
    "className": "class",
    "configMethods": "config_methods",
    "constructorArgs": "args",
    "customClass": "custom_class",
    "factoryArgs": "args",
    "numTasks": "tasks",
    "streamId": "stream_id",
}
_REMOVED: Final = {
    "cpuLoad": "set the chart's components.ID.resources",
    "offHeapMemoryLoad": "set the chart's components.ID.resources",
    "onHeapMemoryLoad": "set the chart's components.ID.resources",
    "workerHooks": "create what a process needs in open() or prepare()",
}
_CONFIGS: Final = (("config",), ("spouts", "config"), ("bolts", "config"))
"""The places of settings."""
_OF_KAFKA: Final = (
    *(
        "KafkaSpout",
        "KeyValueSchemeAsMultiScheme",
        "SpoutConfig",
        "StaticHosts",
        "StringKeyValueScheme",
    ),
    *("StringScheme", "StringMultiSchemeWithTopic", "ZkHosts"),
)
_OF_TESTING: Final = ("NGrouping", "TestGlobalCount", "TestWordCounter", "TestWordSpout")
_PACKAGES: Final = (
    ("org.apache.storm.kafka.", _OF_KAFKA, "kstorm.kafka"),
    ("storm.kafka.", _OF_KAFKA, "kstorm.kafka"),
    ("org.apache.storm.kafka.bolt.", ("KafkaBolt",), "kstorm.kafka"),
    ("org.apache.storm.testing.", _OF_TESTING, "kstorm.testing"),
    ("backtype.storm.testing.", _OF_TESTING, "kstorm.testing"),
    ("org.apache.storm.flux.wrappers.spouts.Flux", ("ShellSpout",), "kstorm.multilang"),
    ("org.apache.storm.flux.wrappers.bolts.Flux", ("ShellBolt",), "kstorm.multilang"),
    ("org.apache.storm.spout.", ("SchemeAsMultiScheme",), "kstorm.kafka"),
    ("backtype.storm.spout.", ("SchemeAsMultiScheme",), "kstorm.kafka"),
    ("org.apache.storm.tuple.", ("Fields",), "kstorm.topology"),
)
"""Prefixes of Java classes, the classes with a counterpart, and the module of that."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A translated file."""

    text: str
    """The file with kstorm's keys and classes."""
    remarks: tuple[str, ...]
    """The places that a person must complete: the line in `text`, from 1, and what to do."""

    def difference(self, before: str, name: str) -> str:
        """Return the changes as a unified diff. `before` is the file's text, `name` its name."""
        lines = unified_diff(
            before.splitlines(keepends=True), self.text.splitlines(keepends=True), name, name
        )
        return "".join(lines)


@checked()
def migrate(text: str, file: str = "the file") -> Migration:
    """Translate the text of a Flux file. `file` is its name in errors.

    Raises `ConfigError` with line and column if the text is not YAML with a mapping.
    """
    try:
        root = yaml.compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(f"{file}{where}: this is not YAML: {error.problem}") from None
    if not isinstance(root, MappingNode):
        raise ConfigError(f"{file}: a Flux file is a mapping with name, config and spouts")
    translation = _Translation(text)
    translation.mapping(root, ())
    return translation.result()


class _Translation:
    """The changes of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[tuple[int, int, str]] = []
        self._remarks: dict[int, list[str]] = {}
        self._out: set[int] = set()

    def mapping(self, node: MappingNode, path: tuple[str, ...]) -> None:
        for key, value in node.value:
            name = str(key.value)
            if path in _CONFIGS:
                self._setting(key, value)
            elif (*path, name) in _CONFIGS and _is_left_out(value):
                self._leave_out(key, value, "none of its settings has a counterpart in kstorm")
            elif name in _REMOVED:
                self._leave_out(key, value, _REMOVED[name])
            elif name == "topologySource":
                self._source(key, value)
            else:
                if name in _KEYS:
                    self._replace(key, _KEYS[name])
                if name == "className":
                    self._class(value)
                elif name == "name" and path[-1:] in (("properties",), ("configMethods",)):
                    self._replace(value, _snake(value.value))
                self._below(value, (*path, name))

    def _below(self, node: Node, path: tuple[str, ...]) -> None:
        if isinstance(node, MappingNode):
            self.mapping(node, path)
        elif isinstance(node, SequenceNode):
            for each in node.value:
                self._below(each, path)

    def _class(self, node: ScalarNode) -> None:
        name = str(node.value)
        for prefix, classes, module in _PACKAGES:
            found = name.removeprefix(prefix)
            if name.startswith(prefix) and found in classes:
                self._replace(node, f"{module}:{found}")
                return
        self._remark(
            node,
            f"write {name} in Python, and name it here as package.module:{name.split('.')[-1]}",
        )

    def _setting(self, key: ScalarNode, value: Node) -> None:
        known = _settings()
        name = str(key.value)
        if name in known:
            self._replace(key, known[name])
        elif name.startswith("topology."):
            self._leave_out(key, value, "kstorm has no such setting")

    def _source(self, key: ScalarNode, value: Node) -> None:
        self._replace(key, "topology_source")
        self._remark(key, "add function: package.module:function, which returns the topology")
        if isinstance(value, MappingNode):
            for name, inner in value.value:
                if name.value in ("className", "methodName"):
                    self._leave_out(name, inner, "the function takes its place")
                elif name.value in _KEYS:
                    self._replace(name, _KEYS[name.value])

    def _replace(self, node: Node, text: str) -> None:
        begin, end = node.start_mark.index, node.end_mark.index
        quote = self._text[begin : begin + 1]
        if quote in "\"'":
            text = f"{quote}{text}{quote}"
        elif isinstance(node, ScalarNode) and ":" in text and self._in_flow(node):
            text = f'"{text}"'
        if self._text[begin:end] != text:
            self._edits.append((begin, end, text))

    def _in_flow(self, node: Node) -> bool:
        """Return True if brackets or braces on its line may contain a value."""
        line = self._text.rfind("\n", 0, node.start_mark.index) + 1
        return bool(re.search(r"[\[{]", self._text[line : node.start_mark.index]))

    def _leave_out(self, key: ScalarNode, value: Node, remedy: str) -> None:
        """Turn an entry into a comment if it has its lines to itself."""
        first, last = key.start_mark.line, value.end_mark.line
        if value.end_mark.column == 0 and last > first:
            last -= 1
        if self._in_flow(key):
            self._remark(key, f"remove {key.value}: {remedy}")
            return
        self._out |= set(range(first, last + 1))
        self._remark(key, f"removed {key.value}: {remedy}", todo=False)

    def _remark(self, node: Node, what: str, todo: bool = True) -> None:
        prefix = "TODO: " if todo else ""
        self._remarks.setdefault(node.start_mark.line, []).append(f"{prefix}{what}")

    def result(self) -> Migration:
        text = self._text
        for begin, end, new in sorted(self._edits, reverse=True):
            text = text[:begin] + new + text[end:]
        lines: list[str] = []
        remarks: list[str] = []
        for number, line in enumerate(text.split("\n")):
            if number in self._out:
                indent = len(line) - len(line.lstrip())
                line = f"{line[:indent]}# {line[indent:]}"
            for what in self._remarks.get(number, ()):
                line = f"{line.rstrip()}  # {what}"
                remarks.append(f"{number + 1}: {what.removeprefix('TODO: ')}")
            lines.append(line)
        return Migration("\n".join(lines), tuple(remarks))


def _is_left_out(config: Node) -> bool:
    """Return True if no setting is left in a `config`, which then cannot stay."""
    return not isinstance(config, MappingNode) or all(
        str(key.value).startswith("topology.") and str(key.value) not in _settings()
        for key, _ in config.value
    )


def _settings() -> Mapping[str, str]:
    return {name.replace("_", "."): name for name in _names_of(Config)}


def _names_of(kind: Any) -> Iterator[str]:
    yield from (name for name in kind.__dataclass_fields__ if name != "own")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
