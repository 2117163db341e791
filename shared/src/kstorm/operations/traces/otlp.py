"""Send trees to an OpenTelemetry collector as spans, created afterwards at no cost to the topology.

Ids are derived from the topology (see `kstorm.kafka.traceparent`), so a root determines the trace
id.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from kstorm.core.origins import Origin
from kstorm.errors import ConfigError, ControlError
from kstorm.introspection.outline import Outline
from kstorm.kafka.traceparent import parse, trace_id, trace_prefix
from kstorm.operations.formatting import duration, failure
from kstorm.operations.trees.open_edges import open_edges
from kstorm.operations.trees.tree import Tree, TreeTuple
from kstorm.operations.trees.waterfall import ack_times
from kstorm.runtime.base.secrets import read_secret_file

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
"""Nanoseconds per millisecond."""

ParentOf = Callable[[Origin], str]
"""Returns the `traceparent` header of a message, or empty if it has none."""


def check_url(url: str) -> str:
    """Return the URL to which spans are sent.

    Raises `ConfigError` if the URL is invalid or the library is missing.
    """
    if MISSING:
        raise ConfigError(
            "--otlp needs OpenTelemetry, which is not installed: pip install 'kstorm[otel]', or "
            "run it in an image FROM the kstorm-spout of this release, which has it"
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            f"--otlp {url}: give the URL of a collector, such as http://localhost:4318"
        )
    return url if parts.path.strip("/") else f"{url.rstrip('/')}{_PATH}"


def read_headers(path: Path) -> dict[str, str]:
    """Read a file of headers for the collector, such as credentials.

    Raises `ConfigError`, without quoting the content.
    """
    found = {}
    for number, line in enumerate(read_secret_file("--headers-file", str(path)).splitlines(), 1):
        if not line.strip():
            continue
        header = re.fullmatch(
            r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)[ \t]*",
            line,
        )
        if header is None:
            raise ConfigError(
                f"--headers-file {path}: line {number} is not a header: give NAME: VALUE in ASCII"
            )
        found[header[1]] = header[2]
    return found


class ExportedTree(NamedTuple):
    """A tree to send, and the reason."""

    tree: Tree
    why: str = ""
    """`failed`, `timed out` or `slow`. Empty if the user selected the tree."""
    until: int = 0
    """Unix time in ms at which it timed out."""
    whole: bool = True
    """True if all available records of the tree were read."""


class SpanCollector:
    """Client of a collector. A context manager."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self._exporter = OTLPSpanExporter(
            endpoint=url, headers=headers or None, timeout=_ANSWER_SECS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def takes(self, spans: "Sequence[ReadableSpan]") -> bool:
        """Send spans, retrying for up to 10 s. Return True if they were accepted.

        Call it without spans to test whether the collector is reachable.
        """
        return self._exporter.export(spans) is SpanExportResult.SUCCESS


def export(trees: Sequence[Tree], topology: Outline, url: str, parent_of: ParentOf) -> int:
    """Send trees as spans and return their number. Raises `ControlError` if they are rejected."""
    spans = [span for tree in trees for span in spans_of(ExportedTree(tree), topology, parent_of)]
    with SpanCollector(url) as collector:
        if not collector.takes(spans):
            raise ControlError(
                f"{url} does not accept spans: is there a collector for OTLP over HTTP?"
            )
    return len(spans)


def spans_of(
    case: ExportedTree, topology: Outline, parent_of: ParentOf
) -> "Iterator[ReadableSpan]":
    """Yield a span for the message, and one for each tuple.

    The message's span ends when its spout receives the completion.
    """
    making = _SpanFactory(case, topology)
    yield making.of_message(parent_of)
    for tuple in case.tree.tuples.values():
        yield making.of_tuple(tuple)


class _SpanFactory:
    def __init__(self, case: ExportedTree, topology: Outline) -> None:
        self._tree, self._why, self._until, self._whole = case
        tree, self._topology = case.tree, topology
        self._prefix = trace_prefix(topology.name)
        self._resource = Resource({"service.name": topology.name})
        self._acked = ack_times(tree)
        self._unacked = set(open_edges(tree).unacked)

    def of_message(self, parent_of: ParentOf) -> "ReadableSpan":
        tree, init = self._tree, self._tree.init
        spout = "spout" if init is None else self._topology.name_of(init.task).rpartition(":")[0]
        links = [] if tree.origin is None else _link(parent_of(tree.origin))
        attributes: dict[str, Any] = {
            "kstorm.root": f"{tree.root:016x}",
            "kstorm.outcome": tree.outcome,
        }
        if tree.origin is not None:
            topic, partition, offset, attempt = tree.origin
            attributes |= _place(topic, partition, offset) | {"kstorm.attempt": attempt}
        if init is not None:
            attributes["kstorm.task"] = init.task
        if self._why:
            attributes |= {"kstorm.exported_as": self._why, "kstorm.read_wholly": self._whole}
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
            end_time=max(tree.ended or self._until, self._last) * _NS + 1,
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
            links=[Link(self._context(parent)) for parent in parents[1:]]
            + self._elsewhere(seen.others),
            kind=SpanKind.CONSUMER,
            status=Status(StatusCode.ERROR, "neither acked nor failed")
            if late
            else Status(StatusCode.UNSET),
            start_time=seen.place.timestamp * _NS,
            end_time=self._end_of(tuple, late),
        )

    def _end_of(self, tuple: TreeTuple, late: bool) -> int:
        """Return the end of a tuple's span in ns: its ack, or the last known time of the tree.

        Collectors require an end after the start, even if clocks differ.
        """
        start = tuple.first.place.timestamp
        end = max(self._until, self._last) if late else self._acked.get(tuple.edge, start)
        return max(end * _NS, start * _NS + 1)

    def _elsewhere(self, others: Mapping[int, int]) -> "list[Link]":
        """Return links to the same tuple in other trees."""
        return [Link(self._context(edge, root)) for root, edge in others.items()]

    @property
    def _last(self) -> int:
        """Unix time in ms of the last ack."""
        return max((self._tree.begun, *self._acked.values()))

    def _status(self) -> "Status":
        if self._why == "timed out":
            return Status(
                StatusCode.ERROR, f"not complete within {duration(self._until - self._tree.begun)}"
            )
        if self._tree.outcome != "failed":
            return Status(StatusCode.OK if self._tree.outcome == "acked" else StatusCode.UNSET)
        note = self._tree.note
        return Status(
            StatusCode.ERROR, f"failed{failure(note, f'task {note.task}')}" if note else "failed"
        )

    def _context(self, edge: int, root: int = 0) -> "SpanContext":
        """Return the context of a tuple, in this tree or in that of `root`."""
        trace = trace_id(self._prefix, root or self._tree.root)
        return SpanContext(trace, edge, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _place(topic: str, partition: int, offset: int) -> dict[str, Any]:
    """Return attributes according to OpenTelemetry's messaging conventions."""
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(partition),
        "messaging.kafka.offset": offset,
    }


def _link(traceparent: str) -> "list[Link]":
    """Return a link to the span that produced the message."""
    parent = parse(traceparent)
    if parent is None:
        return []
    return [
        Link(
            SpanContext(
                parent.trace, parent.span, is_remote=True, trace_flags=TraceFlags(parent.flags)
            )
        )
    ]
