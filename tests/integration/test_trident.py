"""Streams on real servers count each word once despite kills."""

from collections import Counter

import pytest

from tests.integration.conftest import RunTopology

TEXT = [f"one two w{number % 7}" for number in range(6_000)]


@pytest.mark.slow
def test_word_count_of_the_tutorial_is_exact(run_topology: RunTopology) -> None:
    """Each kind of process is killed during the work.

    The totals are exact, with one record each.
    """
    with run_topology("streams") as engine:
        names = [worker.name for worker in engine.processes.workers]
        assert {name.rpartition("-")[0] for name in names} == {
            "acker",
            "sentences",
            "split",
            "count",
            "sink",
        }
        share = len(TEXT) // (len(names) + 1)
        for number, name in enumerate(names):
            engine.produce(TEXT[number * share : (number + 1) * share])
            engine.until(
                lambda: sum(engine.offsets().values()) < engine.produced,
                60,
                "messages are under way",
            )
            engine.worker(name).process.kill()
            engine.until(lambda: engine.worker(name).status() is not None, 60, f"{name} is back")  # noqa: B023 - called at once
        engine.produce(TEXT[len(names) * share :])
        engine.await_done("sentences")
        records = [(record["word"], record["count"]) for record in engine.records()]
    assert max(Counter(records).values()) == 1
    assert {
        word: max(count for of, count in records if of == word) for word, _ in records
    } == Counter(word for sentence in TEXT for word in sentence.split())
