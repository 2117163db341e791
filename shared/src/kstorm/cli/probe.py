"""`kstorm probe`: test whether a topology works. `helm test` runs it.

It inspects the topology, or sends a message and waits for its result. By default it sends nothing.
Only the author knows which messages the topology can read, and whether an extra message does harm.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Final

import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kstorm.cli.json_output import Json, print_json, prose_on_stderr
from kstorm.cli.kafka_options import num_partitions
from kstorm.cli.options import with_options
from kstorm.cli.place_options import TopologyOptions, code_of, in_pod
from kstorm.cli.trace_options import TraceOptions, open_traces
from kstorm.cli.tree_follow import watch_tree
from kstorm.errors import BrokerError, ConfigError
from kstorm.operations.status.task_assignment import await_assignment
from kstorm.operations.trees.facts import MessageId as SourceMessage
from kstorm.runtime.base.settings import Settings

_MARKER: Final = "{marker}"
_POLL_SECS: Final = 0.2
_ASK_SECS: Final = 20.0


@with_options(TopologyOptions)
def probe(
    options: TopologyOptions,
    source: Annotated[
        str,
        typer.Option(
            "--source", metavar="TOPIC", help="Send the message to this topic, which a spout reads."
        ),
    ] = "",
    sink: Annotated[
        str,
        typer.Option(
            "--sink",
            metavar="TOPIC",
            help="Wait for the result in this topic, which a bolt writes.",
        ),
    ] = "",
    message: Annotated[
        str,
        typer.Option("--message", help="Text to send. {marker} is replaced by a new unique word."),
    ] = _MARKER,
    expect: Annotated[
        str,
        typer.Option(
            "--expect", help="Text in the key or value of the sink's record. Empty: any new record."
        ),
    ] = _MARKER,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Longest wait.")
    ] = 60.0,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace", help="Show the message's tree as it grows. --sink is then optional."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Check that each task of the topology has a process and that its topics exist.

    With --source and --sink, send a message to the source and wait for its result in the sink.
    """
    if trace and not source:
        raise ConfigError("--trace shows the tree of the sent message: give --source")
    if not trace and bool(source) != bool(sink):
        raise ConfigError(
            "--source and --sink go together: give both to send a message, or neither to only check"
        )
    if sink:
        _check(message, expect)
    sent = {
        "source": source,
        "sink": sink or None,
        "message": message,
        "expect": expect,
        "trace": trace,
    }
    in_pod(options, "probe", {**(sent if source else {}), "timeout": timeout, "json": json})
    started = time.monotonic()
    with prose_on_stderr(json):
        _probe(options, source, sink, message, expect, timeout, trace)
    if json:
        print_json({"topology": options.name, "seconds": time.monotonic() - started})


def _probe(
    options: TopologyOptions,
    source: str,
    sink: str,
    message: str,
    expect: str,
    timeout: float,
    trace: bool,
) -> None:
    if not source:
        print(await_assignment(code_of(options, "it defines the tasks"), options.settings, timeout))
        return
    if trace:
        _probe_traced(options, source, sink, message, expect, timeout)
        return
    settings = options.settings
    marker = f"probe{uuid.uuid4().hex}"
    with _end_of(settings, sink) as consumer:
        started = time.monotonic()
        _send(settings, source, message.replace(_MARKER, marker).encode())
        found = _await(consumer, expect.replace(_MARKER, marker).encode(), source, sink, timeout)
        seconds = time.monotonic() - started
    print(f"{source} → {sink}[{found.partition()}] at {found.offset()}, {seconds:.2f} s")


def _probe_traced(
    options: TopologyOptions, source: str, sink: str, message: str, expect: str, timeout: float
) -> None:
    """Send a message and show its tree. Without a sink, the probe ends with the tree."""
    marker = f"probe{uuid.uuid4().hex}"
    with open_traces(TraceOptions(**options.given())) as tracing, ExitStack() as stack:
        consumer = stack.enter_context(_end_of(tracing.settings, sink)) if sink else None
        started = time.monotonic()
        sent = _send(tracing.settings, source, message.replace(_MARKER, marker).encode())
        watch_tree(tracing, sent, timeout)
        if consumer is None:
            return
        left = max(1.0, timeout - (time.monotonic() - started))
        found = _await(consumer, expect.replace(_MARKER, marker).encode(), source, sink, left)
        seconds = time.monotonic() - started
    print(f"{source} → {sink}[{found.partition()}] at {found.offset()}, {seconds:.2f} s")


def _check(message: str, expect: str) -> None:
    if _MARKER in expect and _MARKER not in message:
        raise ConfigError(
            f"--expect has {_MARKER}, but --message {message!r} does not: the result cannot have it"
        )


@contextmanager
def _end_of(settings: Settings, topic: str) -> Iterator[Consumer]:
    """Yield a consumer of a topic's new records, without joining a group."""
    partitions = num_partitions(settings, topic)
    consumer = Consumer(
        {**settings.client_config, "group.id": "kstorm-probe", "enable.auto.commit": False}
    )
    try:
        places = []
        for number in range(partitions):
            _, end = consumer.get_watermark_offsets(
                TopicPartition(topic, number), timeout=_ASK_SECS
            )
            places.append(TopicPartition(topic, number, end))
        consumer.assign(places)
        yield consumer
    except KafkaException as error:
        raise BrokerError(f"the topic {topic!r} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _send(settings: Settings, topic: str, value: bytes) -> SourceMessage:
    refusals: list[str] = []
    places: list[SourceMessage] = []

    def delivered(error: KafkaError | None, record: Message) -> None:
        if error is None:
            places.append(SourceMessage(topic, record.partition() or 0, record.offset() or 0))
        else:
            refusals.append(error.str())

    producer = Producer({**settings.client_config, "enable.idempotence": True})
    producer.produce(topic, value, on_delivery=delivered)
    if producer.flush(_ASK_SECS) or not places:
        raise BrokerError(
            f"Kafka did not accept a message for {topic!r}: "
            f"{refusals[0] if refusals else 'no answer'}"
        )
    return places[0]


def _await(consumer: Consumer, wanted: bytes, source: str, sink: str, seconds: float) -> Message:
    deadline, others = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        record = consumer.poll(_POLL_SECS)
        if record is None or record.error() is not None:
            continue
        if any(wanted in _as_bytes(part) for part in (record.key(), record.value())):
            return record
        others += 1
    raise BrokerError(
        f"the message sent to {source!r} had no result in {sink!r} within {seconds:g} s; {others} "
        "other records arrived: is the topology running (kubectl get pods), and does --expect "
        "match what it writes?"
    )


def _as_bytes(part: str | bytes | None) -> bytes:
    return part.encode() if isinstance(part, str) else part or b""
