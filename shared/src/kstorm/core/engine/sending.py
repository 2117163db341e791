"""An engine whose tasks emit: what they send is collected for the whole process."""

from collections.abc import Mapping
from typing import Any

from kstorm.core.engine.engine import Engine
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.slot import T
from kstorm.core.outbox import Outbox
from kstorm.topology import Topology


class SendingEngine(Engine[T]):
    """The engine of spouts and bolts."""

    def __init__(self, topology: Topology, component: str, journal: Journal, **more: Any) -> None:
        super().__init__(topology, component, journal, **more)
        self.outbox = Outbox(topology)

    def sends_as(self, instance: str) -> None:
        """See `Engine.sends_as`."""
        self.outbox.by = instance

    @property
    def sent(self) -> Mapping[tuple[str, str], int]:
        """See `Engine.sent`."""
        return self.outbox.sent

    def _report_too_large(self) -> None:
        """Tuples that no record can hold: their trees were failed."""
        for found in self.outbox.too_large:
            self.journal.error(found.error(), "emitting", found.task)
        self.outbox.too_large.clear()
