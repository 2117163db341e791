"""Tests of topologies without a broker: `LocalCluster`, `complete_topology`, and spouts to feed.

    def test_words_are_counted() -> None:
        result = complete_topology(topology, {"sentences": [["a b a"]]})
        assert result.emitted("count") == [["a", 1], ["b", 1], ["a", 2]]

Components that need servers (KafkaSpout, KafkaBolt) do not run here; replace them, or test them on real ones.
"""

from kstorm.testing.cluster import LocalCluster
from kstorm.testing.complete import complete_topology
from kstorm.testing.spouts import FeederSpout, FixedTuple, FixedTupleSpout
from kstorm.testing.world import TaskError

__all__ = ["FeederSpout", "FixedTuple", "FixedTupleSpout", "LocalCluster", "TaskError", "complete_topology"]
