"""What the topics and groups of a topology are called. It owns the prefix of its name."""

from dataclasses import dataclass


class Names:
    """For whatever has the topology's `name`."""

    name: str

    def group(self, component: str) -> str:
        """The consumer group that spreads the tasks of a component, the ackers' among them, over its processes."""
        return f"{self.name}.{component}"

    def bolt_topic(self, bolt: str) -> str:
        """Tuples for a bolt; partition = task index."""
        return f"{self.name}.{bolt}"

    def state_topic(self, bolt: str) -> str:
        """Changelog of a bolt's state and, with exactly once, of what it has not finished; partition = task index."""
        return f"{self.name}.{bolt}.__state"

    def completions_topic(self, spout: str) -> str:
        """Completions and failures for a spout; partition = task index."""
        return f"{self.name}.{spout}.__completions"

    @property
    def acker_topic(self) -> str:
        """Inits, acks and fails; partition = acker task = root mod acker tasks."""
        return f"{self.name}.__acker"

    @property
    def ledger_topic(self) -> str:
        """Changelog of the ackers' ledger."""
        return f"{self.name}.__acker.__ledger"

    @property
    def dead_letters_topic(self) -> str:
        """What could not be processed, with its coordinates."""
        return f"{self.name}.__dead_letters"

    @property
    def finished_topic(self) -> str:
        """Ranges of source offsets, with what became of them."""
        return f"{self.name}.__finished"

    @property
    def events_topic(self) -> str:
        """What operators have done, and when."""
        return f"{self.name}.__events"

    @property
    def orders_topic(self) -> str:
        """What spouts are to emit again."""
        return f"{self.name}.__orders"


@dataclass(frozen=True)
class NamesOf(Names):
    """Of a topology of which no more is known than its name."""

    name: str
