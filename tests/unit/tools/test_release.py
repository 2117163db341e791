"""The chart of a release, and the names of its images, without a registry."""

import base64
import re
from pathlib import Path

import pytest
import yaml

from kstorm.errors import ConfigError, LocalError
from tools.images import push as pushing
from tools.images.engine import Docker, Engine
from tools.packages import ROOT
from tools.release import __main__ as release
from tools.release.chart import changes, listed, registry, with_registry
from tools.release.trial import write_values

DIGEST = "sha256:" + "0" * 64
IMAGES = [f"ghcr.io/you/kstorm-spout@{DIGEST}", f"ghcr.io/you/kstorm-bolt@{DIGEST}"]


def test_icon_of_the_chart_is_the_file() -> None:
    """A chart's icon is a URL, so Chart.yaml has the file as a data URI."""
    chart = yaml.safe_load((ROOT / "helm/kstorm/Chart.yaml").read_text())
    kind, _, data = chart["icon"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == (ROOT / "helm/kstorm/icon.svg").read_bytes().strip()


def test_chart_of_a_release_has_the_registry_of_its_images() -> None:
    values = (ROOT / "helm/kstorm/values.yaml").read_text()
    changed = yaml.safe_load(with_registry(values, registry(IMAGES)))
    assert changed["image"]["registry"] == "ghcr.io/you"
    changed["image"]["registry"] = ""
    assert changed == yaml.safe_load(values)
    with pytest.raises(LocalError, match="no line `registry"):
        with_registry("image:\n  tag: ''\n", "ghcr.io/you")


@pytest.mark.parametrize(
    "images",
    [
        [*IMAGES, f"docker.io/you/kstorm-acker@{DIGEST}"],
        ["ghcr.io/you/kstorm-spout:0.1.0"],
        [f"kstorm-spout@{DIGEST}"],
    ],
    ids=["two registries", "no digest", "no registry"],
)
def test_images_of_a_release_have_one_registry_and_digests(images: list[str]) -> None:
    with pytest.raises(ConfigError, match="the images of a release are in one registry"):
        registry(images)


def test_annotation_lists_tag_and_digest() -> None:
    assert listed(IMAGES, "0.1.0")[0] == {
        "name": "kstorm-spout",
        "image": f"ghcr.io/you/kstorm-spout:0.1.0@{DIGEST}",
    }


def test_changes_are_those_of_the_chart_in_this_version() -> None:
    text = (
        "# Changelog\n\n## 0.2.0\n\n### Added: x\n\n* The chart\n  has [alerts](a.md). More.\n* A bolt.\n"
        "\n### Known limits\n\n* The chart has limits.\n\n## 0.1.0\n\n### Fixed\n\n* `helm test`. ([a](b))\n"
    )
    assert changes(text, "0.2.0") == [{"kind": "added", "description": "The chart has alerts."}]
    assert changes(text, "0.1.0") == [{"kind": "fixed", "description": "`helm test`."}]
    assert changes(text, "0.3.0") == []
    written = changes((ROOT / "CHANGELOG.md").read_text(), "0.1.0")
    assert len(written) > 3
    assert not [change for change in written if re.search(r"\]\(", change["description"])]


class Pushed(Engine):
    """Records the calls, and has the images of one tag."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def has(self, image: str) -> bool:
        return image == "kstorm-bolt:t1"

    def pull(self, image: str) -> None:
        raise AssertionError

    def login(self, host: str, user: str, password: str) -> None:
        self.calls.append(f"login {host} {user} {password}")

    def push(self, image: str, name: str, *, plain_http: bool = False) -> str:
        self.calls.append(f"push {image} {name} {plain_http}")
        return DIGEST

    def size(self, image: str) -> int:
        raise AssertionError

    def read(self, image: str, path: str) -> str:
        raise AssertionError


def test_images_are_pushed_by_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each machine of a release pushes its own, and the digests are what joins them."""
    engine = Pushed()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setenv("REGISTRY_USER", "me")
    monkeypatch.setenv("REGISTRY_PASSWORD", "secret")
    monkeypatch.setenv("PLAIN_HTTP", "1")
    images = pushing.built(engine, ["spout", "bolt"], "t1")
    pushing.push(engine, images, "ghcr.io/You/", tmp_path / "new" / "images.txt")
    assert engine.calls == [
        "login ghcr.io me secret",
        "push kstorm-bolt:t1 ghcr.io/you/kstorm-bolt:t1-arm64 True",
    ]
    assert (tmp_path / "new/images.txt").read_text() == f"ghcr.io/you/kstorm-bolt@{DIGEST}\n"
    with pytest.raises(LocalError, match="no image has the tag t2: build them"):
        pushing.built(engine, ["spout"], "t2")


def test_digest_of_docker_is_that_of_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\ncase $1 in push) echo "t1: digest: {DIGEST} size: 1" ;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Docker().push("kstorm-bolt:t1", "localhost:5000/kstorm-bolt:t1") == DIGEST
    program.write_text("#!/bin/sh\n")
    with pytest.raises(LocalError, match="no digest was reported: nothing"):
        Docker().push("kstorm-bolt:t1", "localhost:5000/kstorm-bolt:t1")


def test_values_name_the_images_by_digest(tmp_path: Path) -> None:
    write_values(tmp_path, IMAGES)
    assert yaml.safe_load((tmp_path / "images.yaml").read_text())["images"] == {
        "spout": {"digest": DIGEST},
        "bolt": {"digest": DIGEST},
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], r"a release is published by its tag: git tag v.*`./run release --dry-run` tries it"),
        (["--dry-run", "--cluster", "/no"], "--cluster /no: there is no script `up`"),
    ],
)
def test_mistake_costs_one_line(arguments: list[str], says: str) -> None:
    """Nothing is built before."""
    with pytest.raises(ConfigError, match=says):
        release.main(arguments)
