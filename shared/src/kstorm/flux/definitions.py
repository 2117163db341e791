"""Convert a file's values to definitions. Errors name the position and the correct form."""

import re
from difflib import get_close_matches
from typing import Final

import msgspec

from kstorm.errors import ConfigError
from kstorm.flux.document import Document, Step
from kstorm.flux.model import GROUPING_TYPES, KINDS, TopologyDef

_RESOURCES: Final = (
    "set the memory and CPU of a component in the chart's values: components.ID.resources"
)
_FLUX: Final = {
    "className": "write class: package.module:Class",
    "constructorArgs": "write args",
    "factoryArgs": "write args",
    "configMethods": "write config_methods",
    "numTasks": "write tasks",
    "streamId": "write stream_id",
    "customClass": "write custom_class",
    "topologySource": "write topology_source, with function: package.module:function",
    "methodName": "write function: package.module:function",
    "workerHooks": "kstorm has no worker hooks; create what a process needs in open() of its "
    "spout or prepare() of its bolt",
    "onHeapMemoryLoad": _RESOURCES,
    "offHeapMemoryLoad": _RESOURCES,
    "cpuLoad": _RESOURCES,
}
"""Keys of Storm's Flux that have another name or no counterpart in kstorm, each with a remedy."""

_PATH: Final = re.compile(r"(?: - at|in) `(\$[^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_WORDS: Final = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a mapping",
    "str": "text",
}


_KEYS: Final = sorted({name for kind in KINDS for name in kind.__struct_encode_fields__})


def read_definitions(document: Document) -> TopologyDef:
    """Return the definitions of a file. Raises `ConfigError` for the first invalid value."""
    try:
        return msgspec.convert(document.values, TopologyDef)
    except msgspec.ValidationError as error:
        raise ConfigError(_told(document, str(error))) from None


def _told(document: Document, message: str) -> str:
    path: list[Step] = []
    if at := _PATH.search(message):
        message = message[: at.start()]
        path = [name or int(index) for name, index in _STEP.findall(at[1])]
    if unknown := re.fullmatch("Object contains unknown field `(.*)`", message):
        path.append(unknown[1])
        return f"{document.place(path, key=True)}: {_unknown(unknown[1], path)}"
    if missing := re.fullmatch("Object missing required field `(.*)`", message):
        return f"{document.place(path)}: {_named(path)} has no {missing[1]!r}: add it"
    if invalid := re.fullmatch("Invalid enum value (.*)", message):
        kinds = ", ".join(sorted(GROUPING_TYPES))
        return f"{document.place(path)}: {_named(path)}: {invalid[1]} is not one of {kinds}"
    said = re.sub("`([a-z]+)`", lambda match: _WORDS.get(match[1], match[1]), message)
    said = said.removeprefix("Expected ").replace(" at `key`", "").replace(" - at `key`", " as key")
    expected, _, got = said.partition(", got ")
    return f"{document.place(path)}: {_named(path)} must be {expected}{got and f', but is {got}'}"


def _unknown(key: str, path: list[Step]) -> str:
    if key in _FLUX:
        return f"{key!r} is a key of Storm's Flux: {_FLUX[key]}"
    close = get_close_matches(key, _KEYS, 1, 0.75)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"there is no key {key!r} {_where(path)}{meant}"


def _where(path: list[Step]) -> str:
    return f"in {_named(path[:-1])}" if path[:-1] else "in a topology's file"


def _named(path: list[Step]) -> str:
    """Format a path, as in `spouts[0].parallelism`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(
        "."
    )
    return text or "the file"
