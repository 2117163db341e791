"""A ledger with its input, for tests in the terms of Storm's documentation."""

from collections.abc import Iterable, Mapping

from kstorm.core.completion_box import CompletionBox
from kstorm.core.ledger import Ledger
from kstorm.core.wire import VERSION, AckFrame, pack_ids
from kstorm.topology import OutputFieldsDeclarer, Spout, Topology, TopologyBuilder

SPOUT = 2  # a spout task


class Source(Spout):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("x")


def topology() -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("source", Source(), 3)
    return builder.build()


class Acker:
    """A ledger with its box and the offset of its input."""

    def __init__(
        self,
        stored: Mapping[bytes, bytes] | None = None,
        at: int = 0,
        log_id: bytes = bytes(16),
        kind: type[Ledger] = Ledger,
    ) -> None:
        self.box = CompletionBox(topology())
        self.ledger = kind(self.box, log_id)
        self.ledger.restore((stored or {}).items())
        self.offset = at

    def init(self, root: int, *edges: int, task: int = SPOUT) -> None:
        """The spout emitted tuples with these edges."""
        self.take(
            AckFrame(VERSION, task, init_roots=pack_ids([root]), init_vals=pack_ids([xor(edges)]))
        )

    def ack(self, root: int, edge: int, *children: int) -> None:
        """A bolt acked a tuple and anchored these edges to it."""
        self.take(
            AckFrame(VERSION, 0, roots=pack_ids([root]), vals=pack_ids([xor((edge, *children))]))
        )

    def fail(self, *roots: int) -> None:
        """A bolt failed a tuple of these trees."""
        self.take(AckFrame(VERSION, 0, failed=pack_ids(roots)))

    def reset(self, *roots: int) -> None:
        """Sends the reset frame of a bolt that needs more time."""
        self.take(AckFrame(VERSION, 0, reset=pack_ids(roots)))

    def begin_anew(self, task: int = SPOUT) -> None:
        """The spout task has a new owner."""
        self.take(AckFrame(VERSION, task, begins=True))

    def take(self, frame: AckFrame) -> None:
        self.ledger.apply(frame, self.offset)
        self.offset += 1

    @property
    def told(self) -> dict[str, dict[int, list[int]]]:
        """Returns the completions per spout task since the last call."""
        news = {"acked": self.box.acked, "failed": self.box.failed, "reset": self.box.reset}
        self.box.acked, self.box.failed, self.box.reset = {}, {}, {}
        return {kind: by_task for kind, by_task in news.items() if by_task}


def xor(edges: Iterable[int]) -> int:
    val = 0
    for edge in edges:
        val ^= edge
    return val
