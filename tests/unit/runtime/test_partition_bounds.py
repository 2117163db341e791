"""The end of a partition during the election of its leader."""

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.runtime.kafka.partition_bounds import partition_bounds

PLACE = TopicPartition("t", 0)


class Asked:
    """Raises these errors, and then returns offsets."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        assert place == PLACE
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return 3, 7


def ask(asked: Asked, seconds: float = 20.0) -> Any:
    return partition_bounds(cast("Consumer", asked), PLACE, seconds)


def test_a_leader_that_is_being_made_is_waited_for() -> None:
    """A process that starts right after its topics must not exit because of it."""
    passing = (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    )
    assert ask(Asked(*passing)) == (3, 7)


@pytest.mark.parametrize(
    ("code", "seconds"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, 20.0), (KafkaError.NOT_LEADER_FOR_PARTITION, 0.0)],
)
def test_permanent_error_is_raised(code: int, seconds: float) -> None:
    """Permanent errors are raised at once, and temporary ones at the deadline."""
    asked = Asked(code, code)
    with pytest.raises(KafkaException) as error:
        ask(asked, seconds)
    assert error.value.args[0].code() == code
    assert len(asked.errors) == 1
