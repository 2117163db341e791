"""The topologies of Storm's starter project on an in-memory Kafka, while their processes die."""

from collections import Counter

import msgspec
import pytest

from examples.storm_starter import (
    exclamation,
    rolling_top_words,
    single_join,
    sliding_window,
    stateful,
    trident_wordcount,
)
from kstorm.testing.kafka import FakeKafka
from kstorm.topology import Topology

SENTENCES = ["the cow jumped over the moon", "an apple a day", "snow white and the seven dwarfs"]


def run(kafka: FakeKafka, topology: Topology, *victims: str, seconds: int = 120) -> None:
    """Run a topology to its end, and crash components one after another."""
    with kafka.cluster(topology) as cluster:
        for victim in victims:
            for _ in range(100):
                cluster.step()
            cluster.crash(victim)
        for _ in range(seconds):
            cluster.advance_time(1)
            cluster.run_until_idle()


def values(kafka: FakeKafka, topic: str) -> list[str]:
    return [(record.value() or b"").decode() for record in kafka.records(topic)]


def test_each_word_is_exclaimed() -> None:
    kafka = FakeKafka({"words": 2, "exclaimed": 2})
    words = [f"word-{number}" for number in range(50)]
    for word in words:
        kafka.produce("words", word)
    run(kafka, exclamation.topology(), "exclaim1", "__acker")
    assert set(values(kafka, "exclaimed")) == {f"{word}!!!!!!" for word in words}


def test_most_frequent_words_are_on_top() -> None:
    """Words that left the window leave the ranking, too."""
    kafka = FakeKafka({"words": 2, "rankings": 1})
    with kafka.cluster(rolling_top_words.topology()) as cluster:
        for number in range(1, 8):
            for _ in range(number):
                kafka.produce("words", f"word-{number}")
        rankings = []
        for _ in range(30):
            cluster.advance_time(1)
            cluster.run_until_idle()
            rankings = [msgspec.json.decode(value) for value in values(kafka, "rankings")]
    assert [[f"word-{number}", number] for number in (7, 6, 5, 4, 3)] in rankings
    assert rankings[-1] == []


@pytest.mark.parametrize("victim", ["join", "genders", "__acker"])
def test_people_are_joined(victim: str) -> None:
    kafka = FakeKafka({"genders": 1, "ages": 1, "people": 1})
    for number in range(10):
        gender = {"id": number, "gender": "female" if number % 2 else "male"}
        kafka.produce("genders", msgspec.json.encode(gender))
        kafka.produce("ages", msgspec.json.encode({"id": 9 - number, "age": 29 - number}))
    run(kafka, single_join.topology(), victim)
    found = {
        (record.key() or b"").decode(): (record.value() or b"").decode()
        for record in kafka.records("people")
    }
    assert found == {
        str(number): f"{'female' if number % 2 else 'male'}, {20 + number}" for number in range(10)
    }


@pytest.mark.parametrize("victim", ["partial", "total", "numbers", "sink", "__acker"])
def test_each_number_is_in_the_sum_once(victim: str) -> None:
    kafka = FakeKafka({"numbers": 2, "sums": 1})
    for number in range(100):
        kafka.produce("numbers", msgspec.json.encode({"value": number}))
    run(kafka, stateful.topology(), victim)
    sums = [int(value) for value in values(kafka, "sums")]
    assert len(sums) == 100
    assert max(sums) == sum(range(100))


def test_averages_of_sums() -> None:
    kafka = FakeKafka({"numbers": 1, "averages": 1})
    for number in range(60):
        kafka.produce("numbers", msgspec.json.encode({"value": number}))
    run(kafka, sliding_window.topology())
    sums = [sum(range(max(0, end - 30), end)) for end in range(10, 61, 10)]
    assert values(kafka, "averages") == [str(sum(sums[:3]) // 3), str(sum(sums[3:]) // 3)]


@pytest.mark.parametrize("victim", ["count", "split", "sentences"])
def test_words_are_counted_by_trident(victim: str) -> None:
    kafka = FakeKafka({"sentences": 2, "asked": 1, "counts": 1, "answers": 1})
    for sentence in SENTENCES * 20:
        kafka.produce("sentences", sentence)
    run(kafka, trident_wordcount.topology(), victim)
    last = {
        (record.key() or b"").decode(): msgspec.json.decode(record.value() or b"")["count"]
        for record in kafka.records("counts")
    }
    assert last == Counter(" ".join(SENTENCES * 20).split())


def test_topologies_can_run_side_by_side() -> None:
    """Each has a name of its own, and so topics and offsets of its own."""
    modules = [
        exclamation,
        rolling_top_words,
        single_join,
        sliding_window,
        stateful,
        trident_wordcount,
    ]
    assert len({module.topology().name for module in modules}) == len(modules)
