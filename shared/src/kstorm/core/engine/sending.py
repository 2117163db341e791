"""Base of the engines whose tasks emit: one outbox collects the sends of the whole process."""

from collections.abc import Mapping
from typing import Any

from kstorm.core.engine.engine import Engine
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.tenure import T
from kstorm.core.outbox import Outbox
from kstorm.topology import Topology


class SendingEngine(Engine[T]):
    def __init__(self, topology: Topology, component: str, journal: Journal, **more: Any) -> None:
        super().__init__(topology, component, journal, **more)
        self.outbox = Outbox(topology)

    def sends_as(self, instance: str) -> None:
        self.outbox.by = instance

    @property
    def sent(self) -> Mapping[tuple[str, str], int]:
        return self.outbox.sent

    def _report_too_large(self) -> None:
        """Report tuples that do not fit into a record. Their trees were failed."""
        for found in self.outbox.too_large:
            self.journal.error(found.error(), "emitting", found.task)
        self.outbox.too_large.clear()
