"""Protocols for the clients of queue spouts, in which messages stay open until they are done.

`kstorm.runtime` and tests implement them. As in `kstorm.kafka.ports`, **only `close` may block**. A
message belongs to the connection that delivered it. When that connection ends, the message is in
the queue again, so a later ack or failure is ignored. This prevents the loss of messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kstorm.errors import KstormError

if TYPE_CHECKING:
    from kstorm.queues.kestrel_config import HostInfo, KestrelConfig
    from kstorm.queues.rabbitmq_config import RabbitMQConfig
    from kstorm.topology import TopologyContext

QUEUES = "queues"
"""Key of the `QueuePorts` in `TopologyContext.resources`."""


class QueueMessageId(NamedTuple):
    """Identifies one opening of a message. If the message is opened again, it gets another id."""

    connection: int
    """Number of the delivering connection, different for each connection of a reader."""
    tag: int
    """The message's tag on that connection."""


class QueueMessage(NamedTuple):
    """An open message: still in the queue, but not delivered to other consumers."""

    id: QueueMessageId
    value: bytes


class QueueReader(Protocol):
    """Opens messages of one queue for one spout task. Reconnects indefinitely, with pauses."""

    def start(self) -> None:
        """Start opening messages."""

    def pause(self) -> None:
        """Stop opening messages, and return those that were not taken yet to the queue. Taken
        messages stay open."""

    def take(self) -> QueueMessage | None:
        """Return the next opened message, or None. Each must be acked or put back exactly once."""

    def ack(self, id: QueueMessageId) -> None:
        """Remove the message from the queue. This is ignored if its connection has ended."""

    def put_back(self, id: QueueMessageId) -> None:
        """Return the message to the queue. This is ignored if its connection has ended."""

    def problem(self) -> KstormError | None:
        """Return why messages cannot be read, or None if they can or no error has occurred."""

    @property
    def connections(self) -> int:
        """The current number of connections."""

    async def close(self) -> None:
        """Send pending acks and returns, then disconnect. Waits a few seconds at most.

        The queue gets back its open messages.
        """


@dataclass(frozen=True, slots=True)
class QueuePorts:
    """Functions from the runtime that open a reader for one task, one for each kind of queue.

    They raise `ConfigError` on invalid settings. They are called on the event loop and connect
    later.
    """

    open_rabbitmq: "Callable[[RabbitMQConfig, int], QueueReader]"
    """The argument is the maximum number of open messages."""
    open_kestrel: "Callable[[KestrelConfig, str, Sequence[HostInfo], int], QueueReader]"
    """Takes the queue, its hosts, and the maximum of open messages per host."""

    @staticmethod
    def of(context: "TopologyContext") -> "QueuePorts":
        """Return the component's clients. Raises `KstormError` if the runtime provides none."""
        ports: Any = context.resources.get(QUEUES)
        if not isinstance(ports, QueuePorts):
            raise KstormError(
                f"{context.component!r} reads a queue, but was given no clients for queues: run "
                "it in a kstorm service, or in a test put a QueuePorts into the context's "
                f"resources[{QUEUES!r}]"
            )
        return ports
