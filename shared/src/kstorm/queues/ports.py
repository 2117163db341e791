"""What a queue spout needs of the outside world: messages that stay open until they are done.

The clients behind this are `kstorm.runtime`'s or a test's. As in `kstorm.kafka.ports`, **nothing but `close` may
wait**. The rule that keeps messages from being lost: a message belongs to the connection that it came by. When that is
gone, the queue has the message again, so an ack or a failure of it is ignored from then on.
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
"""Under this name the runtime puts the `QueuePorts` into `TopologyContext.resources`."""


class QueueMessageId(NamedTuple):
    """One opening of a message; the same message opened again has another id."""

    connection: int
    """Number of the connection that it came by; a reader gives each connection a new one."""
    tag: int
    """What the message is called on that connection."""


class QueueMessage(NamedTuple):
    """A message that is open: not removed from the queue, and shown to nobody else."""

    id: QueueMessageId
    value: bytes


class QueueReader(Protocol):
    """Opens messages of one queue for one spout task. Reconnects by itself, for ever, with pauses."""

    def start(self) -> None:
        """Opens messages from now on."""
        ...

    def pause(self) -> None:
        """Opens no more, and puts back what was opened and not taken. What was taken stays open."""
        ...

    def take(self) -> QueueMessage | None:
        """The next message that was opened, or None. Every message taken is to be acked or put back, once."""
        ...

    def ack(self, id: QueueMessageId) -> None:
        """Removes the message from the queue; ignored if its connection is gone."""
        ...

    def put_back(self, id: QueueMessageId) -> None:
        """Gives the message back to the queue, for whoever is next; ignored if its connection is gone."""
        ...

    def problem(self) -> KstormError | None:
        """Why messages cannot be had at the moment; None if they can, or if nothing went wrong yet."""
        ...

    @property
    def connections(self) -> int:
        """How many connections there are at the moment."""
        ...

    async def close(self) -> None:
        """Sends what was said, then disconnects, so that the queue has back what is open. Waits a few seconds at most."""
        ...


@dataclass(frozen=True, slots=True)
class QueuePorts:
    """What the runtime lends to the queue spouts: for each kind of queue, what opens a reader for one task.

    An opener raises `ConfigError` on settings that cannot work. It is called on the event loop, and connects later.
    """

    open_rabbitmq: "Callable[[RabbitMQConfig, int], QueueReader]"
    """The number is of messages that may be open at once."""
    open_kestrel: "Callable[[KestrelConfig, str, Sequence[HostInfo], int], QueueReader]"
    """The queue, its hosts, and the number of messages that may be open at once on each of them."""

    @staticmethod
    def of(context: "TopologyContext") -> "QueuePorts":
        """The ports lent to a component; raises `KstormError` if there are none."""
        ports: Any = context.resources.get(QUEUES)
        if not isinstance(ports, QueuePorts):
            raise KstormError(
                f"{context.component!r} reads a queue, but was given no clients for queues: run it in a kstorm "
                f"service, or in a test put a QueuePorts into the context's resources[{QUEUES!r}]"
            )
        return ports
