"""Adapters between the pure tasks of `kstorm.core` and the world: Faust, Kafka, RocksDB, ZooKeeper, HTTP."""
