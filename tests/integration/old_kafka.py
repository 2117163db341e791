"""A Kafka 3.9 with ZooKeeper. Its brokers register there, and `ZkHosts` finds them.

Its jars are downloaded when the first one starts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kstorm.dev.server_settings import BROKER, write_properties
from kstorm.dev.servers import EmbeddedKafka
from tools.kafka_releases import old_kafka_jars

_LOGGING = {
    "log4j.rootLogger": "INFO, out",
    "log4j.appender.out": "org.apache.log4j.ConsoleAppender",
    "log4j.appender.out.layout": "org.apache.log4j.PatternLayout",
    "log4j.appender.out.layout.ConversionPattern": "%d{ISO8601} %-5p %c{1}: %m%n",
}


class OldKafka(EmbeddedKafka):
    """A broker on 127.0.0.1, of the cluster with its metadata at `zookeeper`: `host:port/chroot`."""

    def __init__(
        self,
        workdir: Path,
        zookeeper: str,
        *,
        broker: int = 1,
        name: str = "old-kafka",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            workdir, name=f"{name}-{broker}", heap="256m", settings=settings, quick_start=True
        )
        self._zookeeper, self._broker = zookeeper, broker

    def _prepare(self) -> Sequence[str | Path]:
        logging = self.data_directory / "log4j.properties"
        write_properties(logging, _LOGGING)
        properties = self.data_directory / "server.properties"
        write_properties(properties, self._all_settings())
        classpath = ":".join(str(jar) for jar in old_kafka_jars())
        log = f"-Dlog4j.configuration=file:{logging}"
        return [*self._java_options, log, "-cp", classpath, "kafka.Kafka", properties]

    def _all_settings(self) -> dict[str, str]:
        return {
            **BROKER,
            "broker.id": str(self._broker),
            "zookeeper.connect": self._zookeeper,
            # A killed broker loses its partitions, or may return, after its session has expired.
            "zookeeper.session.timeout.ms": "3000",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data_directory / "log"),
            **self._settings,
        }
