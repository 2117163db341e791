"""`./run images`: its calls of docker or buildah, and the local settings that it passes on."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from kstorm.errors import LocalError
from tools.images import __main__ as images
from tools.images import engine as engines
from tools.images.registries import write_secrets

ROOT = Path(__file__).parents[3]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, with stand-ins for docker, buildah, pip and a loader."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("KSTORM_IMAGE_LOADER", raising=False)
    monkeypatch.setenv("KSTORM_HOME", str(tmp_path / "home"))
    return folder


def stand_in(folder: Path, name: str, script: str) -> None:
    """Create a program that records its arguments in `<name>.calls` and then runs the script."""
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$*" >>{folder}/{name}.calls\n{script}\n')
    program.chmod(0o755)


def calls(folder: Path, name: str) -> list[str]:
    """Return the arguments of a stand-in's calls."""
    return (folder / f"{name}.calls").read_text().splitlines()


BUILDAH = """case "$*" in run*cat*) echo '{"bomFormat": "CycloneDX"}' ;;
*inspect*--format*) echo '{"layers": [{"size": 115000000}, {"size": 5500000}]}' ;; esac"""


def test_docker_is_preferred_if_its_daemon_responds(programs: Path) -> None:
    """A machine may only have the client. Then `./run images` uses buildah."""
    with pytest.raises(LocalError, match="no docker answers and there is no buildah"):
        engines.find_engine()
    stand_in(programs, "buildah", BUILDAH)
    stand_in(programs, "docker", "exit 1")
    assert isinstance(engines.find_engine(), engines.Buildah)
    stand_in(programs, "docker", "")
    assert isinstance(engines.find_engine(), engines.Docker)


