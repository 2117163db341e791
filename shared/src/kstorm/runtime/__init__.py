"""The internals of the services: the process itself, and its access to Kafka, ZooKeeper, the disk
and queues."""

import os

if "KSTORM_OPEN_PORT" in os.environ:
    from kstorm.runtime.base import open_port

    open_port.inherit()
