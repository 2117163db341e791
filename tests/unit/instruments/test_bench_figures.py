"""The benchmark's results from timestamps and samples."""

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


def test_steady_window_is_25_to_95_percent_of_the_output() -> None:
    """The order of the timestamps does not matter."""
    window = steady_window([1000 * second for second in reversed(range(100))])
    assert (window.begin, window.end) == (25.0, 95.0)
    assert window.seconds == 70.0
    assert window.share == pytest.approx(0.7)


def test_straggler_does_not_stretch_the_window() -> None:
    """The window excludes the start and the tail."""
    stamps = [*range(0, 100_000, 1000)]
    stamps[0], stamps[-1] = -(10**6), 10**9
    assert steady_window(stamps).seconds == 70.0


def test_window_is_never_empty() -> None:
    """All records of a batch have one timestamp."""
    assert steady_window([5, 5, 5]).seconds == 0.001
    with pytest.raises(ValueError, match="without output"):
        steady_window([])


def test_whole_window_is_from_the_first_record_to_the_last_count() -> None:
    """The first record may be in any topic, so the window includes the work before the first count."""
    window = whole_window([5000, 9000, 7000], 2.5)
    assert (window.begin, window.end, window.share) == (2.5, 9.0, 1.0)


def test_throughput_is_measured_per_half_second() -> None:
    """A sentence has ten words. A half second without output is 0."""
    assert throughput([1000] * 10 + [1499] * 10 + [2000] * 5) == [4.0, 0.0, 1.0]
    assert throughput([]) == []


def test_growth_is_linear_between_samples() -> None:
    """The growth before the first and after the last sample is 0."""
    growth = Growth()
    assert growth.between(0, 1) == 0.0
    for time, value in [(10.0, 1.0), (12.0, 3.0), (14.0, 4.0)]:
        growth.add(time, value)
    assert growth.between(11.0, 13.0) == 1.5
    assert growth.between(0.0, 99.0) == 3.0


def test_latency_is_from_sending_to_the_last_count() -> None:
    """Sentences sent during the warm-up do not count. Ids are in µs, timestamps in ms."""
    assert latencies_ms({1_000_000: 1900, 2_000_000: 2030, 3_000_000: 3010}, 2_000_000) == [
        10.0,
        30.0,
    ]


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_quantiles_are_exact(share: float, value: float) -> None:
    """Half of the numbers from 1 to 100 are at most 50."""
    assert quantile(list(range(1, 101)), share) == value
    assert quantile([], share) is None


def test_spread_of_values() -> None:
    """The median of an even number of values is the mean of the middle two.

    No values have no spread.
    """
    assert spread([4.0, 1.0, 2.0, 3.0]) == {"min": 1.0, "median": 2.5, "max": 4.0}
    assert spread([]) is None
