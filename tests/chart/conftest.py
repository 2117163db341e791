"""The chart as helm renders it. Helm is the user's, or the one that the local cluster installed."""

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "helm" / "kstorm"
CI_VALUES = sorted(CHART.glob("ci/*-values.yaml"))
KUBERNETES = "1.33"

Objects = list[dict[str, Any]]
Render = Callable[..., Objects]


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run helm and return its result."""
    cache = Path(os.environ.get("CLUSTER_CACHE", Path.home() / ".cache" / "cluster"))
    found = shutil.which("helm") or shutil.which("helm", path=cache / "bin")
    if found is None:
        missing = "there is no helm on PATH: install Helm 3.14 or later, or unset CI to leave the chart untested"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [found, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def template(
    helm: Callable[..., subprocess.CompletedProcess[str]],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Render with one of the CI files (default: `minimal`) and with further values over it, as a
    dict."""

    @cache
    def rendered(values: str, base: str, release: str) -> subprocess.CompletedProcess[str]:
        files = ["-f", str(CHART / "ci" / f"{base}-values.yaml"), "-f", "-"]
        place = ["--namespace", "words", "--kube-version", KUBERNETES]
        return helm("template", release, str(CHART), *place, *files, stdin=values)

    def run(
        more: dict[str, Any] | None = None, *, base: str = "minimal", release: str = "wordcount"
    ) -> subprocess.CompletedProcess[str]:
        return rendered(yaml.safe_dump(more or {}), base, release)

    return run


@pytest.fixture(scope="session")
def render(template: Callable[..., subprocess.CompletedProcess[str]]) -> Render:
    """Return the parsed objects of `template`."""

    def run(more: dict[str, Any] | None = None, **how: str) -> Objects:
        done = template(more, **how)
        assert done.returncode == 0, done.stderr
        # libyaml takes a seventh of the time of the parser in Python.
        objects = yaml.load_all(done.stdout, yaml.CSafeLoader)
        return [found for found in objects if found is not None]

    return run


@pytest.fixture(
    scope="session", params=CI_VALUES, ids=lambda path: path.name.removesuffix("-values.yaml")
)
def objects(request: pytest.FixtureRequest, render: Render) -> Objects:
    """Return the objects of each CI file in turn."""
    return render(base=request.param.name.removesuffix("-values.yaml"))


def one(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


def pod_specs(objects: Objects) -> dict[str, dict[str, Any]]:
    """Return all pod specs by kind and name. Spark's pods lack the parts that Spark adds."""
    specs = {}
    for each in objects:
        if each["kind"] == "Pod":
            specs[f"Pod/{each['metadata']['name']}"] = each["spec"]
        elif each["kind"] == "ConfigMap" and "executor.yaml" in each["data"]:
            specs["Spark/executor"] = yaml.safe_load(each["data"]["executor.yaml"])["spec"]
        elif each["kind"] == "SparkApplication":
            specs |= {
                f"Spark/{role}": each["spec"][role]["template"]["spec"]
                for role in ("driver", "executor")
            }
        elif each["kind"] == "CronJob":
            specs[f"CronJob/{each['metadata']['name']}"] = each["spec"]["jobTemplate"]["spec"][
                "template"
            ]["spec"]
        elif each["kind"] in ("Deployment", "StatefulSet", "Job"):
            specs[f"{each['kind']}/{each['metadata']['name']}"] = each["spec"]["template"]["spec"]
    return specs


def containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all containers of a pod, including init containers."""
    return [*spec.get("initContainers", []), *spec["containers"]]


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Return the variables that have a literal value."""
    return {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}
