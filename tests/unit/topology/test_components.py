"""The optional parts of components, and their defaults."""

import pytest

from kstorm.kafka import KafkaBolt, KafkaSpout
from kstorm.queues import KestrelSpout, RabbitMQSpout
from kstorm.topology import BasicBolt, Bolt, Component, Spout, StatefulBasicBolt, StatefulBolt


@pytest.mark.parametrize("kind", [Spout, Bolt, BasicBolt, StatefulBolt, StatefulBasicBolt])
def test_component_without_metrics(kind: type[Component]) -> None:
    """By default it has no metrics and no problem."""
    component = kind()
    assert component.metrics() == {}
    assert component.problem() is None
    assert component.get_component_configuration() == {}


@pytest.mark.parametrize("kind", [KafkaSpout, KafkaBolt, KestrelSpout, RabbitMQSpout])
def test_sources_and_sinks_override_metrics(kind: type[Component]) -> None:
    """They override the base method, so callers need no `hasattr` check."""
    assert issubclass(kind, Component)
    assert kind.metrics is not Component.metrics


@pytest.mark.parametrize("kind", [StatefulBolt, StatefulBasicBolt])
def test_the_steps_of_a_checkpoint_need_not_be_defined(kind: type[StatefulBolt]) -> None:
    """The defaults do nothing, as in Storm's BaseStatefulBolt."""
    bolt = kind()
    assert bolt.pre_prepare(1) is None
    assert bolt.pre_commit(1) is None
    assert bolt.pre_rollback() is None
