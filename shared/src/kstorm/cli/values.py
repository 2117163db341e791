"""`kstorm values`: what the chart needs to know of a topology, written from its code.

kstorm values hello:topology > values.yaml
kstorm values hello:topology --files | helm install hello helm/kstorm -f - --set dev.enabled=true
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from kstorm.cli.shape import shape_of
from kstorm.errors import ConfigError
from kstorm.kafka.ends import sinks_of, sources_of
from kstorm.runtime.service.settings import load_topology
from kstorm.topology import Topology

_MOST_BYTES: Final = 900_000
"""Of all files; Kubernetes keeps no ConfigMap above 1 MiB."""


def values(
    reference: Annotated[str, typer.Argument(metavar="MODULE:ATTR", help="The topology: package.module:attribute.")],
    files: Annotated[
        bool, typer.Option("--files", help="Add the Python files of its top package, for images that do not have them.")
    ] = False,
) -> None:
    """Writes the Helm values of a topology as YAML: its components, their tasks, and what to start with."""
    written = to_yaml(values_of(reference, load_topology(reference), files=files))
    print(f"# Written by `kstorm values {reference}`: do so again when the topology has changed.\n{written}", end="")


def values_of(reference: str, topology: Topology, *, files: bool = False) -> dict[str, Any]:
    """The values. Raises `ConfigError` if the files are to be in it and are none, or too large."""
    shape, config = shape_of(topology), topology.config
    found: dict[str, Any] = {"topology": reference, "topologyName": topology.name, "components": {}}
    for id, component in shape.components.items():
        found["components"][id] = {"kind": component.kind, "tasks": component.tasks}
        if component.stateful:
            found["components"][id]["stateful"] = True
        found["components"][id]["replicas"] = topology.components[id].parallelism
    found["ackers"] = {"tasks": shape.acker_tasks, "replicas": config.topology_acker_executors}
    sources, sinks = sources_of(topology), sinks_of(topology)
    if sources and sinks:
        found["test"] = {"source": next(iter(sources)), "sink": next(iter(sinks))}
    if files:
        found["topologyFiles"] = _files(reference.partition(":")[0].partition(".")[0])
    return found


def to_yaml(found: dict[str, Any]) -> str:
    """YAML in the given order, files as they are."""
    return yaml.dump(found, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines line by line."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _files(name: str) -> dict[str, str]:
    """The Python files of a module or package, tests left out, by their path below the folder that it is imported from."""
    paths = dict(_paths(name))
    size = sum(path.stat().st_size for path in paths.values())
    if not paths or size > _MOST_BYTES:
        what = f"they have {size} bytes" if paths else f"{name!r} has none"
        raise ConfigError(
            f"--files takes up to {_MOST_BYTES} bytes of Python files, and {what}: put the code into images instead "
            "(FROM kstorm-bolt, COPY it to /topology)"
        )
    return {key: path.read_text() for key, path in paths.items()}


def _paths(name: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(name)
    folders = list(map(Path, (spec and spec.submodule_search_locations) or ()))
    if not folders and spec is not None and spec.origin is not None:
        yield f"{name}.py", Path(spec.origin)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if not path.name.startswith("test_") and path.name != "conftest.py":
                yield (Path(name) / path.relative_to(folder)).as_posix(), path
