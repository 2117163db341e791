"""Pinned versions that are older than a year."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tools import locks
from tools.supply import releases
from tools.supply.releases import OldOnes, complaints, read_old, read_releases, updated

ROOT = Path(__file__).parents[3]
TODAY = date(2026, 11, 27)
OLD, YOUNG = ("six", "1.17.0"), ("ruff", "1.0")
DATES = {OLD: date(2025, 11, 26), YOUNG: date(2025, 11, 27)}


def accepted(*versions: tuple[str, str], looked: date = TODAY) -> OldOnes:
    return OldOnes(looked, frozenset(versions))


def test_no_pin_is_older_than_a_year_unless_it_is_the_newest() -> None:
    """This fails in time, without a change: raise the version, or look for a newer one."""
    pins = releases.pinned(ROOT)
    today = datetime.now(UTC).date()
    assert complaints(pins, read_releases(), read_old(), today) == []


def test_pin_is_old_after_a_year() -> None:
    [line] = complaints([OLD, YOUNG], DATES, accepted(), TODAY)
    assert line.startswith("six==1.17.0 is of 2025-11-26, which is over a year ago: raise it")
    assert complaints([OLD, YOUNG], DATES, accepted(OLD), TODAY) == []


@pytest.mark.parametrize(
    ("pins", "old", "says"),
    [
        ([YOUNG, ("new", "1")], accepted(), "the release date of new==1 is not in releases.lock"),
        ([YOUNG], accepted(OLD), "six==1.17.0 is not pinned any more: remove it from old.toml"),
        (
            [OLD],
            accepted(OLD, looked=date(2026, 5, 20)),
            "the versions in old.toml were looked at on 2026-05-20: look for newer ones",
        ),
    ],
)
def test_lists_are_kept_up_to_date(pins: list[tuple[str, str]], old: OldOnes, says: str) -> None:
    [line] = complaints(pins, DATES, old, TODAY)
    assert line.startswith(says)


UV_LOCK = """
[[package]]
name = "six"
version = "1.18.0"
sdist = { url = "x", upload-time = "2026-11-02T09:00:00Z" }
wheels = [{ url = "x", upload-time = "2026-11-01T09:00:00.5Z" }, { url = "y" }]

[[package]]
name = "kstorm"
version = "0.1.0"
source = { editable = "shared" }
"""


def test_dates_come_from_uvs_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dates of servers stay, and so do those of pins that this lock does not have."""
    file, lock, uv_lock = (tmp_path / name for name in ("releases", "a.lock", "uv.lock"))
    file.write_text("# old\nKafka==4.1.2 2026-02-24\nsix==1.17.0 2024-12-04\nuv==1 2026-01-01\n")
    lock.write_text("six==1.18.0 \\\n    --hash=sha256:1\nuv==1 \\\n    --hash=sha256:2\n")
    uv_lock.write_text(UV_LOCK)
    monkeypatch.setattr(releases, "RELEASES", file)
    known = {("Kafka", "4.1.2"): date(2026, 2, 24), ("uv", "1"): date(2026, 1, 1), OLD: TODAY}
    text = updated(known, UV_LOCK, [("six", "1.18.0"), ("uv", "1")])
    entries = ["Kafka==4.1.2 2026-02-24", "six==1.18.0 2026-11-01", "uv==1 2026-01-01"]
    assert text.splitlines()[1:] == entries
    locks.write_dates(uv_lock, [lock])
    assert file.read_text() == text
