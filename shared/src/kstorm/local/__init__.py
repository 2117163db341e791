"""kstorm on one machine: Java, the servers' jars, embedded Kafka and ZooKeeper, and the processes of a topology.

Nothing here is part of a deployed topology. The demo and the integration tests use it to run the real services against
real servers without a cluster: `servers` starts Kafka and ZooKeeper, `processes` and `supervisor` run one process per
service as a kubelet would, `java` and `jars` provide what those need. It works on Linux and macOS.
"""
