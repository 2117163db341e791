"""Replace `${name}` in a topology's YAML file from a properties file, and `${ENV-NAME}` from the
environment.

Only values are replaced, after the YAML is parsed. So a replacement can never add a key or end a
quoted text. A replaced value without quotes may become a number, true, false or null. If `${name}`
is the whole value, the replacement may also be a list of such values. `$${name}` is the literal
text `${name}`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kstorm.errors import ConfigError

REFERENCE = re.compile(r"\$(?P<literal>\$)?\{(?P<name>[^{}]*)\}")
_ENVIRONMENT = "ENV-"
_PROPERTY = re.compile(r"([^:=\s]+)\s*[:=]\s*(.*)")
_ITEM = re.compile(r"(?P<list>.+)\[(?P<index>\d+)\]")


@dataclass(frozen=True, slots=True)
class Replacements:
    """The sources of replacement values."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    filter: str = ""
    """Path of the properties file. Empty without one."""

    def get(self, name: str, items: Callable[[str], list[str] | None]) -> str:
        """Return the value of a name. `items` splits a text that is a list into its items. Raises
        `ConfigError` if the name is unknown."""
        if name.startswith(_ENVIRONMENT):
            return self._variable(name.removeprefix(_ENVIRONMENT))
        item = _ITEM.fullmatch(name)
        if item is None or name in self.properties:
            return self._property(name)
        text = self._property(item["list"])
        found = items(text)
        if found is None or int(item["index"]) >= len(found):
            what = "is not a list" if found is None else f"has {len(found)} items, numbered from 0"
            raise ConfigError(f"${{{name}}}: the property {item['list']!r} of {self.filter} {what}")
        return found[int(item["index"])]

    def _variable(self, name: str) -> str:
        if name not in self.environment:
            raise ConfigError(
                f"${{{_ENVIRONMENT}{name}}}: the environment variable {name!r} is not set: set it"
            )
        return self.environment[name]

    def _property(self, name: str) -> str:
        if name in self.properties:
            return self.properties[name]
        if not self.filter:
            raise ConfigError(
                f"${{{name}}}: there is no properties file: name one with --filter or "
                f"KSTORM_TOPOLOGY_FILTER, or use an environment variable, ${{{_ENVIRONMENT}NAME}}"
            )
        known = ", ".join(self.properties) or "none"
        raise ConfigError(f"${{{name}}}: {self.filter} has no property {name!r}; it has {known}")


def parse_properties(text: str, file: str) -> dict[str, str]:
    """Parse a properties file with lines `name: value` or `name=value`. Raises `ConfigError` with
    the line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        written = line.strip()
        if not written or written[0] in "#!":
            continue
        match = _PROPERTY.fullmatch(written)
        if match is None:
            raise ConfigError(
                f"{file}:{number}: {written!r} is not a property: write name: value, or name=value"
            )
        name, value = match.groups()
        if "\\" in written:
            raise ConfigError(
                f"{file}:{number}: a properties file cannot contain backslashes: write {name!r} "
                "into the YAML file"
            )
        if name in found:
            raise ConfigError(f"{file}:{number}: the property {name!r} appears twice: keep one")
        found[name] = value
    return found
