"""Further brokers, so that coordinators and leaders can move between them."""

from collections.abc import Mapping
from pathlib import Path

from kstorm.dev.servers import EmbeddedKafka


def replicated(times: int) -> dict[str, str]:
    """Return settings for all brokers. The coordinators' topics have this many replicas."""
    factors = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    return dict.fromkeys(factors, str(times))


SAFE: Mapping[str, str] = {
    **replicated(3),
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
}
"""Settings of three brokers, one of which may be down."""


class FurtherBroker(EmbeddedKafka):
    """A broker of the cluster of `first`, which is the controller and must be running.

    It can be killed and restarted.
    """

    def __init__(
        self,
        workdir: Path,
        first: EmbeddedKafka,
        number: int = 2,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        name = f"{first.name}-{number}"
        super().__init__(
            workdir, name=name, heap="256m", quick_start=True, settings=settings or replicated(2)
        )
        self._first, self._number = first, number
        self._cluster_id = first._cluster_id

    def _all_settings(self) -> dict[str, str]:
        return super()._all_settings() | {
            "process.roles": "broker",
            "node.id": str(self._number),
            "controller.quorum.voters": self._first._all_settings()["controller.quorum.voters"],
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
        }
