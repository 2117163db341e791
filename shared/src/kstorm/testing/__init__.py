"""Test bolts and topologies without a broker.

Use `BoltTester` for one bolt, and `LocalCluster` or `complete_topology` for a topology. Spouts that
a test feeds replace the real ones. `simulate` runs a topology under random faults.

    def test_words_are_counted() -> None:
        result = complete_topology(topology, {"sentences": [["a b a"]]})
        assert result.emitted("count") == [["a", 1], ["b", 1], ["a", 2]]

KafkaSpout and KafkaBolt run on `kstorm.testing.kafka.FakeKafka`. Other components that need servers
do not run here. Replace them (`replace_components`), or test them against real servers.
`kstorm.pytest_plugin` has fixtures, and `kstorm.testing.strategies` has Hypothesis strategies. See
docs/guides/testing.md.
"""

from kstorm.testing.bolt import BoltTester
from kstorm.testing.capture import TupleCaptureBolt
from kstorm.testing.cluster import LocalCluster
from kstorm.testing.complete import complete_topology
from kstorm.testing.hunter import FAULTS
from kstorm.testing.replacement import replace_components
from kstorm.testing.samples import NGrouping, TestGlobalCount, TestWordCounter, TestWordSpout
from kstorm.testing.simulate import SimulationError, SimulationReport, simulate
from kstorm.testing.spouts import FeederSpout, FixedTuple, FixedTupleSpout
from kstorm.testing.tuples import make_tuple
from kstorm.testing.world import TaskError

__all__ = [
    "FAULTS",
    "BoltTester",
    "FeederSpout",
    "FixedTuple",
    "FixedTupleSpout",
    "LocalCluster",
    "NGrouping",
    "SimulationError",
    "SimulationReport",
    "TaskError",
    "TestGlobalCount",
    "TestWordCounter",
    "TestWordSpout",
    "TupleCaptureBolt",
    "complete_topology",
    "make_tuple",
    "replace_components",
    "simulate",
]
