"""The headers of a topology's records if every message is processed twice."""

import urllib.request
from collections import defaultdict
from typing import cast

from confluent_kafka import Consumer, Message, TopicPartition

from kstorm.dev.topic_reader import consume_to
from tests.integration.conftest import RunTopology
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, Engine


def records(engine: Engine) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": engine.bootstrap, "group.id": "lineage", "enable.auto.commit": False}
    )
    try:
        places = [TopicPartition(engine.sink, number) for number in range(SINK_PARTITIONS)]
        ends = {place.partition: consumer.get_watermark_offsets(place, 30.0)[1] for place in places}
        return [message for some in consume_to(consumer, engine.sink, ends, {}) for message in some]
    finally:
        consumer.close()


def test_attempts_share_coordinates_and_have_their_own_roots(run_topology: RunTopology) -> None:
    """A consumer that drops known names gets every word once.

    The second attempt completes the first one.
    """
    text = [
        f"s{number} " + " ".join(f"w{number}-{place}" for place in range(1, 6))
        for number in range(300)
    ]
    with run_topology("traced") as engine:
        engine.produce(text)
        engine.await_done("sentences")
        found = records(engine)
        assert engine.total("sentences", "failed") == 300
        (sink,) = engine.processes.of("sink")
        assert (sink.status() or {})["own"] == {
            "written": len(found),
            "skipped": 0,
            "held": 0,
            "expired": 0,
            "lost": 0,
        }
        with urllib.request.urlopen(
            f"http://127.0.0.1:{sink.web_port}/metrics", timeout=10
        ) as page:
            assert page.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert b"kstorm_own_skipped{" in page.read()
    words: dict[tuple[bytes, ...], set[bytes]] = defaultdict(set)
    roots: dict[tuple[bytes, ...], list[bytes]] = defaultdict(list)
    for record in found:
        headers = dict(cast("list[tuple[str, bytes]]", record.headers()))
        name = tuple(
            headers[f"kstorm-source-{part}"] for part in ("topic", "partition", "offset", "part")
        )
        words[name].add(record.value() or b"")
        roots[name].append(headers["kstorm-roots"])
    truth = {
        (
            engine.source.encode(),
            b"%d" % (at % SOURCE_PARTITIONS),
            b"%d" % (at // SOURCE_PARTITIONS),
            b"%d" % place,
        ): {word.encode()}
        for at, sentence in enumerate(text)
        for place, word in enumerate(sentence.split())
    }
    assert words == truth
    assert len(found) == 300 * (3 + 6)
    assert all(
        len(set(each)) == len(each) == (2 if int(name[3]) < 3 else 1)
        for name, each in roots.items()
    )
