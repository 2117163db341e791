"""Names of a topology's topics and consumer groups. All start with the topology's name."""

from dataclasses import dataclass


class Names:
    """Base of classes that have the topology's `name`."""

    name: str

    def group(self, component: str) -> str:
        """The consumer group that distributes a component's tasks over its processes.

        Ackers have a consumer group too.
        """
        return f"{self.name}.{component}"

    def bolt_topic(self, bolt: str) -> str:
        """Tuples for a bolt. Partition = task index."""
        return f"{self.name}.{bolt}"

    def state_topic(self, bolt: str) -> str:
        """Changelog of a bolt's state and unfinished tuples; partition = task index.

        Unfinished tuples are only stored with exactly-once processing.
        """
        return f"{self.name}.{bolt}.__state"

    def completions_topic(self, spout: str) -> str:
        """Completions and failures for a spout. Partition = task index."""
        return f"{self.name}.{spout}.__completions"

    @property
    def acker_topic(self) -> str:
        """Inits, acks and fails. Partition = acker task = root mod acker tasks."""
        return f"{self.name}.__acker"

    @property
    def ledger_topic(self) -> str:
        """Changelog of the ackers' ledger."""
        return f"{self.name}.__acker.__ledger"

    @property
    def dead_letters_topic(self) -> str:
        """Messages that could not be processed, with their coordinates."""
        return f"{self.name}.__dead_letters"

    @property
    def finished_topic(self) -> str:
        """Ranges of source offsets, with their outcome."""
        return f"{self.name}.__finished"

    @property
    def events_topic(self) -> str:
        """Operators' actions, with their times."""
        return f"{self.name}.__events"

    @property
    def orders_topic(self) -> str:
        """Requests for spouts to emit messages again."""
        return f"{self.name}.__orders"


@dataclass(frozen=True)
class NamesOf(Names):
    """Names of a topology of which only the name is known."""

    name: str
