"""A page whose Kafka is away: it is there, says why it has nothing, and its status says that this is not for good."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from kstorm.kafka import KafkaHosts, KafkaSpout, SpoutConfig
from kstorm.local.ports import reserve_port
from kstorm.runtime.tracing.outlines import outline
from kstorm.topology import TopologyBuilder
from tests.ui.server import MadeUp, serving, topology

pytestmark = pytest.mark.slow

_PATHS = ("sources", "letters", "letters/3", "events", "audit", "why", "m/lines/0/3")
_PATIENCE_SECS = 180


@pytest.fixture(scope="module")
def answers() -> Iterator[Mapping[str, tuple[int, str]]]:
    """What the pages of a topology say whose Kafka does not answer, and their JSON: asked at once, as each waits for it."""
    builder = TopologyBuilder("away")
    builder.set_spout("lines", KafkaSpout(SpoutConfig(KafkaHosts(), "lines", id="lines")))
    nobody = f"127.0.0.1:{reserve_port()}"
    made = topology(
        "away",
        {"lines": "spout"},
        [],
        outline=outline(builder.build()),
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
def test_a_page_without_its_kafka_says_so(
    answers: Mapping[str, tuple[int, str]], path: str
) -> None:
    """With the topology's name and its other pages, in words, as 503: it is not that there is no such thing."""
    status, text = answers[f"/t/away/{path}"]
    assert (status, "127.0.0.1:" in text, "There is no such page" in text) == (503, True, False)
    assert 'href="/t/away' in text


@pytest.mark.parametrize("path", _PATHS)
def test_its_json_says_the_same(answers: Mapping[str, tuple[int, str]], path: str) -> None:
    """And nothing else, so that no program takes it for an empty list."""
    status, text = answers[f"/api/v1/t/away/{path}"]
    told = json.loads(text)
    assert (status, list(told), "127.0.0.1:" in told["error"]) == (503, ["error"], True)
