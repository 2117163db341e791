"""A change of the frame format and back, while the topology runs (docs/guides/upgrading.md)."""

from collections import Counter
from itertools import groupby

import pytest

from kstorm.core.wire import TupleFrame, decode
from kstorm.topology.topology import ACKER_COMPONENT
from tests.integration.conftest import RunTopology
from tests.integration.engine import Engine, check_words
from tests.integration.test_engine import LONG_SECS, sentences

FORMAT = "KSTORM_TEST_FRAME_FORMAT"


@pytest.mark.parametrize(
    "guarantee",
    [
        pytest.param("at_least_once", marks=pytest.mark.slow),
        pytest.param("exactly_once", marks=pytest.mark.long),
    ],
)
def test_counts_are_exact_while_the_frame_format_changes(
    run_topology: RunTopology, guarantee: str
) -> None:
    """One process after the other is replaced under load, so both formats are in use at once."""
    settings = {"KSTORM_TEST_GUARANTEE": guarantee, FORMAT: "1"}
    text: list[str] = []
    with run_topology("wordcount", timeout_secs=LONG_SECS, settings=settings) as engine:
        for form in ("2", "1"):
            for component in ("count", "sentences", ACKER_COMPONENT, "split", "sink"):
                text += (more := sentences(500))
                engine.produce(more)
                replace(engine, component, form)
            text += more
            engine.produce(more)
            engine.await_done("sentences")
        assert check_words(engine, text) == Counter()
        assert set(map(tuple, formats_to_count(engine))) == {(1, 2, 1)}


def replace(engine: Engine, component: str, form: str) -> None:
    """Stop a component's process, and start one that writes another format."""
    processes = engine.processes
    (old,) = processes.of(component)
    processes.environment_of = {**processes.environment_of, old.name: {FORMAT: form}}
    processes.scale(component, 0)
    assert old.process.returncode == 0
    processes.scale(component, 1)
    processes.wait_ready(60)


def formats_to_count(engine: Engine) -> list[list[int]]:
    """Return the formats in each partition of the count's input, in order and without repeats."""
    topology = engine.processes.topology
    topic = topology.bolt_topic("count")
    found = engine.values(topic, topology.topics()[topic])
    formats = ([decode(TupleFrame, value or b"").version for value in values] for values in found)
    return [[form for form, _ in groupby(each)] for each in formats]
