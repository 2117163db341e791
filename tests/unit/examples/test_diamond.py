"""The join of the diamond example: every answer has both branches, also if tuples are replayed."""

from typing import Any

from examples.diamond import Join
from kstorm.topology import Config, Fields, Source, Tuple

FIELDS = Fields("order", "branch", "answer")


class Collector:
    def __init__(self) -> None:
        self.emitted: list[tuple[dict[str, Any], list[Tuple]]] = []
        self.acked: list[Tuple] = []

    def emit(self, values: tuple[str, dict[str, Any]], anchors: list[Tuple]) -> None:
        self.emitted.append((values[1], anchors))

    def ack(self, tuple: Tuple) -> None:
        self.acked.append(tuple)


def half(branch: str, answer: object, edge: int) -> Tuple:
    """Return the answer of one branch for the same attempt."""
    return Tuple(
        ("order-1", branch, answer), Source(branch, "default", 1, FIELDS), root=77, edge=edge
    )


def join(*halves: Tuple) -> Collector:
    bolt, collector, context = Join(), Collector(), Any
    bolt.prepare(Config(), context, collector)  # type: ignore[arg-type]
    for each in halves:
        bolt.execute(each)
    return collector


def test_join_anchors_the_answer_to_both_halves() -> None:
    """The order of the halves does not matter."""
    price, check = half("price", 7, 1), half("check", True, 2)
    for halves in ([price, check], [check, price]):
        found = join(*halves)
        assert found.emitted == [({"order": "order-1", "price": 7, "check": True}, halves)]
        assert found.acked == halves


def test_replayed_half_is_not_joined_with_itself() -> None:
    """A branch that is killed after its emit executes the same tree again."""
    first, again, check = half("price", 7, 1), half("price", 7, 3), half("check", True, 2)
    found = join(first, again, check)
    assert found.emitted == [({"order": "order-1", "price": 7, "check": True}, [again, check])]
    assert found.acked == [first, again, check]
