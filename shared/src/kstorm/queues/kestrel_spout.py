"""`KestrelSpout`: emits the messages of a queue on Kestrel servers, using reliable reads.

It is the spout of the word count in Storm's documentation, *Guaranteeing message processing*:

    spout = KestrelSpout("kestrel.backtype.com", 22133, "sentence_queue", StringScheme())
    builder.set_spout("sentences", spout, 10)

A message is opened (`get queue/open`). `ack` closes it, and `fail` aborts it. A server puts open
messages back when the client disconnects. The memcache protocol has no message ids and allows one
open read per connection. So a message's id consists of the numbers of its connection and of the
read.
"""

import re
from collections.abc import Sequence

from kstorm.errors import ConfigError
from kstorm.fitting import Text, checked
from kstorm.kafka.scheme import RawMultiScheme, Scheme, SchemeAsMultiScheme
from kstorm.queues.kestrel_config import KestrelConfig, host_infos, hosts_for_task
from kstorm.queues.ports import QueuePorts, QueueReader
from kstorm.queues.spout import QueueSpout
from kstorm.topology import Config, TopologyContext

DEFAULT_CONFIG = KestrelConfig()


class KestrelSpout(QueueSpout):
    """Reads a queue that exists on one or more Kestrel servers, each with its own messages."""

    @checked()
    def __init__(
        self,
        hosts: Text | Sequence[str],
        port: int,
        queue_name: str,
        scheme: Scheme | None = None,
        config: KestrelConfig = DEFAULT_CONFIG,
    ) -> None:
        """`port` is the default for hosts without a port (`host:port`).

        Without a scheme, a message is bytes in the field `bytes`. Raises `ConfigError` on invalid
        settings.
        """
        if not re.fullmatch(r"[!-.0-~]+", queue_name):
            raise ConfigError(
                f"the name of the Kestrel queue {queue_name!r} is invalid: use ASCII characters "
                "except '/' and spaces"
            )
        if isinstance(scheme, SchemeAsMultiScheme | RawMultiScheme):
            raise ConfigError(
                f"the Kestrel spout's scheme is a {type(scheme).__name__}: give it a plain "
                "Scheme, e.g. StringScheme()"
            )
        super().__init__(
            queue_name, RawMultiScheme() if scheme is None else SchemeAsMultiScheme(scheme)
        )
        self.hosts = host_infos(hosts, port)
        self.kestrel_config = config

    def open_reader(
        self, ports: QueuePorts, config: Config, context: TopologyContext
    ) -> QueueReader:
        """Open connections to this task's hosts, one per message that may be open."""
        hosts = hosts_for_task(self.hosts, context.task_index, context.total_tasks)
        each = self.kestrel_config.open_reads_per_host(
            len(hosts), config.topology_max_spout_pending
        )
        return ports.open_kestrel(self.kestrel_config, self._queue, hosts, each)
