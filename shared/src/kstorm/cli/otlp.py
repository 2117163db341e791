"""Sends trees to a collector of OpenTelemetry, as spans that are made afterwards: it costs a topology nothing.

The ids are those of the topology: a span's is the edge of its tuple, a trace's a hash of the topology's name and the root. So
whoever knows a root knows the trace.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

from kstorm.core.origins import Origin
from kstorm.errors import ConfigError, ControlError
from kstorm.inspect.outline import Outline
from kstorm.inspect.tree import Tree, TreeTuple
from kstorm.inspect.waiting import waits_for
from kstorm.inspect.waterfall import ack_times
from kstorm.inspect.words import failure

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
except ImportError:  # pragma: no cover - it is in the lock
    MISSING = True
else:
    MISSING = False

_ANSWER_SECS: Final = 10
_PATH: Final = "/v1/traces"
_NS: Final = 1_000_000
"""In a millisecond."""

ParentOf = Callable[[Origin], str]
"""The header `traceparent` of a message; empty if it has none."""


def check(url: str) -> str:
    """Where spans are sent to; raises `ConfigError` if that is no URL, or the library is missing."""
    if MISSING:
        raise ConfigError("--otlp needs OpenTelemetry: pip install 'kstorm[otel]'")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"--otlp {url}: give the URL of a collector, such as http://localhost:4318")
    return url if parts.path.strip("/") else f"{url.rstrip('/')}{_PATH}"


def export(trees: Sequence[Tree], topology: Outline, url: str, parent_of: ParentOf) -> int:
    """Sends the spans of trees, and says how many. Raises `ControlError` if they are not taken."""
    spans = [span for tree in trees for span in spans_of(tree, topology, parent_of)]
    exporter = OTLPSpanExporter(endpoint=url, timeout=_ANSWER_SECS)
    try:
        if exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise ControlError(f"{url} takes no spans: is there a collector that speaks OTLP over HTTP?")
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return len(spans)


def spans_of(tree: Tree, topology: Outline, parent_of: ParentOf) -> "Iterator[ReadableSpan]":
    """One for the message, which ends when its spout was told, and one for each tuple."""
    making = _Making(tree, topology)
    yield making.of_message(parent_of)
    for tuple in tree.tuples.values():
        yield making.of_tuple(tuple)


class _Making:
    def __init__(self, tree: Tree, topology: Outline) -> None:
        self._tree, self._topology = tree, topology
        self._trace = int.from_bytes(sha256(topology.name.encode()).digest()[:8], "big") << 64 | tree.root
        self._resource = Resource({"service.name": topology.name})
        self._acked = ack_times(tree)
        self._unacked = set(waits_for(tree).unacked)

    def of_message(self, parent_of: ParentOf) -> "ReadableSpan":
        tree, init = self._tree, self._tree.init
        spout = "spout" if init is None else self._topology.name_of(init.task).rpartition(":")[0]
        links = [] if tree.origin is None else _link(parent_of(tree.origin))
        attributes: dict[str, Any] = {"kstorm.root": f"{tree.root:016x}", "kstorm.outcome": tree.outcome}
        if tree.origin is not None:
            topic, partition, offset, attempt = tree.origin
            attributes |= _place(topic, partition, offset) | {"kstorm.attempt": attempt}
        if init is not None:
            attributes["kstorm.task"] = init.task
        return ReadableSpan(
            f"process {spout}",
            self._context(tree.root),
            None,
            self._resource,
            attributes,
            links=links,
            kind=SpanKind.CONSUMER,
            status=self._status(),
            start_time=tree.begun * _NS,
            end_time=max(tree.ended or 0, self._last) * _NS,
        )

    def of_tuple(self, tuple: TreeTuple) -> "ReadableSpan":
        seen, parents = tuple.first, tuple.parents or (self._tree.root,)
        attributes: dict[str, Any] = {
            "kstorm.component": seen.target,
            "kstorm.task": seen.target_task,
            "kstorm.stream": seen.stream,
            "kstorm.from": f"{seen.source}:{seen.source_task}",
            "kstorm.row": seen.row,
            "kstorm.parent_is_exact": tuple.exact,
            **_place(seen.place.topic, seen.place.partition, seen.place.offset),
        }
        late = tuple.edge in self._unacked
        return ReadableSpan(
            f"execute {seen.target}",
            self._context(tuple.edge),
            self._context(parents[0]),
            self._resource,
            attributes,
            links=[Link(self._context(parent)) for parent in parents[1:]],
            kind=SpanKind.CONSUMER,
            status=Status(StatusCode.ERROR, "neither acked nor failed") if late else Status(StatusCode.UNSET),
            start_time=seen.place.timestamp * _NS,
            end_time=self._acked.get(tuple.edge, seen.place.timestamp) * _NS,
        )

    @property
    def _last(self) -> int:
        """When the last was heard of the tree."""
        return max((self._tree.begun, *self._acked.values()))

    def _status(self) -> "Status":
        if self._tree.outcome != "failed":
            return Status(StatusCode.OK if self._tree.outcome == "acked" else StatusCode.UNSET)
        note = self._tree.note
        return Status(StatusCode.ERROR, f"failed{failure(note, f'task {note.task}')}" if note else "failed")

    def _context(self, span: int) -> "SpanContext":
        return SpanContext(self._trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _place(topic: str, partition: int, offset: int) -> dict[str, Any]:
    """As OpenTelemetry's conventions for messaging have it."""
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(partition),
        "messaging.kafka.offset": offset,
    }


def _link(traceparent: str) -> "list[Link]":
    """To the span in which the message was produced, as its header has it by the W3C's form."""
    found = re.fullmatch("[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2}).*", traceparent)
    if not found or not int(found[1], 16) or not int(found[2], 16):
        return []
    flags = TraceFlags(int(found[3], 16))
    return [Link(SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=flags))]
