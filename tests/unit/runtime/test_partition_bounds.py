"""The end of a partition during the election of its leader."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kstorm.runtime.kafka.partition_bounds import partition_bounds, partition_ends

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

    def offsets_for_times(
        self, places: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        """An error is that of the last partition."""
        assert {place.offset for place in places} == {-1}
        found: list[Any] = [TopicPartition(place.topic, place.partition, 7) for place in places]
        if self.errors:
            found[-1] = SimpleNamespace(error=KafkaError(self.errors.pop(0)))
        return found


def ends(asked: Asked, seconds: float = 20.0) -> Any:
    found = partition_ends(cast("Consumer", asked), "t", [0, 4], seconds)
    return {place.partition: place.offset for place in found}


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
    assert ends(Asked(*passing)) == {0: 7, 4: 7}


@pytest.mark.parametrize(
    ("code", "seconds"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, 20.0), (KafkaError.NOT_LEADER_FOR_PARTITION, 0.0)],
)
@pytest.mark.parametrize("look_up", [ask, ends])
def test_permanent_error_is_raised(code: int, seconds: float, look_up: Any) -> None:
    """Permanent errors are raised at once, and temporary ones at the deadline."""
    asked = Asked(code, code)
    with pytest.raises(KafkaException) as error:
        look_up(asked, seconds)
    assert error.value.args[0].code() == code
    assert len(asked.errors) == 1
