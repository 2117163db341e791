"""Initializes a transactional producer, or explains why Kafka refuses it."""

import time
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kstorm.core.record_size import MAX_RECORD_BYTES
from kstorm.errors import BrokerError, ConfigError, FencedError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.internal_topics import TRANSACTIONS, broker_setting, permanent_problem
from kstorm.topology import Topology

TRANSACTION_SECS: Final = 10.0
"""Timeout after which the broker aborts the transaction of a dead process. It checks every 10 s by
default (`transaction.abort.timed.out.transaction.cleanup.interval.ms`), so a recovery may have to
wait twice as long."""

TRIAL_SECS: Final = 50.0
"""Timeout of a transaction that tries records one by one."""

FENCED: Final = (
    KafkaError._FENCED,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.INVALID_PRODUCER_EPOCH,
)

_CALL_SECS: Final = 10.0
_LINGER_MS: Final = 20
"""Milliseconds that librdkafka collects records. So they are sent in a few large batches while the
rest is still being queued. A flush sends immediately, so nothing waits for it."""


class TransactionalIdError(BrokerError):
    """The user lacks the right to use a transactional id."""


def transactional_properties(
    transactional_id: str, seconds: float, settings: Settings
) -> dict[str, Any]:
    """Return the properties of a producer whose transactions last up to `seconds`."""
    milliseconds = int(seconds * 1000)
    return {
        **settings.client_config,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": milliseconds,
        # Delivery must time out before the broker aborts the transaction.
        "message.timeout.ms": milliseconds * 4 // 5,
        "message.max.bytes": MAX_RECORD_BYTES,
        "linger.ms": _LINGER_MS,
        "queue.buffering.max.messages": 1_000_000,
    }


def init_transactions(
    producer: Producer, transactional_id: str, seconds: float, settings: Settings
) -> None:
    """Abort a transaction that an earlier run of this producer left open.

    `seconds` is its `transaction.timeout.ms` in seconds. Blocks for at most a minute. Raises:

    - `TransactionalIdError` if the user has no right to the id,
    - `ConfigError` if the brokers do not allow such a transaction,
    - `FencedError` if another process has the same id,
    - `BrokerError` that names the problem of the brokers.
    """
    started = time.monotonic()
    while True:
        try:
            producer.init_transactions(_CALL_SECS)
        except KafkaException as error:
            _raise_if_final(error.args[0], transactional_id, seconds, settings)
            if why := permanent_problem(TRANSACTIONS, settings, started):
                raise BrokerError(
                    f"Kafka at {settings.bootstrap_servers} did not accept the transactional id "
                    f"{transactional_id!r} ({error.args[0].str()}): {why}"
                ) from None
        else:
            return


def _raise_if_final(
    error: KafkaError, transactional_id: str, seconds: float, settings: Settings
) -> None:
    where, code = f"Kafka at {settings.bootstrap_servers}", error.code()
    if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        asked, known = int(seconds * 1000), broker_setting("transaction.max.timeout.ms", settings)
        raise ConfigError(
            f"{where} does not allow transaction.timeout.ms={asked}, which kstorm needs: "
            f"transaction.max.timeout.ms{f'={known}' if known else ''} in the settings of the "
            f"brokers is lower; set it to {asked} or more"
        )
    if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        raise TransactionalIdError(
            f"{where} did not accept the transactional id {transactional_id!r}: {error.str()}; "
            "allow this user WRITE on the transactional ids of its topology (docs/guides/security.md)"
        )
    if code in FENCED:
        raise FencedError(
            f"another process has started with the transactional id {transactional_id!r} "
            f"({error.str()})"
        )
    if not error.retriable():
        raise BrokerError(
            f"{where} did not accept the transactional id {transactional_id!r}: {error.str()}"
        )


def check_transactions(topology: Topology, settings: Settings) -> None:
    """Check before the start that Kafka supports the topology's transactions, if it uses any.

    Blocks, and raises the errors of `init_transactions`.
    """
    if not topology.config.exactly_once and not topology.changelogs():
        return
    seconds = TRIAL_SECS if topology.config.exactly_once else TRANSACTION_SECS
    name = f"{topology.name}.__prepare"
    producer = Producer(
        {
            **settings.client_config,
            "client.id": name,
            "transactional.id": name,
            "transaction.timeout.ms": int(seconds * 1000),
        }
    )
    with suppress(FencedError):  # another process that runs this check has succeeded
        init_transactions(producer, name, seconds, settings)
