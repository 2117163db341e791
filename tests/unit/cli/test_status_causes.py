"""`kstorm status NAME` names what slows a topology down.

Each file in `status_pages` has `/status` of all processes twice, from a run of `./run troubles`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kstorm.runtime import run_files
from tests.kstorm_command import Command
from tests.troubles.topology import NAME, topology

_PAGES = Path(__file__).with_name("status_pages")
_SAID = {
    "skewed_key": [
        "count: one of its 4 tasks has 87 % of the tuples, because one key is hot",
        "recent: one of its 2 tasks has 91 % of the tuples, because one key is hot",
    ],
    "late_tuples": [
        (
            "recent: 2.0 % of its tuples are late and in no window (6 of 300): raise with_lag, or "
            "give the spout an event_time"
        )
    ],
    "slow_sink": ["store is the bottleneck: 97 % busy"],
    "calm": [],
}


class Recorded:
    """A run on this machine, whose processes answer with recorded pages. The second look begins
    when the command sleeps."""

    def __init__(
        self, folder: Path, trouble: str, monkeypatch: pytest.MonkeyPatch, bootstrap: str = ""
    ) -> None:
        self.document = json.loads((_PAGES / f"{trouble}.json").read_text())
        self.rests: list[float] = []
        self._now = 0.0
        names = self.document["after"]
        workers = [
            run_files.RunningWorker(name, page["component"], f"http://{name}")
            for name, page in names.items()
        ]
        run_files.write(folder, run_files.describe(topology(), bootstrap, "", workers))
        for module in ("status.sampling", "kubernetes.component_status"):
            monkeypatch.setattr(f"kstorm.operations.{module}.fetch_status_of_all", self._fetch)
        clock = SimpleNamespace(monotonic=lambda: self._now, sleep=self._sleep)
        monkeypatch.setattr("kstorm.operations.status.sampling.time", clock)
        monkeypatch.setattr("kstorm.cli.status.time", clock)

    def _sleep(self, seconds: float) -> None:
        if len(self.rests) == 1:
            raise KeyboardInterrupt
        self.rests.append(seconds)
        self._now += self.document["seconds"]

    def _fetch(self, urls: Sequence[str]) -> list[Any]:
        pages = self.document["after" if self._now else "before"]
        return [pages[url.removeprefix("http://")] for url in urls]


@pytest.mark.parametrize("trouble", _SAID)
def test_status_names_the_trouble(
    trouble: str, tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Recorded(tmp_path, trouble, monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    code, told, _ = kstorm("status", NAME, "--runs", str(tmp_path))
    assert (code, run.rests) == (0, [5.0])
    assert [line for line in told.splitlines()[7:] if line] == _SAID[trouble]


@pytest.mark.parametrize("words", [("--window", "0"), ("--json",)])
def test_one_look_does_not_wait(
    words: tuple[str, ...], tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Recorded(tmp_path, "slow_sink", monkeypatch)
    code, told, _ = kstorm("status", NAME, "--runs", str(tmp_path), *words)
    assert (code, run.rests) == (0, [])
    assert "bottleneck" not in told


def test_watched_status_compares_its_looks(
    tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Recorded(tmp_path, "slow_sink", monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    told = kstorm("status", NAME, "--runs", str(tmp_path), "--watch")[1]
    assert run.rests == [2.0]
    assert "store is the bottleneck: 97 % busy" in told


def test_causes_that_the_table_shows_are_not_repeated(
    tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Recorded(tmp_path, "calm", monkeypatch)
    for look in ("before", "after"):
        run.document[look]["store-0"]["not_ready"] = "Kafka does not accept the password"
        run.document[look]["messages-0"] |= {"active": False, "remark": "deactivated"}
    monkeypatch.setenv("COLUMNS", "200")
    told = kstorm("status", NAME, "--runs", str(tmp_path))[1]
    assert [line for line in told.splitlines()[7:] if line] == [
        "messages-0: deactivated",
        "store-0: Kafka does not accept the password",
    ]


def test_status_names_a_kafka_that_no_process_misses_yet(
    tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process notices it after its session. The first look already finds a refused connection."""
    Recorded(tmp_path, "calm", monkeypatch, bootstrap="127.0.0.1:1")
    monkeypatch.setenv("COLUMNS", "200")
    said = "Kafka does not answer (127.0.0.1:1: Connection refused)"
    shown = kstorm("status", NAME, "--runs", str(tmp_path), "--window", "0")[1]
    assert shown.splitlines()[-1] == said
    code, shown, _ = kstorm("status", "--runs", str(tmp_path))
    assert (code, shown.splitlines()[-1]) == (1, f"{NAME}: {said}")


def test_status_reports_an_outage_of_kafka_once(
    tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waits for Kafka reports the outage in any words. Status then does not ask."""
    run = Recorded(tmp_path, "calm", monkeypatch, bootstrap="127.0.0.1:1")
    run.document["before"]["store-0"] |= {"not_ready": "no broker", "kafka_away_since": 1.5}
    monkeypatch.setenv("COLUMNS", "200")
    shown = kstorm("status", NAME, "--runs", str(tmp_path), "--window", "0")[1]
    assert shown.splitlines()[-1] == "store-0: no broker"
    described = json.loads(kstorm("status", NAME, "--runs", str(tmp_path), "--json")[1])
    away = {each["component"]: each["kafka_away_since"] for each in described}
    assert (away["store"], away["messages"]) == (1.5, None)
