"""Entries live for a number of rotations after their last put."""

import pytest

from kstorm.core.rotating_map import RotatingMap


@pytest.mark.parametrize("buckets", [2, 3, 5])
def test_an_entry_expires_with_the_last_bucket(buckets: int) -> None:
    """With n buckets, the n-th rotation after a put returns the entry, and no earlier one does."""
    entries: RotatingMap[str, int] = RotatingMap(buckets)
    entries.put("a", 1)
    for _ in range(buckets - 1):
        assert entries.rotate() == {}
        assert "a" in entries
    assert entries.rotate() == {"a": 1}
    assert "a" not in entries
    assert len(entries) == 0


def test_put_restarts_the_lifetime() -> None:
    """A repeated put keeps a single entry, with the age of the last put."""
    entries: RotatingMap[str, int] = RotatingMap(2)
    entries.put("a", 1)
    entries.rotate()
    entries.put("a", 2)
    assert len(entries) == 1
    assert entries.rotate() == {}
    assert entries.rotate() == {"a": 2}


def test_a_popped_entry_does_not_expire() -> None:
    """Pop returns an entry of any age, once."""
    entries: RotatingMap[str, int] = RotatingMap(3)
    entries.put_new("old", 1)
    entries.rotate()
    entries.put_new("new", 2)
    assert (entries.pop("old"), entries.pop("new"), entries.pop("new")) == (1, 2, None)
    assert [entries.rotate() for _ in range(4)] == [{}, {}, {}, {}]


def test_single_bucket_is_refused() -> None:
    """An entry in a map of one bucket could expire immediately."""
    with pytest.raises(ValueError, match="1 buckets: it needs at least 2"):
        RotatingMap(1)
