"""kstorm on one machine: Java, the servers' jars, embedded Kafka and ZooKeeper, and the processes of a topology.

Nothing here is part of a deployed topology. The demo and the integration tests use this package to run the real services
with real servers without a cluster. `bootstrap` makes the environment; `java` and `jars` provide the servers' programs;
`servers` starts Kafka and ZooKeeper; `processes` and `supervisor` run one process per service, as a kubelet would. The
package works on Linux and macOS.
"""
