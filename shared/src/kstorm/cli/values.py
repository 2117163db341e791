"""`kstorm values`: write the chart's values for a topology from its code.

kstorm values hello:topology > values.yaml
kstorm values hello:topology --files | helm install hello helm/kstorm -f - --set dev.enabled=true
kstorm values topology.yaml > values.yaml
"""

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from kstorm.cli.json_output import Json, print_json
from kstorm.cli.topology_files import key_of, modules_of, python_files, wiring_files
from kstorm.errors import ConfigError
from kstorm.flux import build, read
from kstorm.kafka.own_topics import own_sinks, own_sources
from kstorm.operations.control.deployment_shape import shape_of
from kstorm.references import as_module, is_file
from kstorm.runtime.base.settings import load_topology
from kstorm.topology import Topology


def values(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:ATTR|FILE",
            help="The topology: package.module:attribute, or a YAML file.",
        ),
    ],
    files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="Add the Python files of its top-level package, for images without them.",
        ),
    ] = False,
    properties: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="FILE",
            envvar="KSTORM_TOPOLOGY_FILTER",
            help="Properties for ${name} in the YAML file.",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Print the Helm values of a topology as YAML.

    They contain its components, task counts and initial numbers of pods. A topology's YAML file is
    included.
    """
    if is_file(reference):
        found = _values_of_file(Path(reference), properties, files=files)
    else:
        found = _values_of_code(reference, files=files)
    if json:
        print_json(found)
        return
    print(
        (
            f"# Written by `kstorm values {reference}`. Run it again when the topology has "
            f"changed.\n{to_yaml(found)}"
        ),
        end="",
    )


def _values_of_code(reference: str, *, files: bool) -> dict[str, Any]:
    reference = as_module(reference)
    found = {"topology": reference, **_values_of(load_topology(reference))}
    if files:
        found["topologyFiles"] = python_files([reference.partition(":")[0].partition(".")[0]])
    return found


def _values_of_file(path: Path, properties: str, *, files: bool) -> dict[str, Any]:
    wiring = read(path, properties=Path(properties) if properties else None)
    found = {"topology": path.name, **_values_of(build(wiring))}
    if properties:
        found["topologyFilter"] = key_of(Path(properties), wiring)
    found["topologyFiles"] = wiring_files(wiring, properties)
    if files and wiring.resources:
        raise ConfigError(
            f"{path} includes {wiring.resources[0]} as a resource, which --files does not add: "
            "include it without resource"
        )
    if files:
        found["topologyFiles"] |= python_files(modules_of(wiring))
    return found


def _values_of(topology: Topology) -> dict[str, Any]:
    shape, config = shape_of(topology), topology.config
    found: dict[str, Any] = {"topologyName": topology.name, "components": {}}
    for id, component in shape.components.items():
        found["components"][id] = {"kind": component.kind, "tasks": component.tasks}
        if component.stateful:
            found["components"][id]["stateful"] = True
        found["components"][id]["replicas"] = topology.components[id].parallelism
    found["ackers"] = {"tasks": shape.acker_tasks, "replicas": config.topology_acker_executors}
    sources, sinks = own_sources(topology), own_sinks(topology)
    if sources and sinks:
        found["test"] = {"source": next(iter(sources)), "sink": next(iter(sinks))}
    return found


def to_yaml(found: dict[str, Any]) -> str:
    """Dump YAML in the given order, with files as literal blocks."""
    return yaml.dump(found, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a literal block."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)
