"""The duration of each stage, stored by one process and read by another."""

import time
from pathlib import Path

import pytest

from kstorm.dev.stage_times import by_run, note_stage_time, set_up_times, started_at


def test_stages_of_this_command_are_found_in_order(tmp_path: Path) -> None:
    before = time.time()
    assert set_up_times(tmp_path, before) == {}
    note_stage_time(tmp_path, "packages", 23.44)
    note_stage_time(tmp_path, "jars", 9.0)
    assert list(set_up_times(tmp_path, before).items()) == [("packages", 23.4), ("jars", 9.0)]
    assert set_up_times(tmp_path, time.time() + 1) == {}


def test_broken_file_is_ignored_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "took.json").write_text("{")
    assert set_up_times(tmp_path, 0) == {}
    note_stage_time(tmp_path, "jars", 1)
    assert set_up_times(tmp_path, 0) == {"jars": 1}


def test_command_starts_with_the_run_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSTORM_STARTED_AT", "1795000000.25")
    assert started_at() == 1795000000.25
    monkeypatch.setenv("KSTORM_STARTED_AT", "1795000000,25")  # some locales have a decimal comma
    assert started_at() == 1795000000.25
    assert by_run()
    monkeypatch.delenv("KSTORM_STARTED_AT")
    assert not by_run()
    assert abs(started_at() - time.time()) < 5