def test_target_is_built_tagged_loaded_and_measured(
    programs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The chart expects this name and tag. The bill of materials is a file next to the image."""
    stand_in(programs, "buildah", BUILDAH)
    stand_in(programs, "loader", "")
    monkeypatch.setenv("KSTORM_IMAGE_LOADER", "loader --quiet")
    assert images.main(["bolt", "--tag", "t1", "--base", "base:1"]) == 0
    [build] = [call for call in calls(programs, "buildah") if call.startswith("build ")]
    assert "--tag kstorm-bolt:t1 --build-arg BASE_IMAGE=base:1 " in build
    assert (
        "--label org.opencontainers.image.version=t1 --label org.opencontainers.image.revision="
        in build
    )
    assert build.endswith(f"--target bolt {ROOT}")
    [labels] = [call for call in calls(programs, "buildah") if call.startswith("config ")]
    assert "--label org.opencontainers.image.version=t1" in labels
    assert calls(programs, "loader") == ["--quiet kstorm-bolt:t1"]
    assert capfd.readouterr().out.splitlines()[1].split() == ["kstorm-bolt:t1", "0.0", "120.5"]
    assert "CycloneDX" in (tmp_path / "home/images/kstorm-bolt-t1.cdx.json").read_text()


def test_only_images_with_java_get_jars(
    programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are copied once from the local cache, instead of the Dockerfile's stage that downloads
    them."""
    stand_in(programs, "buildah", BUILDAH)
    given: list[Path] = []
    monkeypatch.setattr(images, "lay_out", given.append)
    monkeypatch.setattr(images, "fix_spark", lambda: None)
    images.build_services(engines.find_engine(), ["bolt"], "base:1", "t1")
    assert not given
    images.build_services(engines.find_engine(), ["acker", "kafka", "zookeeper"], "base:1", "t1")
    [jars] = given
    builds = [call for call in calls(programs, "buildah") if call.startswith("build ")]
    assert [f"--build-context jars={jars}" in build for build in builds] == [
        False,
        False,
        True,
        True,
    ]


def test_topology_is_built_on_each_service(
    programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The build context is the current folder, as in a user's project."""
    stand_in(programs, "buildah", BUILDAH)
    monkeypatch.chdir(tmp_path)
    engine = engines.find_engine()
    assert images.build_topology(engine, ROOT / "examples/docker/Dockerfile", "wc", "t1") == [
        "wc-spout:t1",
        "wc-bolt:t1",
        "wc-acker:t1",
    ]
    builds = [call for call in calls(programs, "buildah") if call.startswith("build ")]
    given = [re.findall("--build-arg ([^ ]+)", build) for build in builds]
    assert given == [
        [f"KSTORM_IMAGE=kstorm-{service}:t1"] for service in ("spout", "bolt", "acker")
    ]
    assert all(build.endswith(f" {tmp_path}") for build in builds)


def test_failed_command_is_named(programs: Path) -> None:
    """The build fails, and the loader does not exist."""
    stand_in(programs, "buildah", "case $1 in build) exit 3 ;; esac")
    with pytest.raises(LocalError, match="buildah could not build kstorm-bolt:t1"):
        images.build_services(engines.find_engine(), ["bolt"], "base:1", "t1")
    with pytest.raises(
        LocalError, match="KSTORM_IMAGE_LOADER is 'no-such-loader', which cannot be run"
    ):
        engines.load("kstorm-bolt:t1", "no-such-loader")


def test_error_of_a_failed_pull_names_the_remedy(programs: Path) -> None:
    stand_in(
        programs,
        "buildah",
        "case $1 in inspect) exit 1 ;; pull) echo 'no such host' >&2; exit 1 ;; esac",
    )
    with pytest.raises(LocalError) as refused:
        images.main(["bolt", "--base", "base:1"])
    said = str(refused.value)
    assert (
        "the base image base:1 is not on this machine, and buildah pull --quiet base:1 failed: no such host"
        in said
    )
    assert said.endswith("then give --base kstorm-base:bookworm")


def test_missing_builder_is_reported_first(programs: Path) -> None:
    """`./run images` then creates no environment and downloads nothing.

    The error names the remedy.
    """
    (programs / "dirname").symlink_to(shutil.which("dirname", path=os.defpath) or "dirname")
    stand_in(programs, "docker", "exit 1")
    done = subprocess.run(
        ["/bin/bash", ROOT / "run", "images", "bolt"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "kstorm: docker does not respond and buildah is not installed, and one of them builds the images"
    )
    assert "apt-get install buildah" in done.stderr
    assert calls(programs, "docker") == ["info"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["bolts"],
            "there is no target 'bolts': give some of spout, bolt, acker, ui, pipeline, kafka, zookeeper",
        ),
        (["--tag", "a/b"], "--tag 'a/b': a tag has letters"),
        (["--topology", "no/Dockerfile"], "--topology no/Dockerfile: there is no such file"),
    ],
)
def test_mistake_costs_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is built before the error."""
    with pytest.raises(SystemExit):
        images.parse(arguments)
    assert says in capsys.readouterr().err


def test_every_target_is_in_the_dockerfile() -> None:
    """The base image has a default there."""
    stages = set(
        re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE)
    )
    assert set(images.TARGETS) <= stages
    assert images.default_base().startswith("python:3.11-slim")


def test_registries_of_the_machine_are_build_secrets(programs: Path, tmp_path: Path) -> None:
    """They are the registries of pip and uv. Local folders are not passed on."""
    stand_in(
        programs,
        "pip",
        r"""echo "global.index-url='https://mirror.test/it'"; echo "global.cert='/etc/ca.crt'" """,
    )
    uv = tmp_path / "uv.toml"
    uv.touch()
    environ = {
        "PATH": str(programs),
        "UV_DEFAULT_INDEX": "https://user:it's@mirror.test",
        "UV_CACHE_DIR": "/cache",
        "UV_CONFIG_FILE": str(uv),
    }
    secrets = write_secrets(tmp_path, environ)
    assert secrets["uv"] == uv
    registries = secrets["registries"]
    assert stat.S_IMODE(registries.stat().st_mode) == 0o600
    shell = f'. {registries} && echo "$PIP_INDEX_URL $UV_DEFAULT_INDEX ${{PIP_CERT-}}${{UV_CACHE_DIR-}}"'
    answer = subprocess.run(
        ["/bin/sh", "-c", shell], env={}, capture_output=True, text=True, check=True
    )
    assert answer.stdout == "https://mirror.test/it https://user:it's@mirror.test \n"


def test_missing_settings_file_is_an_error(programs: Path, tmp_path: Path) -> None:
    """Without it the build would use the wrong registry."""
    with pytest.raises(
        LocalError, match=r"the settings of uv should be in /no/uv\.toml, and there is no such file"
    ):
        write_secrets(tmp_path, {"PATH": str(programs), "UV_CONFIG_FILE": "/no/uv.toml"})
