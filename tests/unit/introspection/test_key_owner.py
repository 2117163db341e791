"""The task that answers for a key is the task that the grouping chooses."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.outbox import Outbox
from kstorm.core.routing import routes
from kstorm.errors import TopologyError
from kstorm.introspection.key_owner import likely_values, owner_of
from kstorm.introspection.outline import Outline, OutlineComponent, OutlineEdge
from kstorm.introspection.outline_builder import outline_of
from kstorm.topology import Bolt, Fields, OutputFieldsDeclarer, Spout, Topology, TopologyBuilder

VALUES = (
    st.text(max_size=8)
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
)


class Source(Spout):
    """Emits pairs."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "day")


def topology(tasks: int, *fields: str) -> Topology:
    """Builds a spout and a bolt."""
    builder = TopologyBuilder("t")
    builder.set_spout("source", Source(), 3)
    builder.set_bolt("count", Bolt(), tasks).fields_grouping("source", Fields(*fields))
    return builder.build()


@given(
    tasks=st.integers(1, 9),
    values=st.tuples(VALUES, VALUES),
    fields=st.sampled_from([("word",), ("day", "word")]),
)
def test_owner_is_chosen_by_the_grouping(
    tasks: int, values: tuple[Any, Any], fields: tuple[str, ...]
) -> None:
    """This holds for any values, fields and number of tasks."""
    built = topology(tasks, *fields)
    route = routes(built, "source", 1, Outbox(built))["default"]
    ((chosen,),) = (lane.targets for lane in route.choose(values))
    grouped = [dict(zip(("word", "day"), values, strict=True))[name] for name in fields]
    assert owner_of(outline_of(built), "count", grouped) == chosen


@given(values=st.tuples(VALUES, VALUES))
def test_json_list_in_the_key_gives_the_grouping_values(values: tuple[Any, Any]) -> None:
    """The list must have one value per field of the grouping. Otherwise the whole key is one value."""
    told = outline_of(topology(7, "word", "day"))
    assert owner_of(told, "count", likely_values(told, "count", json.dumps(values))) == owner_of(
        told, "count", values
    )
    one = outline_of(topology(7, "word"))
    for key in ("the", json.dumps(values), "[", "[1", '{"a": 1}', "[" * 100_000):
        assert likely_values(one, "count", key) == [key]
    assert likely_values(one, "count", "[5]") == [5]


def test_owner_is_unknown_if_inputs_are_grouped_differently() -> None:
    """Some inputs have groupings with more fields or none. A single task owns every key."""

    def told(*grouped: list[str], tasks: int = 4) -> Outline:
        edges = [
            OutlineEdge(f"s{number}", "default", "b", "", names)
            for number, names in enumerate(grouped)
        ]
        return Outline("t", [OutlineComponent("b", "bolt", tasks, 10)], edges)

    same = told(["word"], ["name"])
    assert owner_of(same, "b", ["the"]) == owner_of(told(["x"]), "b", ["the"]) is not None
    for other in (told(["word"], []), told(["word"], ["word", "day"]), told([]), told()):
        assert owner_of(other, "b", ["the"]) is None
    assert owner_of(same, "b", ["the", 1]) is None
    assert owner_of(told([], tasks=1), "b", ["the"]) == 10
    with pytest.raises(TopologyError, match="no component 'c': it has b"):
        owner_of(same, "c", ["the"])
