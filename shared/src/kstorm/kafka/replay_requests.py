"""Requests to a `KafkaSpout` to emit a dead letter's message again, at its own coordinates.

They are records in the topic `<topology>.__orders` with the keys of the dead letters. A request is
open until a tombstone ends it.
"""

from typing import Final, NamedTuple

import msgspec

from kstorm.texts import decode_json

FAILED: Final = b"failed:"
"""Key prefix of failure records."""


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the topic: a request to replay a message."""

    number: int
    """Number of the dead letter."""
    topic: str
    partition: int
    offset: int
    value: bytes | None = None
    key: bytes | None = None
    headers: list[tuple[str, str | None]] = []
    timestamp: int = 0
    """The message's timestamp in ms since 1970, or 0 if it has none."""
    attempts: int = 0
    """Number of attempts so far."""
    replays: int = 1
    """Ordinal of this replay: 1 for the first one."""
    after: int = 0
    """Earliest time of the replay, in ms since 1970."""
    who: str = ""
    note: str = ""
    batch: str = ""
    """ID of a batch: requests that were made together and run in stages. "": not part of a batch."""
    stage: int = 0
    """Stage in the batch, from 0. A stage waits until all requests of earlier stages have ended."""
    stages: list[int] = []
    """Number of this spout's requests in each stage of the batch."""
    pace: int = 0
    """Minimum age of the stage before this request runs, in ms."""

    @property
    def message(self) -> "RequestedMessage":
        """The message in the form that the spout's scheme reads."""
        return RequestedMessage(self)


class RequestedMessage(NamedTuple):
    """The message of a request, in the form of a `SourceMessage`."""

    order: ReplayRequest

    def topic(self) -> str:
        return self.order.topic

    def partition(self) -> int:
        return self.order.partition

    def offset(self) -> int:
        return self.order.offset

    def key(self) -> bytes | None:
        return self.order.key

    def value(self) -> bytes | None:
        return self.order.value

    def headers(self) -> list[tuple[str, str | bytes | None]] | None:
        return list(self.order.headers) or None

    def timestamp(self) -> tuple[int, int]:
        """Return the message's original timestamp, marked as set by the producer."""
        return (1, self.order.timestamp) if self.order.timestamp else (0, 0)


class ReplayFailure(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the topic, which reports that a request of a batch failed again.

    The record is kept until all requests of the batch have ended.
    """

    batch: str
    stage: int
    topic: str
    partition: int


def encode_failure(order: ReplayRequest) -> bytes:
    """Encode the failure of a request."""
    return msgspec.json.encode(
        ReplayFailure(
            batch=order.batch, stage=order.stage, topic=order.topic, partition=order.partition
        )
    )


def decode_failure(data: bytes) -> ReplayFailure:
    """Decode a failure. Raises `FrameError` if it is invalid."""
    return decode_json(data, ReplayFailure, "a failure of a replay request")


def failure_key(order: ReplayRequest, key: bytes) -> bytes:
    """Return the key for the failure of the request with this key. Topic names have no colon."""
    return b"%s%s:%s" % (FAILED, order.batch.encode(), key)


def encode_request(order: ReplayRequest) -> bytes:
    return msgspec.json.encode(order)


def decode_request(data: bytes) -> ReplayRequest:
    """Decode a request. Raises `FrameError` if it is invalid."""
    return decode_json(data, ReplayRequest, "a replay request")
