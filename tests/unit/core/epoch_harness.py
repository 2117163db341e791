"""The parts that the tests of epochs share: a spout with a position, and the answer to a transaction."""

from collections.abc import Mapping
from typing import Any

from kstorm.core.engine import Effect
from kstorm.core.engine.effects import Transact
from kstorm.topology import OutputFieldsDeclarer, Positioned, Spout
from tests.unit.core.engines import Driven


class Words(Positioned, Spout):
    """Emits numbers for ever; its position is how many."""

    def __init__(self) -> None:
        self.at = 0
        self.knows = True
        """Whether it knows where it is."""
        self.committed: list[Mapping[tuple[str, int], int]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Words":
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")

    def next_tuple(self) -> None:
        if not self.knows:
            return
        self.at += 1
        self.collector.emit([str(self.at)], self.at)

    def positions(self) -> Mapping[tuple[str, int], int]:
        return {("lines", 0): self.at} if self.knows else {}

    def positions_committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        self.committed.append(positions)


def answer(made: Driven, transact: Transact, reached: int = 0) -> list[Effect]:
    """The transaction is committed, and a moment passes."""
    effects = made.do(
        made.engine.committed(transact, dict.fromkeys(transact.changes, reached), made.now)
    )
    return effects + made.tick(0)
