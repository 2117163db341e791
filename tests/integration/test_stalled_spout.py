"""A spout that `topology_max_spout_pending` holds back: it says so, and why, instead of seeming to have nothing to do."""

import re
import urllib.request
from pathlib import Path

import pytest

from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from tests.integration.engine import check_words, running


def test_a_stalled_spout_says_why(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a gauge at once, by a line in the log when no tree has completed for a while (METRON-1888); then it goes on."""
    text = [f"w{number}" for number in range(6000)]
    with running("wordcount", topic_prefix, kafka, zookeeper, tmp_path, monkeypatch, timeout_secs=120) as engine:
        spout, split = engine.worker("sentences-0"), engine.worker("split-0")

        def throttled() -> float:
            with urllib.request.urlopen(f"http://127.0.0.1:{spout.web_port}/metrics", timeout=5) as page:
                found = re.search(r"^kstorm_spout_throttled(?:{[^}]*})? (\S+)$", page.read().decode(), re.MULTILINE)
            assert found is not None
            return float(found[1])

        split.process.pause()
        engine.produce(text)
        engine.until(lambda: throttled() > 0, 60, "the gauge says that the spout is held back")
        engine.until(lambda: "spout_stalled" in spout.process.log_path.read_text(), 60, "the log says so")
        assert "allowed trees are in flight and none completed for" in spout.process.log_path.read_text()
        split.process.resume()
        engine.await_done("sentences")
        assert throttled() == 0
        check_words(engine, text)
