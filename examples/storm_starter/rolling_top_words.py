"""Storm's `RollingTopWords`: the five most frequent words of the last nine seconds.

    words ──▶ counter ──▶ intermediate ranker ──▶ total ranker ──▶ sink

`kstorm dev examples.storm_starter.rolling_top_words:topology --topic words:2 --topic rankings`
"""

from collections import Counter, deque
from collections.abc import Set
from typing import Any, Final

import msgspec

from examples.storm_starter import sink, text_spout
from kstorm.topology import (
    BasicBolt,
    BasicOutputCollector,
    Config,
    Fields,
    OutputFieldsDeclarer,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)

TOP_N: Final = 5
_EVERY_SECS: Final = 2
_SLOT_SECS, _SLOTS = 3, 3


class RollingCountBolt(BasicBolt):
    """Counts words in slots of three seconds, and emits the counts of the last three slots.

    The counts are only in memory, as in Storm.
    """

    def get_component_configuration(self) -> dict[str, Any]:
        return {"topology_tick_tuple_freq_secs": _SLOT_SECS}

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._slots = deque([Counter[str]()], maxlen=_SLOTS)
        self._emitted: Set[str] = set()

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if not tuple.is_tick:
            self._slots[-1][tuple["str"]] += 1
            return
        counts = sum(self._slots, Counter[str]())
        for word in self._emitted - counts.keys():
            collector.emit([word, 0])
        for word, count in counts.items():
            collector.emit([word, count])
        self._emitted = counts.keys()
        self._slots.append(Counter())


class Ranker(BasicBolt):
    """Emits its ranking at each tick."""

    def get_component_configuration(self) -> dict[str, Any]:
        return {"topology_tick_tuple_freq_secs": _EVERY_SECS}

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """The ranking is a list of words with their counts."""
        declarer.declare("ranking")

    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        if tuple.is_tick:
            collector.emit(self.row())
        else:
            self.update(tuple)

    def row(self) -> list[Any]:
        """Return the values of the tuple to emit."""
        return [self.ranking()]

    def update(self, tuple: Tuple) -> None:
        """Take a tuple into account."""
        raise NotImplementedError

    def ranking(self) -> list[list[Any]]:
        raise NotImplementedError


class IntermediateRankingsBolt(Ranker):
    """Ranks the words that its task receives."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._counts = Counter[str]()

    def update(self, tuple: Tuple) -> None:
        self._counts[tuple["word"]] = tuple["count"]
        self._counts = +self._counts  # without the words that left the window

    def ranking(self) -> list[list[Any]]:
        return best(self._counts)


class TotalRankingsBolt(Ranker):
    """Merges the rankings of all tasks before it."""

    def prepare(self, config: Config, context: TopologyContext) -> None:
        self._rankings: dict[int, list[list[Any]]] = {}

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("name", "ranking")

    def row(self) -> list[Any]:
        return ["top", msgspec.json.encode(self.ranking()).decode()]

    def update(self, tuple: Tuple) -> None:
        self._rankings[tuple.source_task] = tuple["ranking"]

    def ranking(self) -> list[list[Any]]:
        return best(Counter(dict(pair for some in self._rankings.values() for pair in some)))


def best(counts: Counter[str]) -> list[list[Any]]:
    """Return the words with the highest counts, equal ones by name."""
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [[word, count] for word, count in ranked[:TOP_N]]


def topology() -> Topology:
    builder = TopologyBuilder("rolling-top-words")
    builder.set_spout("words", text_spout("words"), 2)
    builder.set_bolt("counter", RollingCountBolt(), 4).fields_grouping("words", Fields("str"))
    builder.set_bolt("intermediate", IntermediateRankingsBolt(), 4).fields_grouping(
        "counter", Fields("word")
    )
    builder.set_bolt("total", TotalRankingsBolt()).global_grouping("intermediate")
    builder.set_bolt("sink", sink("rankings", "name", "ranking")).shuffle_grouping("total")
    return builder.build()
