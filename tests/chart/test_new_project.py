"""The values that `kstorm new` writes."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kstorm.new import TEMPLATES, make
from tests.chart.conftest import CHART, KUBERNETES
from tools.packages import version


@pytest.mark.parametrize("template", TEMPLATES)
def test_project_can_be_installed(
    helm: Callable[..., subprocess.CompletedProcess[str]], template: str, tmp_path: Path
) -> None:
    """Its pods run the images of its Dockerfile."""
    project = make("my-project", template, tmp_path)
    values = str(project / "values.yaml")
    done = helm("template", "my", str(CHART), "--kube-version", KUBERNETES, "-f", values)
    assert done.returncode == 0, done.stderr
    images = {
        container["image"]
        for found in yaml.load_all(done.stdout, yaml.CSafeLoader)
        if found and found["kind"] in ("Deployment", "StatefulSet")
        for container in found["spec"]["template"]["spec"]["containers"]
    }
    built = {f"my-project-{service}:{version()}" for service in ("spout", "bolt", "acker")}
    assert built <= images
    assert "-t my-project-$service:" in (project / "Dockerfile").read_text()
