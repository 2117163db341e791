"""What spouts have in common that know their position in a log that can be read again."""

from collections.abc import Mapping


class Positioned:
    """Mixin of spouts whose source is a log of Kafka's; what a topology that is processed exactly once asks of them.

    The position is committed with what was emitted up to there, all or nothing, as offsets of the spout's consumer group.
    """

    def positions(self) -> Mapping[tuple[str, int], int]:
        """By topic and partition, the offset of the first message that was not emitted yet. Cheap: asked at every turn."""
        raise NotImplementedError

    def positions_committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        """All that was emitted before these positions is committed."""
