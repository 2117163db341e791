"""Status of a topology, its bottlenecks, and checks that it can work."""
