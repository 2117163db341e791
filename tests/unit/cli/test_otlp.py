"""Trees as spans, read back by OTLP's own messages."""

from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kstorm.cli import otlp
from kstorm.core.origins import Origin
from kstorm.errors import ConfigError, ControlError
from kstorm.inspect.gather import News
from kstorm.inspect.tree import Tree
from kstorm.runtime.tracing.outlines import outline
from kstorm.testing import FeederSpout
from tests.unit.inspect.rebuilding import Forgets, HoldsAndSends, topology, trees

SHAPE = outline(topology(FeederSpout("sentence"), HoldsAndSends(), third=True))
PRODUCER = f"00-{'ab' * 16}-{'cd' * 8}-01"


class Collector:
    """Takes what is sent to it."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.paths: list[str] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = ExportTraceServiceRequest.FromString(body)
                collector.paths.append(self.path)
                collector.spans += [
                    span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans
                ]
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Give one that listens."""
    found = Collector()
    thread = Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def tree_of(sentence: str, forgets: bool = False) -> Tree:
    (found,) = trees([sentence], Forgets() if forgets else HoldsAndSends(), third=not forgets)
    return found


def test_a_span_for_each_tuple_below_what_it_hangs_on(collector: Collector) -> None:
    """With the ids of root and edges, so that whoever knows a root knows the trace."""
    tree = tree_of("the cow")
    assert otlp.export([tree], SHAPE, otlp.check(collector.url), lambda origin: "") == 6
    assert collector.paths == ["/v1/traces"]
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
        assert span.end_time_unix_nano >= span.start_time_unix_nano > 0


def test_what_is_not_acked_is_an_error(collector: Collector) -> None:
    """As it is what somebody looks for."""
    otlp.export([tree_of("the moon", forgets=True)], SHAPE, otlp.check(collector.url), lambda origin: "")
    wrong = [span.name for span in collector.spans if span.status.code == span.status.STATUS_CODE_ERROR]
    assert wrong == ["execute count"]


def test_the_producers_span_is_linked(collector: Collector) -> None:
    """If the message has its header, and that is one."""
    for header, links in ((PRODUCER, 1), ("", 0), ("00-0-0-0", 0), (f"00-{'0' * 32}-{'0' * 16}-01", 0)):
        tree = tree_of("a")
        init = tree.init
        assert init is not None
        tree.news = [_with_origin(one) for one in tree.news]
        (span, *_) = otlp.spans_of(tree, SHAPE, partial(_header, header))
        assert len(span.links) == links, header
        assert dict(span.attributes or {})["messaging.kafka.offset"] == 9


def _header(header: str, origin: Origin) -> str:
    return header


def _with_origin(one: News) -> News:
    return msgspec.structs.replace(one, origin=Origin("lines", 3, 9, 1)) if one.kind == "init" else one


def test_a_collector_that_takes_nothing(collector: Collector) -> None:
    """Or that is none."""
    collector.status = 400
    with pytest.raises(ControlError, match=r"takes no spans"):
        otlp.export([tree_of("a")], SHAPE, otlp.check(collector.url), lambda origin: "")
    for url in ("localhost:4318", "ftp://a", "http://"):
        with pytest.raises(ConfigError, match=r"give the URL of a collector"):
            otlp.check(url)
    assert otlp.check("http://a:1/own/path") == "http://a:1/own/path"
