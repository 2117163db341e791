"""Queries of a stream's state by key: a single text unchanged, and other keys as a JSON list."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.outbox import Outbox
from kstorm.core.routing import routes
from kstorm.introspection.key_owner import likely_values, owner_of
from kstorm.introspection.outline_builder import outline_of
from kstorm.testing import FeederSpout
from kstorm.topology import Fields, Topology
from kstorm.topology.keys import key_text
from kstorm.trident import Count, TridentTopology, kstorm_state
from tests.unit.introspection.test_key_owner import VALUES


def grouped(*fields: str) -> Topology:
    """Builds a count by these fields."""
    topology = TridentTopology("wordcount")
    stream = topology.new_stream("in", FeederSpout(Fields("word", "day"))).group_by(Fields(*fields))
    stream.persistent_aggregate(kstorm_state(), Count(), Fields("count")).parallelism_hint(5)
    return topology.build()


ONE, TWO = grouped("word"), grouped("word", "day")


@given(values=st.tuples(VALUES | st.text("[]1\"'"), VALUES))
def test_the_task_that_is_asked_is_the_one_that_has_the_key(values: tuple[Any, Any]) -> None:
    """This holds for groups of one and of two fields."""
    for topology, key in ((ONE, values[:1]), (TWO, values)):
        route = routes(topology, "in", 0, Outbox(topology))["default"]
        ((chosen,),) = (lane.targets for lane in route.choose(values))
        told = outline_of(topology)
        assert owner_of(told, "count", likely_values(told, "count", key_text(key))) == chosen
