"""The values of the end-to-end run make a valid release of each topology."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.chart.conftest import CHART, KUBERNETES, environment, one, pod_specs
from tests.e2e.orders import ORDERS
from tests.e2e.release_values import ReleaseValues
from tests.e2e.trial import Trial
from tests.e2e.wordcount import WORDCOUNT

Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("pipeline", [False, True], ids=["without pipeline", "with pipeline"])
@pytest.mark.parametrize("trial", [WORDCOUNT, ORDERS], ids=lambda trial: trial.name)
def test_release_of_each_topology(helm: Helm, trial: Trial, pipeline: bool, tmp_path: Path) -> None:
    """The disturbances name components of the release. The pipeline reads the release's sink with
    its tables.

    Helm's test sends the topology's message.
    """
    place = ["--kube-version", KUBERNETES, "--set-string", "image.tag=e2e-1"]
    done = helm(
        "template",
        trial.name,
        str(CHART),
        *ReleaseValues(trial, tmp_path, {}).options(pipeline),
        *place,
    )
    assert done.returncode == 0, done.stderr
    objects: list[dict[str, Any]] = [
        found for found in yaml.load_all(done.stdout, yaml.CSafeLoader) if found is not None
    ]
    for each in objects:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    components = {
        each["metadata"]["labels"]["kstorm.io/component"]
        for each in objects
        if each["kind"] in ("Deployment", "StatefulSet")
        and "kstorm.io/component" in each["metadata"]["labels"]
    }
    assert components == {trial.spout, *trial.bolts, "acker"}
    assert {trial.stateless, trial.stateful} <= components
    assert not trial.holding or trial.holding in components
    probe = one(objects, "Pod", f"{trial.name}-test")
    assert f"--message={trial.probe}" in probe["spec"]["containers"][0]["args"]
    driver = pod_specs(objects).get(f"Deployment/{trial.name}-pipeline")
    assert (driver is not None) == pipeline
    if driver is not None:
        variables = environment(driver["containers"][0])
        assert trial.sink in variables.values()
        assert trial.tables.definition in variables.values()


@pytest.mark.parametrize("trial", [WORDCOUNT, ORDERS], ids=lambda trial: trial.name)
def test_input_fits_into_a_config_map(trial: Trial) -> None:
    """`kubectl apply` copies the ConfigMap into an annotation.

    Kubernetes limits annotations to 256 KiB.
    """
    assert len("\n".join(trial.lines()).encode()) < 160_000
