"""Pages without Kafka: they are shown with the problem, and with a status for a temporary one."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from kstorm.dev.free_ports import reserve_port
from kstorm.introspection.outline_builder import outline_of
from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.topology import TopologyBuilder
from tests.ui.server import MadeUp, serving, topology

pytestmark = pytest.mark.slow

_PATHS = ("sources", "letters", "letters/3", "events", "audit", "why", "m/lines/0/3")
_PATIENCE_SECS = 180


@pytest.fixture(scope="module")
def answers() -> Iterator[Mapping[str, tuple[int, str]]]:
    """Pages and JSON of a topology whose Kafka does not respond, requested in parallel."""
    builder = TopologyBuilder("away")
    builder.set_spout("lines", KafkaSpout(SpoutConfig(KafkaHosts(), "lines", id="lines")))
    nobody = f"127.0.0.1:{reserve_port()}"
    made = topology(
        "away",
        {"lines": "spout"},
        [],
        outline=outline_of(builder.build()),
        bootstrap=nobody,
        zookeeper=nobody,
    )
    with serving(MadeUp(made)) as url, ThreadPoolExecutor(len(_PATHS) * 2) as pool:
        paths = [f"{prefix}/t/away/{path}" for path in _PATHS for prefix in ("", "/api/v1")]
        yield dict(zip(paths, pool.map(ask, [url + path for path in paths]), strict=True))


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_SECS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("path", _PATHS)
def test_page_without_kafka_shows_the_problem(
    answers: Mapping[str, tuple[int, str]], path: str
) -> None:
    """With status 503, the topology's name, and links to its other pages. It is not a 404."""
    status, text = answers[f"/t/away/{path}"]
    assert (status, "127.0.0.1:" in text, "Page not found" in text) == (503, True, False)
    assert 'href="/t/away' in text


@pytest.mark.parametrize("path", _PATHS)
def test_json_without_kafka_has_only_the_error(
    answers: Mapping[str, tuple[int, str]], path: str
) -> None:
    """A program would otherwise mistake it for an empty list."""
    status, text = answers[f"/api/v1/t/away/{path}"]
    told = json.loads(text)
    assert (status, list(told), "127.0.0.1:" in told["error"]) == (503, ["error"], True)
