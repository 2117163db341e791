"""Storm's "Trident spouts", in its order."""

import pytest

from kstorm.errors import TopologyError
from kstorm.kafka import KafkaHosts, KafkaSpout
from kstorm.queues import RabbitMQConfig, RabbitMQSpout
from kstorm.testing import FeederSpout
from kstorm.topology import Config
from kstorm.topology.config import EXACTLY_ONCE
from kstorm.trident import (
    Count,
    OpaqueTridentKafkaSpout,
    TransactionalTridentKafkaSpout,
    TridentKafkaConfig,
    TridentTopology,
    kstorm_state,
)


def test_user_defined_spout() -> None:
    """It is an `IRichSpout` with the stream's id."""
    topology = TridentTopology("t")
    topology.new_stream("myspoutid", FeederSpout("word")).map(str.upper)
    assert [spec.id for spec in topology.build().spouts] == ["myspoutid"]


def test_a_spout_that_cannot_be_processed_exactly_once_is_refused() -> None:
    """Storm accepts these non-transactional spouts, and overcounts."""
    topology = TridentTopology("t")
    topology.new_stream("queue", RabbitMQSpout(RabbitMQConfig("orders"))).map(len)
    with pytest.raises(TopologyError, match=r"exactly.once"):
        topology.build()


def test_two_streams_of_one_id_are_refused() -> None:
    topology = TridentTopology("t")
    for _ in range(2):
        topology.new_stream("same", FeederSpout("word")).map(str.upper)
    with pytest.raises(TopologyError, match="same"):
        topology.build()


@pytest.mark.parametrize("kind", [OpaqueTridentKafkaSpout, TransactionalTridentKafkaSpout])
def test_positions_are_in_zookeeper_under_the_streams_id(
    kind: type[OpaqueTridentKafkaSpout],
) -> None:
    """`transactional.zookeeper.root` is `/transactional`.

    The topology's name is below it, because ids belong to a topology.
    """
    topology = TridentTopology("t")
    topology.new_stream("spout1", kind(TridentKafkaConfig(KafkaHosts(), "lines"))).map(len)
    (spout,) = [spec.component for spec in topology.build().spouts]
    assert isinstance(spout, KafkaSpout)
    assert (spout.spout_config.zk_root, spout.spout_config.id) == ("/transactional/t", "spout1")


def test_pipelining() -> None:
    """`topology.max.spout.pending` limits the pending messages, not the pending batches."""
    config = Config(topology_processing_guarantee=EXACTLY_ONCE, topology_max_spout_pending=7)
    topology = TridentTopology("t", config)
    words = topology.new_stream("in", FeederSpout("word")).group_by("word")
    words.persistent_aggregate(kstorm_state(), Count(), "n")
    assert topology.build().component("in").config.topology_max_spout_pending == 7
