"""Two brokers, so that coordinators can move from one to the other, and back."""

from pathlib import Path

from kstorm.local.servers import EmbeddedKafka

REPLICATED = {"offsets.topic.replication.factor": "2", "transaction.state.log.replication.factor": "2"}
"""Settings of both: the coordinators' topics have the replicas that the broker which makes them is set to."""


class SecondBroker(EmbeddedKafka):
    """Broker 2 of the cluster of `first`, which must be running and stays the controller; this one can be killed and come back."""

    def __init__(self, workdir: Path, first: EmbeddedKafka) -> None:
        super().__init__(workdir, name=f"{first.name}-2", heap="256m", quick_start=True, settings=REPLICATED)
        self._first = first
        self._cluster_id = first._cluster_id

    def _all_settings(self) -> dict[str, str]:
        return super()._all_settings() | {
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.voters": self._first._all_settings()["controller.quorum.voters"],
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
        }
