"""Trees as spans, decoded with OTLP's own messages."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from opentelemetry.trace import StatusCode

from kstorm.core.origins import Origin
from kstorm.errors import ConfigError, ControlError
from kstorm.introspection.outline_builder import outline_of
from kstorm.operations.traces import otlp
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.tree_reader import AckerEntry
from kstorm.testing import FeederSpout
from kstorm.topology import Bolt, OutputFieldsDeclarer, Tuple
from tests.otlp_collector import OtlpCollector
from tests.unit.operations.rebuilding import Forgets, HoldsAndSends, topology, trees

SHAPE = outline_of(topology(FeederSpout("sentence"), HoldsAndSends(), third=True))
PRODUCER = f"00-{'ab' * 16}-{'cd' * 8}-01"


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as found:
        yield found


def tree_of(sentence: str, forgets: bool = False) -> Tree:
    (found,) = trees([sentence], Forgets() if forgets else HoldsAndSends(), third=not forgets)
    return found


def test_each_tuple_is_a_child_span_of_its_anchor(collector: OtlpCollector) -> None:
    """Spans have the ids of root and edges, so that a root identifies its trace."""
    tree = tree_of("the cow")
    assert otlp.export([tree], SHAPE, otlp.check_url(collector.url), lambda origin: "") == 6
    assert collector.requests == ["POST /v1/traces"]
    by_id = {span.span_id: span for span in collector.spans}
    assert {int.from_bytes(span, "big") for span in by_id} == {tree.root, *tree.tuples}
    assert {span.trace_id[8:] for span in by_id.values()} == {tree.root.to_bytes(8, "big")}
    names = {int.from_bytes(id, "big"): span.name for id, span in by_id.items()}
    assert names[tree.root] == "process feeder"
    for edge, tuple in tree.tuples.items():
        span = by_id[edge.to_bytes(8, "big")]
        assert span.name == f"execute {tuple.first.target}"
        parent = tuple.parents[0] if tuple.parents else tree.root
        assert int.from_bytes(span.parent_span_id, "big") == parent
        assert span.end_time_unix_nano > span.start_time_unix_nano > 0


def test_unacked_tuple_is_an_error_span(collector: OtlpCollector) -> None:
    otlp.export(
        [tree_of("the moon", forgets=True)], SHAPE, otlp.check_url(collector.url), lambda origin: ""
    )
    wrong = [
        span.name for span in collector.spans if span.status.code == span.status.STATUS_CODE_ERROR
    ]
    assert wrong == ["execute count"]


def test_the_producers_span_is_linked(collector: OtlpCollector) -> None:
    """The message must have a valid header."""
    for header, links in (
        (PRODUCER, 1),
        ("", 0),
        ("00-0-0-0", 0),
        (f"00-{'0' * 32}-{'0' * 16}-01", 0),
    ):
        tree = tree_of("a")
        init = tree.init
        assert init is not None
        tree.news = [_with_origin(one) for one in tree.news]
        (span, *_) = otlp.spans_of(otlp.ExportedTree(tree), SHAPE, partial(_header, header))
        assert len(span.links) == links, header
        assert dict(span.attributes or {})["messaging.kafka.offset"] == 9


def _header(header: str, origin: Origin) -> str:
    return header


def _with_origin(one: AckerEntry) -> AckerEntry:
    return (
        msgspec.structs.replace(one, origin=Origin("lines", 3, 9, 1)) if one.kind == "init" else one
    )


class JoinsTwo(Bolt):
    """Emits one word anchored to two words of different messages."""

    def __init__(self) -> None:
        self.held: list[Tuple] = []

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def execute(self, tuple: Tuple) -> None:
        self.held.append(tuple)
        if len(self.held) == 2:
            self.collector.emit(["both"], self.held)
            for each in self.held:
                self.collector.ack(each)


def test_a_tuple_in_two_trees_is_linked_to_its_other_span() -> None:
    """It has one span in each of the two traces, with a link to the other."""
    both = trees(["a", "b"], JoinsTwo(), third=True, tasks=1)
    spans = [
        span
        for tree in both
        for span in otlp.spans_of(otlp.ExportedTree(tree), SHAPE, lambda origin: "")
    ]
    linked = {
        (c.trace_id, c.span_id): span.links for span in spans if span.links and (c := span.context)
    }
    assert len(linked) == 2
    (one, to_other), (other, to_one) = linked.items()
    assert [(link.context.trace_id, link.context.span_id) for link in (*to_other, *to_one)] == [
        other,
        one,
    ]
    assert one[0] != other[0]


def test_timed_out_tree_is_an_error_span() -> None:
    """The spout reports no end, so the span ends at the timeout."""
    tree = tree_of("the moon", forgets=True)
    (span, *_) = otlp.spans_of(
        otlp.ExportedTree(tree, "timed out", tree.begun + 30_000), SHAPE, lambda origin: ""
    )
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "not complete within 30.0 s"
    assert ((span.end_time or 0) - (span.start_time or 0)) == 30_000_000_001
    assert dict(span.attributes or {})["kstorm.exported_as"] == "timed out"


def test_unusable_collector_is_reported(collector: OtlpCollector) -> None:
    collector.status = 400
    with pytest.raises(ControlError, match=r"does not accept spans"):
        otlp.export([tree_of("a")], SHAPE, otlp.check_url(collector.url), lambda origin: "")
    for url in ("localhost:4318", "ftp://a", "http://"):
        with pytest.raises(ConfigError, match=r"give the URL of a collector"):
            otlp.check_url(url)
    assert otlp.check_url("http://a:1/own/path") == "http://a:1/own/path"


def test_headers_are_sent(collector: OtlpCollector, tmp_path: Path) -> None:
    """A file has them, one NAME: VALUE per line, because they may contain a login."""
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer a b=\n\nX-Scope:words \r\n")
    with otlp.SpanCollector(otlp.check_url(collector.url), otlp.read_headers(file)) as sending:
        assert sending.takes(
            list(otlp.spans_of(otlp.ExportedTree(tree_of("a")), SHAPE, lambda origin: ""))
        )
    sent = {name.lower(): value for name, value in collector.headers[-1].items()}
    assert (sent["authorization"], sent["x-scope"]) == ("Bearer a b=", "words")


@pytest.mark.parametrize(
    "line", ["Bearer secret", "A B: secret", "Name:", "Name: sécret", ": secret", "A: secret\x01"]
)
def test_invalid_header_is_not_quoted(tmp_path: Path, line: str) -> None:
    """The header may contain a login. The error has the file, the line and the expected form."""
    file = tmp_path / "headers"
    file.write_text(f"Fine: too\n{line}\n")
    with pytest.raises(
        ConfigError, match=r"headers: line 2 is not a header: give NAME: VALUE in ASCII"
    ) as refused:
        otlp.read_headers(file)
    assert "cret" not in str(refused.value)
    with pytest.raises(ConfigError, match=r"--headers-file is '.*gone', which cannot be read"):
        otlp.read_headers(tmp_path / "gone")
