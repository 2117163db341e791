"""Asks Kafka for the topic before Spark starts, with one request of Kafka's protocol.

Spark's client takes half a minute to start on a busy machine, and then notices a wrong address only
after minutes. The request is sent without TLS and without a login. If Kafka requires one, only the
connection is checked, and Spark's client reports the rest.
"""

from __future__ import annotations

import base64
import queue
import socket
import threading
import time
from dataclasses import dataclass
from struct import error as StructError  # noqa: N812
from struct import pack, unpack
from typing import TYPE_CHECKING, Final

from kstorm_pipeline.errors import SettingsError

if TYPE_CHECKING:
    from kstorm_pipeline.settings import Settings

_SECONDS: Final = 2.0
"""The time for all bootstrap servers together."""
_AGAIN_SECONDS: Final = 0.1
"""A broker may not know a new topic yet."""
_METADATA: Final = 3
_VERSION: Final = 10
"""The first version with the topic's id, of Kafka 2.8."""
_MISSING: Final = 3
"""Kafka's error code for an unknown topic."""
_LONGEST: Final = 1 << 24
_FOREIGN: Final = (
    "it does not speak Kafka's protocol without TLS; is --kafka-option security.protocol right?"
)


class _ForeignError(Exception):
    """The server speaks another protocol, such as TLS or HTTP."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of one server: the reason for a failed connection, or whether it lacks the topic."""

    server: str
    refusal: str = ""
    missing: bool = False
    topic_id: str | None = None


def ask_brokers(settings: Settings) -> str | None:
    """Return the topic's id, or None if it is unknown.

    Raises SettingsError if no bootstrap server accepts a connection, or if the topic is missing.
    """
    answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
    servers = settings.bootstrap_servers.split(",")
    plain = _option(settings, "security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
    topic = settings.topic if plain else ""
    deadline = time.monotonic() + _SECONDS
    for server in servers:
        # A name server may answer after the deadline, and a daemon does not delay the exit.
        threading.Thread(
            target=lambda server=server: answers.put(_ask(server, topic, deadline)), daemon=True
        ).start()
    refusals: dict[str, str] = {}
    while len(refusals) < len(servers):
        try:
            answer = answers.get(timeout=max(0.0, deadline + _AGAIN_SECONDS - time.monotonic()))
        except queue.Empty:
            break
        if answer.missing:
            raise SettingsError(
                f"there is no topic {settings.topic!r} at {settings.bootstrap_servers}: "
                "create it or correct --topic"
            )
        if not answer.refusal:
            return answer.topic_id
        refusals[answer.server] = answer.refusal
    reasons = (f"{each}: {refusals.get(each, 'timed out')}" for each in servers)
    raise SettingsError(
        f"no Kafka broker responds ({'; '.join(reasons)}): "
        "check that Kafka is up and that --bootstrap-servers is right"
    )


def _option(settings: Settings, name: str, default: str) -> str:
    options = settings.kafka_options
    return str(options.get(name) or options.get(f"kafka.{name}") or default)


def _ask(server: str, topic: str, deadline: float) -> _Answer:
    host, _, port = server.rpartition(":")
    missing = False
    while True:
        seconds = deadline - time.monotonic()
        try:
            with socket.create_connection(
                (host.strip("[]"), int(port)), timeout=max(seconds, _AGAIN_SECONDS)
            ) as connection:
                found = _describe(connection, topic) if topic else None
        except _ForeignError:
            return _Answer(server, refusal=_FOREIGN)
        except OSError as error:
            return _Answer(server, missing=missing, refusal=error.strerror or str(error))
        error_code, topic_id = found or (0, None)
        if error_code != _MISSING:
            return _Answer(server, topic_id=topic_id)
        missing = True
        if time.monotonic() + _AGAIN_SECONDS >= deadline:
            return _Answer(server, missing=True)
        time.sleep(_AGAIN_SECONDS)


def _describe(connection: socket.socket, topic: str) -> tuple[int, str | None] | None:
    """Return Kafka's error code for the topic and the topic's id, or None if they are unknown."""
    name = topic.encode()
    client = b"kstorm-pipeline"
    header = pack(">hhih", _METADATA, _VERSION, 1, len(client)) + client + b"\0"
    # One topic by its name. It is not created, and no rights are listed.
    body = b"\2" + bytes(16) + _varint(len(name) + 1) + name + b"\0" + b"\0\0\0" + b"\0"
    try:
        connection.sendall(pack(">i", len(header + body)) + header + body)
        with connection.makefile("rb") as stream:
            (size,) = unpack(">i", stream.read(4))
            if not 0 < size < _LONGEST:
                raise _ForeignError
            return _topic_of(stream.read(size))
    except (OSError, ValueError, IndexError, StructError):
        return None


def _topic_of(answer: bytes) -> tuple[int, str | None]:
    at = 4 + 1 + 4  # the request's number, no tags, and the throttle time
    brokers, at = _read_varint(answer, at)
    for _ in range(brokers - 1):
        at = _after_text(answer, at + 4) + 4
        at = _after_tags(answer, _after_text(answer, at))
    at = _after_text(answer, at) + 4  # the cluster's id, and its controller
    topics, at = _read_varint(answer, at)
    if topics != 2:
        raise ValueError("the answer has another number of topics")
    (error,) = unpack(">h", answer[at : at + 2])
    at = _after_text(answer, at + 2)
    raw = answer[at : at + 16]
    known = not error and any(raw)
    return error, base64.urlsafe_b64encode(raw).rstrip(b"=").decode() if known else None


def _varint(number: int) -> bytes:
    found = b""
    while number >= 0x80:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return number, at


def _after_text(data: bytes, at: int) -> int:
    length, at = _read_varint(data, at)
    return at + max(length - 1, 0)


def _after_tags(data: bytes, at: int) -> int:
    tags, at = _read_varint(data, at)
    for _ in range(tags):
        _, at = _read_varint(data, at)
        size, at = _read_varint(data, at)
        at += size
    return at
