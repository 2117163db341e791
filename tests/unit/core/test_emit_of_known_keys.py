"""An emit with a known key is checked like the first one, and calls a grouping once."""

from collections.abc import Sequence
from typing import Any

import pytest

from kstorm.core.emitter import Emitter
from kstorm.core.ids import columns_of
from kstorm.core.outbox import Outbox
from kstorm.core.routing import routes
from kstorm.errors import EmitError, UnsendableError
from kstorm.topology import (
    Bolt,
    CustomStreamGrouping,
    Fields,
    OutputFieldsDeclarer,
    Spout,
    TopologyBuilder,
    TopologyContext,
)


class Source(Spout):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "other")


class Refuses(CustomStreamGrouping):
    def prepare(
        self, context: TopologyContext, component: str, stream: str, target_tasks: Sequence[int]
    ) -> None:
        pass

    def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
        ASKED.append(values[0])
        raise LookupError("no task for it")


ASKED: list[Any] = []


def emitter(grouping: CustomStreamGrouping | None = None) -> Emitter:
    builder = TopologyBuilder("t")
    builder.set_spout("source", Source())
    bolt = builder.set_bolt("bolt", Bolt(), 4)
    if grouping is None:
        bolt.fields_grouping("source", Fields("key"))
    else:
        bolt.custom_grouping("source", grouping)
    topology = builder.build()
    outbox = Outbox(topology)
    return Emitter(
        "source", routes(topology, "source", 0, outbox), outbox, lambda: 1, columns_of(lambda: 1)
    )


def test_the_other_values_are_checked() -> None:
    """This includes tuples after others with the same key."""
    source = emitter()
    first = source.put(["a", 1])
    assert source.put(["a", 2]) == first
    for other in (object(), 2**64, "x" * 2_000_000):
        with pytest.raises(UnsendableError, match="'other'"):
            source.put(["a", other])
    with pytest.raises(EmitError, match="emits 1 values"):
        source.put(["a"])
    assert source.emitted == 2


def test_keys_that_python_cannot_hash() -> None:
    """They go to the task of an equal key."""
    source = emitter()
    assert source.put([["a"], 1]) == source.put([["a"], 2])
    assert source.put([1, 1]) == source.put([1.0, 1])


def test_a_grouping_that_raises_is_asked_once() -> None:
    """Its choice may have side effects."""
    ASKED.clear()
    with pytest.raises(EmitError, match="no task for it"):
        emitter(Refuses()).put(["a", 1])
    assert ASKED == ["a"]
