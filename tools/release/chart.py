"""Packs the chart of a release.

The packed chart takes its images from the release's registry, and lists them and its changes in
annotations of Artifact Hub.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from kstorm.errors import ConfigError, LocalError

ROOT: Final = Path(__file__).resolve().parents[2]
_KINDS: Final = {"Added": "added", "Changed": "changed", "Fixed": "fixed", "Removed": "removed"}
_LINK: Final = re.compile(r"\s*\(\[[^\]]*\]\([^)]*\)\)|\[([^\]]*)\]\([^)]*\)")
_ABOUT_THE_CHART: Final = re.compile(r"\b(chart|[Hh]elm|Job|pods?)\b")


def pack(target: Path, images: Sequence[str] = (), root: Path = ROOT) -> Path:
    """Pack the chart into a folder and return the file.

    `images` are the images of the release, each as REGISTRY/kstorm-NAME@DIGEST.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kstorm-chart-") as folder:
        copy = Path(folder, "kstorm")
        shutil.copytree(root / "helm" / "kstorm", copy)
        description = yaml.safe_load((copy / "Chart.yaml").read_text())
        annotations = description.setdefault("annotations", {})
        version = str(description["version"])
        if changed := changes((root / "CHANGELOG.md").read_text(), version):
            annotations["artifacthub.io/changes"] = _text(changed)
        if images:
            annotations["artifacthub.io/images"] = _text(listed(images, version))
            values = copy / "values.yaml"
            values.write_text(with_registry(values.read_text(), registry(images)))
        (copy / "Chart.yaml").write_text(_text(description))
        command = ["helm", "package", str(copy), "--destination", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LocalError(f"helm did not pack the chart: {done.stderr.strip()}")
    return target / f"kstorm-{version}.tgz"


def registry(images: Sequence[str]) -> str:
    """Return the registry of all images. Raises `ConfigError` if they have several."""
    found = {image.partition("@")[0].rpartition("/")[0] for image in images}
    if len(found) != 1 or "" in found or any("@sha256:" not in image for image in images):
        raise ConfigError(
            "the images of a release are in one registry, each as REGISTRY/kstorm-NAME@sha256:…,"
            f" but these are given: {', '.join(images)}"
        )
    return found.pop()


def listed(images: Sequence[str], version: str) -> list[dict[str, str]]:
    """Return the images as Artifact Hub's annotation has them: with the tag and the digest."""
    parts = [image.partition("@") for image in images]
    return [
        {"name": name.rpartition("/")[2], "image": f"{name}:{version}@{digest}"}
        for name, _, digest in parts
    ]


def with_registry(values: str, name: str) -> str:
    """Return the text of values.yaml with another default of `image.registry`."""
    text, count = re.subn(
        r'(?ms)^(image:\n(?:  [^\n]*\n)*?  registry: )""$', rf'\g<1>"{name}"', values
    )
    if count != 1:
        raise LocalError('values.yaml has no line `registry: ""` below `image:`')
    return text


def changes(changelog: str, version: str) -> list[dict[str, str]]:
    """Return the changes of a version that concern the chart, each as its first sentence."""
    found = re.search(rf"(?ms)^## {re.escape(version)}$(.*?)(?=^## |\Z)", changelog)
    return list(_changes(found[1])) if found else []


def _changes(section: str) -> Iterator[dict[str, str]]:
    for heading, body in re.findall(r"(?ms)^### (.*?)$(.*?)(?=^### |\Z)", section):
        kind = _KINDS.get(re.split(r"\W", heading)[0])
        for bullet in re.findall(r"(?ms)^\* (.*?)(?=^\* |\Z)", body):
            text = " ".join(_LINK.sub(r"\1", bullet).split())
            sentence = re.split(r"(?<=\.) ", text)[0]
            if kind and _ABOUT_THE_CHART.search(sentence):
                yield {"kind": kind, "description": sentence}


def _text(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
