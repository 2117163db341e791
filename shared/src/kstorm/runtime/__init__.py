"""The internals of the services: the process itself, and its access to Kafka, ZooKeeper, the disk
and queues."""
