"""A time far ahead of the clock makes all other tuples late. This is reported."""

import time

from kstorm.testing import BoltTester
from kstorm.windows import Duration, TupleWindow, WindowedBolt

YEAR_3000 = 32_503_680_000_000


class Shown(WindowedBolt):
    def execute(self, window: TupleWindow) -> None: ...


def windowed() -> BoltTester[Shown]:
    bolt = Shown().with_tumbling_window(Duration(1000)).with_timestamp_field("at")
    return BoltTester(bolt, "at")


def test_a_time_far_ahead_of_the_clock_is_reported() -> None:
    run = windowed()
    now = int(time.time() * 1000)
    for at in (now, now + 3_600_000, YEAR_3000):
        run.give([at])
    (error,) = (str(each.error) for each in run.errors)
    assert error.startswith(f"the time of a tuple of 'source' is {YEAR_3000}, which is ")
    assert "days ahead of this machine's clock" in error


def test_many_of_them_are_reported_rarely() -> None:
    run = windowed()
    for more in range(20):
        run.give([YEAR_3000 + more])
    assert len(run.errors) == 5
    assert str(run.errors[-1].error).endswith("So far there were 16 of them")
