"""The chart of a release, pushed to a registry on this machine and pulled from there."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from kstorm.errors import LocalError
from tests.chart.conftest import CHART, KUBERNETES
from tools.images.engine import Buildah
from tools.packages import version
from tools.release import trial
from tools.release.chart import pack
from tools.release.registry import digest, find_registry, repositories, running_registry

pytestmark = pytest.mark.slow
Helm = Callable[..., subprocess.CompletedProcess[str]]
ROOT = CHART.parents[1]
DIGEST = "sha256:" + "1" * 64


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the localhost:PORT of an empty registry."""
    try:
        find_registry()
    except LocalError as error:
        pytest.skip(str(error))
    with running_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def push_chart(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[str]], Path]:
    """Return a function that packs the chart with some images and pushes it as the workflow does."""
    monkeypatch.setenv("PLAIN_HTTP", "1")
    cache = os.environ.get("CLUSTER_CACHE", Path.home() / ".cache" / "cluster")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{cache}/bin")  # helm may be there only

    def push(images: list[str]) -> Path:
        packed = pack(tmp_path / "chart", images)
        script = [str(ROOT / ".ci/push-chart"), str(tmp_path), f"{address}/Charts"]
        subprocess.run(script, check=True, capture_output=True)
        return packed

    return push


def test_pushed_chart_is_the_packed_one_and_installs_its_images(
    helm: Helm, address: str, push_chart: Callable[[list[str]], Path], tmp_path: Path
) -> None:
    """A user needs no values for the images: the chart names the registry that has them."""
    roles = ("spout", "bolt", "acker", "kafka", "zookeeper")
    packed = push_chart([f"{address}/kstorm-{role}@{DIGEST}" for role in roles])
    chart = (f"oci://{address}/charts/kstorm", "--version", version(), "--plain-http")
    assert helm("pull", *chart, "--destination", str(tmp_path)).returncode == 0
    assert (tmp_path / packed.name).read_bytes() == packed.read_bytes()

    values = ("--values", str(CHART / "ci/dev-values.yaml"), "--kube-version", KUBERNETES)
    rendered = helm("template", "hello", *chart, *values).stdout
    here = helm("template", "hello", str(CHART), *values).stdout
    for role in roles:
        image = f"kstorm-{role}:{version()}"
        here = here.replace(image, f"{address}/{image}")
        assert f"{address}/{image}" in rendered
    assert rendered == here

    description = yaml.safe_load(helm("show", "chart", *chart).stdout)
    images = yaml.safe_load(description["annotations"]["artifacthub.io/images"])
    assert images[0]["image"] == f"{address}/kstorm-spout:{version()}@{DIGEST}"
    assert yaml.safe_load(description["annotations"]["artifacthub.io/changes"])
    linted = helm("lint", "--strict", str(packed), "--values", str(CHART / "ci/dev-values.yaml"))
    assert (linted.returncode, "[" in linted.stdout) == (0, False), linted.stdout


def test_image_is_pushed_by_digest_and_joined(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image of all architectures has the version's own tag."""
    try:
        subprocess.run(["buildah", "--version"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no buildah")
    name = f"kstorm-trial-{tmp_path.parent.name}"
    container = subprocess.run(
        ["buildah", "from", "scratch"], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        command = ["buildah", "commit", "--quiet", "--rm", container, f"{name}:t1"]
        subprocess.run(command, check=True, capture_output=True)
        pushed = Buildah().push(f"{name}:t1", f"{address}/{name}:t1-amd64", plain_http=True)
    finally:
        subprocess.run(["buildah", "rmi", f"{name}:t1"], check=False, capture_output=True)
    assert digest(address, name, "t1-amd64") == pushed
    (tmp_path / "images-amd64.txt").write_text(f"{address}/{name}@{pushed}\n")
    monkeypatch.setenv("PLAIN_HTTP", "1")
    subprocess.run([ROOT / ".ci/join-images", tmp_path, "v0.9.0"], check=True, capture_output=True)
    [joined] = (tmp_path / "images.txt").read_text().split()
    assert joined == f"{address}/{name}@{digest(address, name, '0.9.0')}"
    assert name in repositories(address)


def test_chart_is_signed_by_digest(push_chart: Callable[[list[str]], Path], tmp_path: Path) -> None:
    if not shutil.which("cosign"):
        pytest.skip("there is no cosign")
    push_chart([])
    (tmp_path / "images.txt").write_text("")
    assert trial.sign(tmp_path).startswith("1 digests")
    [chart] = (tmp_path / "chart.txt").read_text().split()
    (tmp_path / "chart.txt").write_text(f"{chart.partition('@')[0]}@{DIGEST}\n")
    with pytest.raises(LocalError, match=DIGEST):
        trial.sign(tmp_path)


def test_registry_ends_with_its_trial(tmp_path: Path, address: str) -> None:
    """`address` is here for its skip."""
    with running_registry(tmp_path / "registry") as other:
        assert other != address
        assert repositories(other) == []
    with pytest.raises(OSError, match="refused"):
        repositories(other)
