"""Access to ZooKeeper: stored offsets, the locks of partitions, the state of a topology."""
