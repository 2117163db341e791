"""The benchmark's figures from stamps and samples."""

import pytest

from tests.bench.figures import (
    Growth,
    latencies_ms,
    quantile,
    spread,
    steady_window,
    throughput,
    whole_window,
)


def test_the_window_is_from_25_to_95_percent_of_the_output() -> None:
    """In whatever order the stamps come."""
    window = steady_window([1000 * second for second in reversed(range(100))])
    assert (window.begin, window.end) == (25.0, 95.0)
    assert window.seconds == 70.0
    assert window.share == pytest.approx(0.7)


def test_a_late_straggler_does_not_stretch_the_window() -> None:
    """The tail is left out, as the start is."""
    stamps = [*range(0, 100_000, 1000)]
    stamps[0], stamps[-1] = -(10**6), 10**9
    assert steady_window(stamps).seconds == 70.0


def test_a_window_is_never_empty() -> None:
    """All records in one batch have one stamp."""
    assert steady_window([5, 5, 5]).seconds == 0.001
    with pytest.raises(ValueError, match="without output"):
        steady_window([])


def test_the_whole_is_from_the_first_record_of_any_topic_to_the_last_count() -> None:
    """Work that was done before the first count is in it."""
    window = whole_window([5000, 9000, 7000], 2.5)
    assert (window.begin, window.end, window.share) == (2.5, 9.0, 1.0)


def test_throughput_is_in_sentences_a_second_by_half_seconds() -> None:
    """Ten words to a sentence; a half second without output is 0."""
    assert throughput([1000] * 10 + [1499] * 10 + [2000] * 5) == [4.0, 0.0, 1.0]
    assert throughput([]) == []


def test_growth_is_even_between_samples() -> None:
    """And none before the first and after the last one."""
    growth = Growth()
    assert growth.between(0, 1) == 0.0
    for time, value in [(10.0, 1.0), (12.0, 3.0), (14.0, 4.0)]:
        growth.add(time, value)
    assert growth.between(11.0, 13.0) == 1.5
    assert growth.between(0.0, 99.0) == 3.0


def test_latency_is_from_sending_to_the_last_count() -> None:
    """Only of sentences sent after the warm-up; ids are µs, stamps ms."""
    assert latencies_ms({1_000_000: 1900, 2_000_000: 2030, 3_000_000: 3010}, 2_000_000) == [
        10.0,
        30.0,
    ]


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_quantiles_are_exact(share: float, value: float) -> None:
    """Of 1 to 100, half lie at or below 50."""
    assert quantile(list(range(1, 101)), share) == value
    assert quantile([], share) is None


def test_spread_of_some_and_of_none() -> None:
    """The median of an even number of values is between the middle two."""
    assert spread([4.0, 1.0, 2.0, 3.0]) == {"min": 1.0, "median": 2.5, "max": 4.0}
    assert spread([]) is None
