"""Offsets are committed in order, behind what has arrived."""

from hypothesis import given
from hypothesis import strategies as st

from kstorm.runtime.delivery import WorkUnit
from kstorm.runtime.progress import Progress


def _unit() -> WorkUnit:
    return WorkUnit(lambda: None)


def test_a_unit_is_done_when_it_is_closed_and_everything_arrived() -> None:
    """Neither alone is enough, and its owner is told once."""
    told: list[int] = []
    unit = WorkUnit(lambda: told.append(1))
    unit.add()
    unit.delivered()
    assert not unit.done
    unit.add()
    unit.close()
    assert not unit.done
    unit.delivered()
    assert unit.done
    assert told == [1]


def test_a_unit_that_sent_nothing_is_done_when_it_is_closed() -> None:
    """A frame that caused nothing does not hold its offset."""
    unit = _unit()
    unit.close()
    assert unit.done


def test_nothing_is_committed_behind_an_unfinished_unit() -> None:
    """The second unit's records arrive first: the offset waits for the first."""
    progress, first, second = Progress(), _unit(), _unit()
    progress.begin(first, 9)
    progress.begin(second, 19)
    second.close()
    assert progress.to_commit() is None
    first.close()
    assert progress.to_commit() == 20
    assert progress.to_commit() is None
    assert progress.begun == 20


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_the_offset_never_passes_an_unfinished_unit(sizes: list[int], random: st.DataObject) -> None:
    """In whatever order units finish."""
    progress, units, offset = Progress(), [], 0
    for size in sizes:
        offset += size
        unit = _unit()
        units.append((unit, offset))
        progress.begin(unit, offset - 1)
    order = list(units)
    random.shuffle(order)  # type: ignore[attr-defined]
    for unit, _ in order:
        unit.close()
        progress.advance()
        unfinished = [end for each, end in units if not each.done]
        limit = min(unfinished) - 1 if unfinished else offset
        assert progress.next_offset <= limit
    assert progress.next_offset == offset
