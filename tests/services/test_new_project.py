"""A new user: the built packages in fresh environments, outside the repository."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from kstorm.new import TEMPLATES
from tests.conftest import Eventually
from tests.services.conftest import clean_environment, install, run

LONG = 900


@pytest.fixture(scope="module")
def testing(uv: str, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment for tests of topologies."""
    venv = tmp_path_factory.mktemp("testing") / "venv"
    install(uv, packages, venv, "kstorm[flux,testing]")
    return venv


@pytest.fixture(scope="module")
def local(uv: str, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment for topologies on this machine."""
    venv = tmp_path_factory.mktemp("local") / "venv"
    install(uv, packages, venv, "kstorm[local]")
    return venv


@pytest.mark.slow
@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("template", TEMPLATES)
def test_project_is_made_and_tested(testing: Path, uv: str, template: str, tmp_path: Path) -> None:
    environment = clean_environment(testing)
    run(["kstorm", "new", "my-project", "--template", template], tmp_path, environment)
    project = tmp_path / "my-project"
    run([uv, "pip", "install", "--python", testing, "--no-deps", "-e", "."], project, environment)
    assert " passed" in run(["pytest", "-q"], project, environment)


@pytest.mark.slow
@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("template", ["wordcount", "yaml"])
def test_project_runs_on_real_servers_without_spark(
    local: Path, template: str, tmp_path: Path, eventually: Eventually
) -> None:
    """`kstorm[local]` is enough. The commands are those of the project's README."""
    environment = clean_environment(local)
    assert not list(local.glob("lib/python*/site-packages/pyspark"))
    run(["kstorm", "new", "my-project", "--template", template], tmp_path, environment)
    project = tmp_path / "my-project"
    commands = re.findall(r"(?m)^\$ (.*)$", (project / "README.md").read_text())
    [dev] = [command for command in commands if command.startswith("kstorm dev ")]
    [produce] = [command for command in commands if " | kstorm produce " in command]
    [consume] = [command for command in commands if command.startswith("kstorm consume ")]
    out = tmp_path / "out"
    with (
        out.open("wb") as log,
        subprocess.Popen(
            ["/bin/sh", "-c", f"exec {dev}"],
            cwd=project,
            env=environment,
            stdout=log,
            stderr=log,
            process_group=0,
        ) as process,
    ):
        try:
            eventually(lambda: "acked " in out.read_text() or process.poll() is not None, 400)
            assert process.poll() is None, out.read_text()
            [kafka] = re.findall(r"Kafka is at (\S+),", out.read_text())
            shell: list[str | Path] = ["/bin/sh", "-c"]
            run([*shell, produce.replace("HOST:PORT", kafka)], project, environment)
            read: list[str | Path] = [*shell, consume.replace("HOST:PORT", kafka)]
            eventually(lambda: run(read, project, environment) == "the\t1\ncow\t1\n", 60)
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0, out.read_text()
        finally:
            process.terminate()


@pytest.mark.long
@pytest.mark.timeout(LONG)
def test_demo_runs_from_the_packages(uv: str, packages: Path, tmp_path: Path) -> None:
    """Its topology is an example of the repository, which the wheel has too."""
    install(uv, packages, tmp_path / "venv", "kstorm[demo]")
    environment = clean_environment(tmp_path / "venv")
    said = run(["kstorm", "demo", "--sentences", "1000"], tmp_path, environment)
    assert "lost: 0, words over: 0." in said
