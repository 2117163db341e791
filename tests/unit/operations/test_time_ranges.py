"""Time ranges that are read once, compared with sets of seconds."""

from hypothesis import given
from hypothesis import strategies as st

from kstorm.operations.traces.time_ranges import TimeRanges

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


def moments(spans: list[tuple[float, float]]) -> set[int]:
    """Returns the whole seconds in the spans."""
    return {moment for start, until in spans for moment in range(int(start), int(until))}


@given(rounds=st.lists(SPANS, max_size=5))
def test_each_moment_is_fresh_once(rounds: list[list[tuple[float, float]]]) -> None:
    """The spans cover the new moments only. They are sorted, separate and not empty."""
    spans, told = TimeRanges(), set[int]()
    for wanted in rounds:
        fresh = spans.fresh(wanted)
        assert moments(fresh) == moments(wanted) - told
        assert len(moments(fresh)) == sum(until - start for start, until in fresh)
        assert all(start < until for start, until in fresh)
        assert fresh == sorted(fresh)
        told |= moments(wanted)
