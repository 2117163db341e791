"""kstorm on one machine: Java, the servers' jars, embedded Kafka and ZooKeeper, and a topology's processes.

Nothing here is part of a deployed topology. The demo and the integration tests use this package to run the real services
with real servers without a cluster. `java` and `jars` provide the servers' programs;
`servers` starts Kafka and ZooKeeper; `processes` and `supervisor` run one process per service, as a kubelet would. The
package works on Linux and macOS.
"""
