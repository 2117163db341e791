"""Create the objects that a topology file defines: import their classes and call them.

The author of the file chooses which classes are imported and called. So the file must be as trusted
as code.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import UNSET

from kstorm.errors import ConfigError
from kstorm.flux.calls import call_at, convert_arguments, find_at, hints_of, method_of
from kstorm.flux.document import FilePosition, Step
from kstorm.flux.model import ComponentDef, ObjectDef, PropertyDef
from kstorm.flux.wiring import Located
from kstorm.references import ExpectedKind

CLASS: Final = ExpectedKind(
    "class", lambda module, value: isinstance(value, type) and value.__module__ == module.__name__
)

_STORMS: Final = {
    "org.apache.storm.flux.wrappers.bolts.FluxShellBolt": "kstorm.multilang:ShellBolt",
    "org.apache.storm.flux.wrappers.spouts.FluxShellSpout": "kstorm.multilang:ShellSpout",
}
"""Classes of Storm that a file may name, because kstorm has the same under another name."""


class Objects:
    """The components. Each one is created once, on the first reference to it."""

    def __init__(self, components: Mapping[str, Located[ComponentDef]]) -> None:
        self._defined = components
        self._made: dict[str, Any] = {}
        self._making: list[str] = []

    def component(self, id: str, at: FilePosition) -> Any:
        """Return the component with this ID. Raises `ConfigError` if it does not exist or depends
        on itself."""
        if not isinstance(id, str) or id not in self._defined:
            known = ", ".join(map(repr, self._defined)) or "none"
            raise ConfigError(f"{at}: there is no component {id!r}: the components are {known}")
        if id in self._making:
            raise ConfigError(
                f"{at}: the component {id!r} needs itself: {' → '.join([*self._making, id])}"
            )
        if id not in self._made:
            self._making.append(id)
            self._made[id] = self.make(self._defined[id])
            self._making.pop()
        return self._made[id]

    def make(self, defined: Located[Any], *further: Step) -> Any:
        """Create an object from a definition or a part of one, set its properties and call its
        methods."""
        definition: ObjectDef = defined.value
        for step in further:
            definition = getattr(definition, str(step))
        where = Located(definition, defined.document, (*defined.path, *further))
        made = self._constructed(where)
        made = self._with_properties(made, where)
        for index, method in enumerate(definition.config_methods):
            at = where.at("config_methods", index, "name")
            returned = self.call(
                method_of(made, method.name, at), where, ("config_methods", index), method.name
            )
            # Methods of frozen objects return a copy.
            if isinstance(returned, type(made)):
                made = returned
        return made

    def call(
        self,
        function: Callable[..., Any],
        where: Located[Any],
        path: Sequence[Step],
        name: str,
        further: Mapping[str, Any] = MappingProxyType({}),
    ) -> Any:
        """Call a function with the `args` and `kwargs` at a path below a definition. `further` adds
        arguments by name."""
        found: Any = where.value
        for step in path:
            found = found[step] if isinstance(step, int) else getattr(found, step)
        args = [
            self.value(arg, where, (*path, "args", index)) for index, arg in enumerate(found.args)
        ]
        kwargs = {
            key: self.value(arg, where, (*path, "kwargs", key)) for key, arg in found.kwargs.items()
        }
        places = (
            [where.at(*path, "args", index) for index in range(len(args))],
            {key: where.at(*path, "kwargs", key) for key in kwargs},
        )
        return call_at(function, args, {**further, **kwargs}, where.at(*path), name, places)

    def value(self, value: Any, where: Located[Any], path: Sequence[Step]) -> Any:
        """Return a value with all references in it, at any depth, replaced by their components."""
        if isinstance(value, list):
            return [self.value(one, where, (*path, index)) for index, one in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"ref"}:
            return self.component(value["ref"], where.at(*path))
        if value.keys() == {"reflist"}:
            ids = value["reflist"] if isinstance(value["reflist"], list) else [value["reflist"]]
            return [
                self.component(id, where.at(*path, "reflist", index))
                for index, id in enumerate(ids)
            ]
        return {key: self.value(one, where, (*path, key)) for key, one in value.items()}

    def _constructed(self, where: Located[ObjectDef]) -> Any:
        definition = where.value
        at = where.at("class")
        found = find_at(_STORMS.get(definition.class_, definition.class_), CLASS, at)
        if not isinstance(found, type):
            raise ConfigError(
                f"{at}: {definition.class_!r} is a {type(found).__name__}, not a class"
            )
        if definition.factory:
            return self.call(
                method_of(found, definition.factory, where.at("factory")),
                where,
                (),
                definition.factory,
            )
        return self.call(found, where, (), found.__name__)

    def _with_properties(self, made: Any, where: Located[ObjectDef]) -> Any:
        given: dict[str, tuple[FilePosition, Any]] = {}
        for index, one in enumerate(where.value.properties):
            at = where.at("properties", index)
            given[one.name] = (at, self._property(one, where, index, at))
        if given and _is_frozen(type(made)):
            return _replaced(
                made,
                {name: value for name, (_, value) in given.items()},
                where.at("properties"),
                {name: at for name, (at, _) in given.items()},
            )
        for name, (at, value) in given.items():
            _set(made, name, value, at)
        return made

    def _property(
        self, one: PropertyDef, where: Located[ObjectDef], index: int, at: FilePosition
    ) -> Any:
        said = {
            key: getattr(one, key)
            for key in ("value", "ref", "reflist")
            if getattr(one, key) is not UNSET
        }
        if len(said) != 1:
            raise ConfigError(
                f"{at}: the property {one.name!r} needs one of value, ref and reflist, but has "
                f"{', '.join(said) or 'none'}"
            )
        (key,) = said
        return self.value(
            said["value"] if key == "value" else said, where, ("properties", index, key)
        )


def _set(made: Any, name: str, value: Any, at: FilePosition) -> None:
    """Set a property with a method `set_NAME` if the object has one, otherwise as an attribute."""
    kind = type(made)
    setter = getattr(made, f"set_{name}", None)
    if callable(setter) and not name.startswith("_"):
        call_at(setter, [value], {}, at, f"set_{name}", ([at], {}))
        return
    if name.startswith("_") or not hasattr(made, name):
        known = ", ".join(
            each
            for each in dir(made)
            if not each.startswith("_") and not callable(getattr(made, each))
        )
        raise ConfigError(
            f"{at}: {kind.__name__} has no property {name!r}: it has {known or 'none'}"
        )
    fitted = convert_arguments({name: value}, hints_of(kind), at, {name: at})[name]
    call_at(setattr, [made, name, fitted], {}, at, f"{kind.__name__}.{name}")


def _is_frozen(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and bool(getattr(kind, "__dataclass_params__").frozen)  # noqa: B009 - unknown to mypy


def _replaced(
    made: Any, values: Mapping[str, Any], at: FilePosition, places: Mapping[str, FilePosition]
) -> Any:
    """Return a changed copy of a frozen object. Creating the copy validates it again."""
    kind = type(made)
    known = [each.name for each in dataclasses.fields(made) if each.init]
    for name in values:
        if name not in known:
            raise ConfigError(
                f"{at}: {kind.__name__} has no property {name!r}: it has "
                f"{', '.join(known) or 'none'}"
            )
    return call_at(
        dataclasses.replace,
        [made],
        convert_arguments(values, hints_of(kind), at, places),
        at,
        kind.__name__,
    )
