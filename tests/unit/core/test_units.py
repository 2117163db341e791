"""Offsets are committed in order, up to the first unit that has not arrived."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.engine import InputProgress, Unit


def test_a_unit_is_done_when_it_is_closed_and_everything_arrived() -> None:
    """It needs both conditions, and its owner is notified once."""
    notified: list[int] = []
    unit = Unit(lambda: notified.append(1))
    unit.add()
    unit.delivered()
    assert not unit.done
    unit.add(2)
    unit.close()
    unit.delivered()
    assert not unit.done
    unit.delivered()
    assert unit.done
    assert notified == [1]


def test_a_unit_that_sent_nothing_is_done_when_it_is_closed() -> None:
    """A frame without results does not hold back its offset."""
    unit = Unit()
    unit.close()
    assert unit.done


def test_nothing_is_finished_behind_an_unfinished_unit() -> None:
    """The second unit's records arrive first, and the offset waits for the first unit."""
    progress, first, second = InputProgress(3), Unit(), Unit()
    assert (progress.finished, progress.begun) == (3, 3)
    progress.begin(first, 10)
    progress.begin(second, 20)
    second.close()
    assert (progress.finished, progress.begun) == (3, 20)
    first.close()
    assert (progress.finished, progress.begun) == (20, 20)


def test_results_may_have_arrived_while_acks_wait() -> None:
    """Units count as arrived up to the first one that has not, also if they are not closed."""
    progress, units = InputProgress(0), [Unit(), Unit(), Unit()]
    for number, unit in enumerate(units):
        unit.add()
        progress.begin(unit, number + 1)
        unit.executed = True
    units[0].delivered()
    units[2].delivered()
    assert (progress.finished, progress.arrived) == (0, 1)


def test_an_offset_that_was_committed_is_never_taken_back() -> None:
    """A later commit with a lower offset commits the higher one again."""
    progress = InputProgress(5)
    assert [progress.commit(offset) for offset in (7, 6, 8)] == [7, 7, 8]
    assert progress.committed == 8


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_the_offset_never_passes_an_unfinished_unit(sizes: list[int], random: Random) -> None:
    """Units may finish in any order."""
    progress, units, offset = InputProgress(0), [], 0
    for size in sizes:
        units.append((offset, Unit()))
        offset += size
        progress.begin(units[-1][1], offset)
    order = list(units)
    random.shuffle(order)
    for _, unit in order:
        unit.close()
        assert progress.finished == min(
            (start for start, each in units if not each.done), default=offset
        )
