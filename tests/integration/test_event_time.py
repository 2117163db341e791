"""Event time on real servers: uneven partitions, kills, and windows that close on both tasks."""

import json
from random import Random

import pytest

from tests.integration.conftest import RunTopology
from tests.integration.engine import SOURCE_PARTITIONS, Engine

_CLICKS = 3000
_END = 10_000_000


def clicks(start: int, count: int) -> list[str]:
    """Return clicks of 50 users, at most 8 s out of order."""
    chance = Random(start)
    return [
        json.dumps(
            {"user": f"u{n % 50}", "at": 100_000 + 100 * n - chance.randint(0, 8000), "n": n}
        )
        for n in range(start, start + count)
    ]


def shown(engine: Engine) -> set[int]:
    return {number for record in engine.records() for number in record["shown"]}


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_no_click_in_time_is_late(run_topology: RunTopology, guarantee: str) -> None:
    """A backlog is read by processes of which one of each component is killed."""
    with run_topology("visits", settings={"KSTORM_TEST_GUARANTEE": guarantee}) as engine:
        late = 0
        for part in range(3):
            engine.produce(clicks(part * _CLICKS // 3, _CLICKS // 3))
            for component in ("clicks", "parse", "visits"):
                late += own(engine, "late_total")
                engine.processes.of(component)[part % 2].process.kill()
        engine.produce([json.dumps({"user": "end", "at": _END, "n": -1})] * SOURCE_PARTITIONS)
        engine.until(lambda: shown(engine) >= set(range(_CLICKS)), 120, "all sessions are shown")
        assert late + own(engine, "late_total") == 0
        watermarks = [
            time["watermark"]
            for worker in engine.processes.of("visits")
            for time in (worker.status() or {})["watermarks"].values()
        ]
        assert watermarks == [_END - 10_000] * 2


def own(engine: Engine, name: str) -> int:
    """Return the sum of a metric of the windowed bolt, over the responding processes."""
    statuses = [worker.status() for worker in engine.processes.of("visits")]
    return sum(int(status["own"].get(name, 0)) for status in statuses if status)
