"""The insides of the services, by what they talk to: the process itself, Kafka, ZooKeeper, the disk, queues."""
