"""values.yaml, its schema and its comments agree on every key.

The schema rejects all other keys.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kstorm.cli.__main__ import main
from tests.chart.conftest import CHART

Template = Callable[..., subprocess.CompletedProcess[str]]

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
LINES = (CHART / "values.yaml").read_text().splitlines()
FREE = {"global"}  # helm adds it to a subchart
KUBERNETES_OWN = {
    "preStop",
    "postStart",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
}  # checked by the API server
WITHOUT_DEFAULT = (".ephemeral-storage", ".limits.cpu")
USERS_OWN = (".labels.grafana_dashboard", ".alertLabels.severity")  # examples in free-form maps
OWN = {"image"}  # keys that a workload may have without a default


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Resolve a reference."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    return SCHEMA["$defs"][name] if name else schema


def objects(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object schema with its path."""
    schema = resolved(schema)
    if schema.get("type") == "object":
        yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from objects(inner, f"{path}.{name}")
    if isinstance(inner := schema.get("additionalProperties"), dict):
        yield from objects(inner, f"{path}.*")


def keys(values: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield every path of the values, except inside free-form maps."""
    for name, value in values.items():
        yield f"{path}.{name}"
        if isinstance(value, dict):
            yield from keys(value, f"{path}.{name}")


def test_schema_is_valid() -> None:
    """Helm supports this draft."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_schema_is_strict() -> None:
    """Each object has fixed names only, or is a map with values of one type."""
    open_ended = [
        path
        for path, schema in objects(SCHEMA)
        if schema.get("additionalProperties", True) is True and path.rpartition(".")[2] not in FREE
    ]
    assert [path for path in open_ended if path.rpartition(".")[2] not in KUBERNETES_OWN] == []


def test_schema_and_defaults_have_the_same_keys() -> None:
    """The keys of a component are named in the comment above `components`."""
    known = {
        f"{path}.{name}"
        for path, schema in objects(SCHEMA)
        for name in schema.get("properties", {})
        if name not in FREE | KUBERNETES_OWN and not f"{path}.{name}".endswith(WITHOUT_DEFAULT)
    }
    of_workloads = {path for path in known if is_of_a_workload(path)}
    own = {path for path in known - of_workloads if path.startswith(".components.*.")}
    assert known - of_workloads - own == {
        path for path in keys(VALUES) if not path.endswith(USERS_OWN)
    }
    comment = comment_above("components")
    for path in own | {
        path for path in of_workloads if path.startswith(".components.*.autoscaling")
    }:
        assert path.rpartition(".")[2] in comment


def is_of_a_workload(path: str) -> bool:
    """True for a key that a component or the ackers inherit from the defaults."""
    parts = path.removeprefix(".components.*").removeprefix(".ackers").split(".")
    names = {*VALUES["defaults"], *OWN, "autoscaling"}
    return path.startswith((".components.*.", ".ackers.")) and parts[1] in names


def comment_above(key: str) -> str:
    """Return the comment above a top-level key."""
    at = next(number for number, line in enumerate(LINES) if line.startswith(f"{key}:"))
    first = at
    while LINES[first - 1].startswith("#"):
        first -= 1
    return "\n".join(LINES[first:at])


def test_readme_lists_every_top_level_value() -> None:
    """The description is the first sentence of the comment above the value."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (CHART / "README.md").read_text(), re.MULTILINE)
    comments = {key: comment_above(key).replace("\n", " ").replace("# ", "") for key in VALUES}
    assert rows == [
        (key, comment[: f"{comment} ".index(". ") + 1]) for key, comment in comments.items()
    ]


def test_every_value_has_a_comment() -> None:
    """It is in the line above."""
    bare = [
        line
        for before, line in pairwise(LINES)
        if re.match(r" *[A-Za-z_]+:", line) and not before.lstrip().startswith("#")
    ]
    assert bare == []


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"components": {"split": {"parallelism": 2}}}, "parallelism"),
        ({"components": {"split": {"kind": "acker"}}}, "kind"),
        ({"components": {"split": {"tasks": 0}}}, "tasks"),
        ({"components": {"split": {"replicas": "2"}}}, "replicas"),
        ({"components": {"new": {"tasks": 1}}}, "kind"),
        ({"components": {"two words": {"kind": "bolt", "tasks": 1}}}, "two words"),
        ({"components": {"split": {"autoscaling": {"keda": {"minReplicas": 0}}}}}, "minReplicas"),
        ({"ackers": {"autoscaling": {"hpa": {"enabled": True}}}}, "autoscaling"),
        ({"defaults": {"podDisruptionBudget": {"maxUnavailable": 0}}}, "maxUnavailable"),
        ({"topology": "examples/wordcount/topology.py"}, "topology"),
        ({"topology": "../escape.yaml"}, "topology"),
        ({"topologyFilter": "../escape.properties"}, "topologyFilter"),
        ({"topologyFiles": {"../escape.py": ""}}, "escape"),
        ({"kafka": {"password": "x"}}, "password"),
        ({"kafka": {"bootstrapServers": "kafka"}}, "bootstrapServers"),
        ({"kafka": {"securityProtocol": "TLS"}}, "securityProtocol"),
        ({"zookeeper": {"connect": "http://zookeeper"}}, "connect"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"images": {"bolt": {"digest": "sha256:1"}}}, "digest"),
        ({"images": {"sprout": {}}}, "sprout"),
        ({"defaults": {"resources": {"limits": {"memory": "1 GB"}}}}, "memory"),
        ({"defaults": {"persistence": {"whenScaled": "Sometimes"}}}, "whenScaled"),
        ({"defaults": {"probes": {"liveness": {"path": "/readyz"}}}}, "path"),
        ({"log": {"level": "TRACE"}}, "level"),
        ({"pipeline": {"master": "mesos://"}}, "master"),
        ({"pipeline": {"master": "k8s://kubernetes"}}, "master"),
        ({"pipeline": {"executors": {"instances": 0}}}, "instances"),
        ({"pipeline": {"executors": {"memory": "1Gi"}}}, "memory"),
        ({"pipeline": {"executors": {"replicas": 2}}}, "replicas"),
        ({"pipeline": {"storage": {"accessMode": "ReadOnlyMany"}}}, "accessMode"),
        ({"monitoring": {"podMonitor": {"interval": 15}}}, "interval"),
        ({"networkPolicy": {"egress": True}}, "egress"),
    ],
    ids=str,
)
def test_schema_rejects_invalid_values(
    template: Template, more: dict[str, Any], where: str
) -> None:
    """These are unknown names, wrong types and values out of range. The error names the place."""
    done = template(more)
    assert done.returncode != 0
    assert (
        "specification(s) in values.schema.json" in done.stderr
        or "values don't meet" in done.stderr
    )
    assert where in done.stderr


def test_dev_values_equal_the_output_of_kstorm_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kstorm values --files` writes all of them, except `dev.enabled` and the test's message."""
    given = yaml.safe_load((CHART / "ci" / "dev-values.yaml").read_text())
    (tmp_path / "hello.py").write_text(given["topologyFiles"]["hello.py"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(
        sys.modules, "hello", raising=False
    )  # other tests have a module with this name
    with pytest.raises(SystemExit):
        main(["values", "hello:topology", "--files"])
    written = yaml.safe_load(capsys.readouterr().out)
    written["test"]["message"] = "{marker}"
    assert {**written, "dev": {"enabled": True}} == given


@pytest.mark.parametrize(
    "reference", ["examples.wordcount.topology:topology", "examples/wordcount/topology.yaml"]
)
def test_output_of_kstorm_values_can_be_installed(
    template: Template, capsys: pytest.CaptureFixture[str], reference: str
) -> None:
    """Only Kafka and ZooKeeper are added."""
    with pytest.raises(SystemExit):
        main(["values", reference, "--files"])
    written = yaml.safe_load(capsys.readouterr().out)
    done = template(written)
    assert done.returncode == 0, done.stderr
