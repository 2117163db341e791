"""The steps of a trial. Each one checks its result, and raises `LocalError` if it is wrong."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from kstorm.errors import LocalError
from tools.packages import ROOT, folders, version
from tools.release.registry import digest

_PULLED_VALUES: Final = ("dev", "minimal", "prod", "tls-sasl", "keda", "executors")
_FOR: Final = ("--kube-version", "1.33")
_IMAGE: Final = re.compile(r"(?m)^ +(?:- )?image: \"?([^\"\n]+)")


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in the checkout and return its output."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        printed = (done.stderr.strip() or done.stdout.strip())[-3000:]
        raise LocalError(f"{' '.join(map(str, command))} failed: {printed}")
    return done.stdout


def build(folder: Path) -> str:
    """Build the packages by the script that the workflow calls, and count them."""
    run(".ci/release", folder, f"v{version()}")
    files = sorted(file.name for file in (folder / "packages").glob(f"*-{version()}*"))
    wanted = 2 * len(folders())
    if len(files) != wanted:
        raise LocalError(f"{wanted} packages were to be built, but these were: {', '.join(files)}")
    return f"{wanted // 2} wheels and {wanted // 2} sdists of {version()}"


def push_images(folder: Path, registry: str, tag: str) -> list[str]:
    """Push the images, those of `tag` or newly built ones, and join them. Return their digests."""
    plain = {"PLAIN_HTTP": "1"}
    run(".ci/push-images", folder, registry, *([tag] if tag else []), environment=plain)
    run(".ci/join-images", folder, f"v{version()}", environment=plain)
    images = (folder / "images.txt").read_text().split()
    address, _, prefix = registry.partition("/")
    for image in images:
        name, _, pushed = image.partition("@")
        kept = digest(address, f"{prefix}/{name.rpartition('/')[2]}".lstrip("/"), version())
        if kept != pushed:
            raise LocalError(f"{image} was pushed, but the registry has {kept}")
    return images


def push_chart(folder: Path, registry: str) -> str:
    """Pack and push the chart, and pull it again. Return the digest of the pulled file."""
    run(".ci/pack-chart", folder)
    run(".ci/push-chart", folder, registry, environment={"PLAIN_HTTP": "1"})
    name = f"kstorm-{version()}.tgz"
    pulled = folder / "pulled"
    shutil.rmtree(pulled, ignore_errors=True)
    pulled.mkdir()
    run("helm", "pull", *chart_of(registry), "--destination", pulled)
    packed = hashlib.sha256((folder / "chart" / name).read_bytes()).hexdigest()
    if hashlib.sha256((pulled / name).read_bytes()).hexdigest() != packed:
        raise LocalError("the chart that was pulled from the registry is not the packed one")
    return packed


def chart_of(registry: str) -> tuple[str, ...]:
    """Return the chart in a registry, as arguments of helm."""
    return f"oci://{registry}/kstorm", "--version", version(), "--plain-http"


def sign(folder: Path) -> str:
    """Sign the pushed images and chart by a key made for the trial, and verify each signature."""
    if not shutil.which("cosign"):
        return "nothing, because cosign is not installed"
    plain = {"PLAIN_HTTP": "1", "COSIGN_PASSWORD": "", "COSIGN_KEY": str(folder / "trial.key")}
    for old in ("trial.key", "trial.pub"):
        (folder / old).unlink(missing_ok=True)
    run("cosign", "generate-key-pair", "--output-key-prefix", folder / "trial", environment=plain)
    run(".ci/sign", folder, environment=plain)
    names = [
        *(folder / "images.txt").read_text().split(),
        (folder / "chart.txt").read_text().strip(),
    ]
    public = ("--key", folder / "trial.pub", "--insecure-ignore-tlog", "--allow-http-registry")
    for name in names:
        run("cosign", "verify", *public, name)
    return f"{len(names)} digests by a key of the trial, and verified"


def render(folder: Path, registry: str, images: list[str]) -> str:
    """Render and lint the chart in the registry with each values file, next to the packed one."""
    packed = folder / "chart" / f"kstorm-{version()}.tgz"
    for name in _PULLED_VALUES:
        values = ("--values", f"helm/kstorm/ci/{name}-values.yaml")
        here = run("helm", "template", "trial", packed, *_FOR, *values)
        if run("helm", "template", "trial", *chart_of(registry), *_FOR, *values) != here:
            raise LocalError(f"the chart in the registry renders other objects with {name}-values")
        if "[INFO]" in (said := run("helm", "lint", "--strict", packed, *values)):
            raise LocalError(f"helm lint: {said}")
    if images:
        text = run("helm", "template", "trial", *chart_of(registry), *_FOR, *dev_values(folder))
        pulled = {image for image in _IMAGE.findall(text) if "@" in image}
        unknown = set(_IMAGE.findall(text)) - set(images)
        if unknown or not pulled:
            raise LocalError(f"images that are not of this release: {', '.join(sorted(unknown))}")
    return f"{len(_PULLED_VALUES)} values files"


def write_values(folder: Path, images: list[str]) -> None:
    """Write values that name the images by digest."""
    names = {image.partition("@")[0].rpartition("/")[2]: image for image in images}
    found = {
        name.removeprefix("kstorm-"): {"digest": image.partition("@")[2]}
        for name, image in names.items()
    }
    (folder / "images.yaml").write_text(yaml.safe_dump({"images": found}))


def dev_values(folder: Path) -> tuple[str | Path, ...]:
    return "--values", "helm/kstorm/ci/dev-values.yaml", "--values", folder / "images.yaml"


def install(folder: Path, registry: str, cluster: Path) -> str:
    """Install from the registry on a cluster that is made for it, and send a message through it."""
    if Path(os.environ.get("CLUSTER_RUN", "/run/cluster")).exists():
        raise LocalError(f"a cluster of {cluster} is running: end it with {cluster}/down --purge")
    try:
        exports = run(cluster / "up")
        found = dict(re.findall(r"(KUBECONFIG|PATH)=(\S+)", exports))
        environment = {
            "KUBECONFIG": found["KUBECONFIG"],
            "PATH": found["PATH"].replace("$PATH", os.environ["PATH"]),
        }
        wait = ("--wait", "--timeout", "8m")
        chart = (*chart_of(registry), *dev_values(folder), *wait)
        run("helm", "install", "hello", *chart, environment=environment)
        run("helm", "test", "hello", "--timeout", "5m", environment=environment)
        path = "{range .items[*]}{.status.containerStatuses[*].imageID}{'\\n'}{end}"
        pods = run("kubectl", "get", "pods", "-o", f"jsonpath={path}", environment=environment)
        run("helm", "uninstall", "hello", "--wait", environment=environment)
    finally:
        run(cluster / "down", "--purge")
    return f"{len(set(pods.split()))} images in {len(pods.split())} pods, and helm test"
