"""The first client to connect, which explains why Kafka cannot be reached.

librdkafka retries forever and finally reports every error as a transport failure. So intermediate
errors are recorded. A rejected login or certificate will be rejected again, so it is reported
immediately with the remedy. Other errors may be temporary and are retried.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs hide some
    AdminClient,
    ConfigResource,
    ConsumerGroupDescription,
    MemberDescription,
    ResourceType,
)

from kstorm.errors import BrokerError, ConfigError, NoBrokerError
from kstorm.runtime.base.secrets import describe_login
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.client_errors import broker_error, raise_first_error

_TIMEOUT_SECS: Final = 20.0
_LOOK_SECS: Final = 0.2
_AGAIN_SECS: Final = 0.05
_TRUST_SECS: Final = 5.0
# Time within which all brokers learn of a new topic.
_NEW_TOPIC_SECS: Final = 3.0
# A new or restarted Kafka answers with these until the group's coordinator is ready.
_NOT_READY: Final = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_REMEDIES: Final = {
    KafkaError._AUTHENTICATION: "check sasl.mechanism, sasl.username and sasl.password in "
    "KSTORM_KAFKA_PROPERTIES",
    KafkaError._SSL: "check that the broker's certificate is valid and issued for this address, "
    "and that ssl.ca.location in KSTORM_KAFKA_PROPERTIES has the authority that signed it",
}


class Admin:
    """An admin client. Raises `ConfigError` if librdkafka rejects a property."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Errors by the broker's address.
        self._refusals: dict[str, KafkaError] = {}
        self._complaint = ""
        self._config: dict[str, Any] = {
            **settings.client_config,
            # A short backoff makes a refusal arrive after one or two attempts instead of ten. About
            # half of the backoff passes before librdkafka connects.
            "reconnect.backoff.ms": 200,
            "error_cb": self._heard,
            "log_level": 0,
        }
        try:
            self.client = AdminClient(self._config)
        except (KafkaException, TypeError, ValueError) as error:
            cause = error.args[0] if error.args else error
            reason = cause.str() if isinstance(cause, KafkaError) else str(cause)
            raise ConfigError(f"librdkafka rejects KSTORM_KAFKA_PROPERTIES: {reason}") from None

    def close(self) -> None:
        """Close the client, which has threads and connections. No request may be in progress:
        librdkafka 2.16.0 could crash or block the process. Without this call, the client lives
        until the garbage collector finds it."""
        del self.client

    def partition_counts(self, within: float = _TIMEOUT_SECS) -> dict[str, int]:
        """Return the partition count of every topic in the cluster.

        Raises `NoBrokerError` if no broker responds within `within` seconds. Raises `BrokerError`
        if all brokers refuse the connection, or if at least one has refused it when the time is up.
        """
        deadline, patience = time.monotonic() + within, _LOOK_SECS
        while True:
            try:
                found = self.client.list_topics(timeout=patience)
            except KafkaException as error:
                self.client.poll(0)
                # Refusals arrive quickly. The longer wait is for slow brokers.
                patience *= 2
                late = time.monotonic() > deadline
                if len(self._refusals) >= self._brokers or (late and self._refusals):
                    raise self._refused(*self._refusals.values()) from None
                if late:
                    raise self._unanswered(error.args[0]) from None
            else:
                return {name: len(topic.partitions) for name, topic in found.topics.items()}

    def topic_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics, by topic and name.

        Raises `BrokerError` if a topic does not exist or the user may not read its settings.
        """
        deadline = time.monotonic() + _NEW_TOPIC_SECS
        while True:
            resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
            answers = self.client.describe_configs(resources, request_timeout=_TIMEOUT_SECS)
            try:
                return {
                    resource.name: {name: entry.value for name, entry in answer.result().items()}
                    for resource, answer in answers.items()
                }
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
                    remedy = (
                        "; this needs the right DESCRIBE_CONFIGS on each topic"
                        if cause.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                        else ""
                    )
                    raise broker_error(
                        f"Kafka did not return the settings of the topics {', '.join(topics)} "
                        f"({describe_login(self._settings.client_config)})",
                        cause,
                        remedy,
                    ) from None
            time.sleep(_LOOK_SECS)

    def group_members(self, groups: Sequence[str]) -> dict[str, Sequence[MemberDescription]]:
        """Return the members of consumer groups, with an empty list for a missing group. Raises
        `BrokerError`."""
        described = self.described_groups(groups)
        return {group: () if found is None else found.members for group, found in described.items()}

    def described_groups(
        self, groups: Sequence[str], within: float = _TIMEOUT_SECS
    ) -> dict[str, ConsumerGroupDescription | None]:
        """Describe consumer groups, with None for a missing group. Raises `BrokerError`."""
        answers = self._coordinated(
            lambda left: self.client.describe_consumer_groups(list(groups), request_timeout=left),
            within,
        )
        found: dict[str, ConsumerGroupDescription | None] = {}
        for group, answer in answers.items():
            try:
                found[group] = answer.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise broker_error(
                        f"Kafka at {self._settings.bootstrap_servers} did not return the members "
                        f"of the group {group!r}",
                        error.args[0],
                    ) from None
                found[group] = None
        return found

    def store_offsets(
        self, group: str, places: Sequence[TopicPartition], within: float = _TIMEOUT_SECS
    ) -> None:
        """Commit offsets for a group without members. Raises `KafkaException`."""
        asked = ConsumerGroupTopicPartitions(group, list(places))
        answers = self._coordinated(
            lambda left: self.client.alter_consumer_group_offsets([asked], request_timeout=left),
            within,
        )
        raise_first_error(answers[group].result().topic_partitions)

    def _coordinated(
        self, request: Callable[[float], Mapping[str, Future[Any]]], within: float
    ) -> Mapping[str, Future[Any]]:
        """Return what the groups' coordinators answer, once they are ready or the time is up.
        Replace the client if a request has timed out.

        In librdkafka 2.16, a timed out request to a coordinator stays queued, and aborts the process
        when Kafka returns (confluentinc/librdkafka#4605). It ends together with its client.
        """
        deadline = time.monotonic() + within
        while True:
            answers = request(max(_LOOK_SECS, deadline - time.monotonic()))
            codes = {code for answer in answers.values() for code in _error_codes(answer)}
            if KafkaError._TIMED_OUT in codes:
                self.client = AdminClient(self._config)
            if codes.isdisjoint(_NOT_READY) or time.monotonic() > deadline:
                return answers
            time.sleep(_AGAIN_SECS)

    def _heard(self, error: KafkaError) -> None:
        if error.code() in _REMEDIES:
            self._refusals[error.str().partition("/bootstrap")[0]] = error
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._complaint = error.str()

    @property
    def _brokers(self) -> int:
        """Number of configured brokers. Until the timeout, an error is reported only if all of them have refused."""
        return len(str(self._settings.client_config["bootstrap.servers"]).split(","))

    def _refused(self, refusal: KafkaError, *_: KafkaError) -> BrokerError:
        code, config = refusal.code(), self._settings.client_config
        reason = (code == KafkaError._SSL and _why_not_trusted(config)) or refusal.str()
        return BrokerError(
            f"Kafka at {config['bootstrap.servers']!r} cannot be used ({describe_login(config)}): {reason}; "
            f"{_REMEDIES[code]}"
        )

    def _unanswered(self, error: KafkaError) -> NoBrokerError:
        config = self._settings.client_config
        return NoBrokerError(
            f"no Kafka broker answered at {config['bootstrap.servers']!r} ({describe_login(config)}; "
            f"{self._complaint or error.str()}): is it running, and are KSTORM_BOOTSTRAP_SERVERS "
            "and the security.protocol right?"
        )


def _error_codes(answer: Future[Any]) -> Iterator[int]:
    """Yield the code of a group's error, or those of its partitions."""
    error = answer.exception()
    if isinstance(error, KafkaException):
        yield error.args[0].code()
    elif error is None and isinstance(found := answer.result(), ConsumerGroupTopicPartitions):
        yield from (place.error.code() for place in found.topic_partitions or () if place.error)


def _why_not_trusted(config: Mapping[str, Any]) -> str:
    """Return why the broker's certificate is not trusted, or "". librdkafka does not report it."""
    host, _, port = config["bootstrap.servers"].split(",")[0].rpartition(":")
    try:
        trusting = ssl.create_default_context(
            cafile=config.get("ssl.ca.location"), cadata=config.get("ssl.ca.pem")
        )
        with socket.create_connection((host, int(port)), _TRUST_SECS) as plain:
            trusting.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted: {error.verify_message}"
    except (OSError, ValueError):
        return ""
    return ""
