"""Why Kafka does not return the settings of topics."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kstorm.errors import BrokerError, NoBrokerError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin


class _Refusing:
    def __init__(self, code: int) -> None:
        self._code = code

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        answer = Future[Any]()
        answer.set_exception(KafkaException(KafkaError(self._code)))
        return dict.fromkeys(resources, answer)


@pytest.mark.parametrize(
    ("code", "names_right"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, True), (KafkaError._TIMED_OUT, False)],
)
def test_only_a_denial_names_the_right(code: int, names_right: bool) -> None:
    """A Kafka that is too busy to respond lacks no right, and a process that starts may try again."""
    admin = Admin(Settings(topology="unused", bootstrap_servers="127.0.0.1:9"))
    admin.client = _Refusing(code)  # type: ignore[assignment]
    with pytest.raises(BrokerError, match="settings of the topics counts") as told:
        admin.topic_settings(["counts"])
    assert ("DESCRIBE_CONFIGS" in str(told.value)) == names_right
    assert isinstance(told.value, NoBrokerError) != names_right
