"""The definitions of a file and of all files that it includes. Each definition records its source
file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from kstorm.errors import ConfigError
from kstorm.flux.definitions import read_definitions
from kstorm.flux.document import Document, FilePosition, Step, parse
from kstorm.flux.files import find_resource, read_text
from kstorm.flux.model import ComponentDef, IncludeDef, SourceDef, StreamDef, TopologyDef, VertexDef
from kstorm.flux.substitution import Replacements

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Located(Generic[T]):
    """A definition and its position."""

    value: T
    document: Document
    path: tuple[Step, ...]

    def at(self, *further: Step) -> FilePosition:
        """Return the position of the definition or of a part of it."""
        return self.document.place((*self.path, *further))


@dataclass(slots=True)
class Wiring:
    """All definitions, by name."""

    file: str
    name: Located[str] | None = None
    source: Located[SourceDef] | None = None
    config: dict[str, Located[Any]] = field(default_factory=dict)
    components: dict[str, Located[ComponentDef]] = field(default_factory=dict)
    spouts: dict[str, Located[VertexDef]] = field(default_factory=dict)
    bolts: dict[str, Located[VertexDef]] = field(default_factory=dict)
    streams: dict[tuple[str, str, str], Located[StreamDef]] = field(default_factory=dict)
    """Streams by emitter, subscriber and stream ID."""
    files: list[Path] = field(default_factory=list)
    """The files read, starting with the topology's file. Excludes `resources`."""
    resources: list[Path] = field(default_factory=list)
    """Included files that were found on the Python path."""

    def add(self, other: "Wiring", *, override: bool) -> None:
        """Add the definitions of another file. If a name exists in both, the existing definition is
        kept unless `override`."""
        if other.name is not None and (override or self.name is None):
            self.name = other.name
        if other.source is not None and (override or self.source is None):
            self.source = other.source
        _add(self.config, other.config, override=override)
        _add(self.components, other.components, override=override)
        _add(self.spouts, other.spouts, override=override)
        _add(self.bolts, other.bolts, override=override)
        _add(self.streams, other.streams, override=override)
        self.files += other.files
        self.resources += other.resources


def read_wiring(path: Path, replacements: Replacements) -> Wiring:
    """Read a file and its includes. Raises `ConfigError` with the position."""
    return _read(path, replacements, "the topology's file", ())


def _read(path: Path, replacements: Replacements, what: str, above: tuple[Path, ...]) -> Wiring:
    document = parse(read_text(path, what), str(path), replacements)
    defined = read_definitions(document)
    wiring = _wiring_of(document, defined)
    wiring.files.append(path)
    for index, include in enumerate(defined.includes):
        at = document.place(("includes", index, "file"))
        found = _path_of(include, path, at)
        if found.resolve() in (*above, path.resolve()):
            raise ConfigError(f"{at}: {found} includes itself: remove one of the includes")
        there = _read(found, replacements, f"{at}: the included file", (*above, path.resolve()))
        if include.resource:
            there.files, there.resources = [], there.files + there.resources
        wiring.add(there, override=include.override)
    return wiring


def _path_of(include: IncludeDef, path: Path, at: FilePosition) -> Path:
    if not include.resource:
        return path.parent / include.file
    found = find_resource(include.file)
    if found is None:
        raise ConfigError(
            f"{at}: there is no {include.file!r} in the folders of PYTHONPATH: add its folder, or "
            "leave out resource"
        )
    return found


def _wiring_of(document: Document, defined: TopologyDef) -> Wiring:
    wiring = Wiring(document.file)
    if defined.name:
        wiring.name = Located(defined.name, document, ("name",))
    if defined.topology_source is not None:
        wiring.source = Located(defined.topology_source, document, ("topology_source",))
    wiring.config = {
        name: Located(value, document, ("config", name)) for name, value in defined.config.items()
    }
    for index, component in enumerate(defined.components):
        _put(
            wiring.components,
            component.id,
            Located(component, document, ("components", index)),
            "component",
        )
    for index, spout in enumerate(defined.spouts):
        _put(wiring.spouts, spout.id, Located(spout, document, ("spouts", index)), "spout")
    for index, bolt in enumerate(defined.bolts):
        _put(wiring.bolts, bolt.id, Located(bolt, document, ("bolts", index)), "bolt")
    for index, stream in enumerate(defined.streams):
        key = (stream.from_, stream.to, stream.grouping.stream_id)
        _put(wiring.streams, key, Located(stream, document, ("streams", index)), "stream")
    return wiring


K = TypeVar("K")


def _put(where: dict[K, Located[T]], key: K, found: Located[T], what: str) -> None:
    if key in where:
        name = " → ".join(map(str, key[:2])) if isinstance(key, tuple) else repr(key)
        raise ConfigError(
            f"{found.at()}: there are two {what}s {name}, the other one in line "
            f"{where[key].at().line}: keep one"
        )
    where[key] = found


def _add(mine: dict[K, T], theirs: Mapping[K, T], *, override: bool) -> None:
    for key, value in theirs.items():
        if override or key not in mine:
            mine[key] = value
