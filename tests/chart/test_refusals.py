"""Contradictory values are rejected before the install.

Each error names the value and the remedy.
"""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Template = Callable[..., subprocess.CompletedProcess[str]]

DIGEST = "sha256:" + 64 * "0"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("minimal", {"topology": ""}, "topology, topologyName and components are required"),
    ("minimal", {"topologyName": ""}, "write them with `kstorm values package.module:attribute`"),
    ("minimal", {"components": {"sentences": {"kind": "bolt"}}}, "components has no spout"),
    ("minimal", {"topologyFiles": {"a.py": ""}, "existingTopologyConfigMap": "b"}, "keep one, since both are mounted at /topology"),
    ("minimal", {"topologyFilter": "a.properties"}, "topologyFilter needs a topology in YAML, but topology is"),
    ("minimal", {"kafka": {"bootstrapServers": ""}}, "Kafka is missing: set kafka.bootstrapServers, or dev.enabled"),
    ("minimal", {"zookeeper": {"connect": ""}}, "ZooKeeper is missing: set zookeeper.connect, or dev.enabled"),
    ("minimal", {"dev": {"enabled": True}}, "dev.enabled brings its own Kafka and ZooKeeper"),
    ("minimal", {"dev": {"sync": True}}, "dev.sync allows code changes in running pods"),
    ("dev", {"dev": {"sync": True}}, "dev.sync copies the code of the images"),
    ("dev", {"kafka": {"securityProtocol": "SSL"}}, "dev.enabled supports no TLS and no logins"),
    ("dev", {"zookeeper": {"existingSecret": {"name": "a"}}}, "dev.enabled supports no TLS and no logins"),
    ("dev", {"zookeeper": {"tls": {"enabled": True}}}, "dev.enabled supports no TLS and no logins"),
    ("minimal", {"zookeeper": {"tls": {"existingSecret": "ca"}}}, "zookeeper.tls.existingSecret is set, but zookeeper.tls.enabled"),
    ("minimal", {"zookeeper": {"tls": {"clientCertificate": True}}}, "clientCertificate needs zookeeper.tls.existingSecret"),
    ("minimal", {"zookeeper": {"tls": {"keyPasswordKey": "p"}}}, "set zookeeper.tls.clientCertificate, or remove keyPasswordKey"),
    ("minimal", {"kafka": {"securityProtocol": "SASL_SSL"}}, "SASL_SSL, but kafka.saslMechanism is empty"),
    ("minimal", {"kafka": {"saslMechanism": "PLAIN"}}, "is PLAIN, but kafka.securityProtocol PLAINTEXT has no login"),
    ("tls-sasl", {"kafka": {"existingSecret": {"name": ""}}}, "SCRAM-SHA-512 needs a user and a password"),
    ("minimal", {"kafka": {"tls": {"existingSecret": "ca"}}}, "kafka.securityProtocol PLAINTEXT has no TLS"),
    ("minimal", {"kafka": {"tls": {"clientCertificate": True}}}, "clientCertificate needs kafka.tls.existingSecret"),
    ("minimal", {"kafka": {"properties": {"sasl.password": "x"}}}, "kafka.properties contains sasl.password, which is secret"),
    ("minimal", {"components": {"split": {"replicas": 5}}}, "components.split has 5 replicas for 4 tasks"),
    ("minimal", {"ackers": {"replicas": 5}}, "ackers has 5 replicas for 4 tasks"),
    ("minimal", {"ackers": {"replicas": 0}}, "ackers has no replicas for its 4 tasks"),
    ("minimal", {"components": {"split": {"replicas": 0}}}, "components.split has no replicas for its 4 tasks"),
    ("minimal", {"ackers": {"tasks": 0}}, "ackers has 1 replicas for 0 tasks"),
    ("minimal", {"components": {"sentences": {"stateful": True}}}, "only bolts have state"),
    ("minimal", {"components": {"Acker": {"kind": "bolt", "tasks": 1}}}, "the name wordcount-acker, which is reserved for the"),
    ("dev", {"components": {"kafka": {"kind": "bolt", "tasks": 1}}}, "the name wordcount-kafka, which is reserved for Kafka"),
    ("minimal", {"components": {"Split": {"kind": "bolt", "tasks": 1}}}, "would both get the name wordcount-split"),
    ("minimal", {"components": {"a" * 50: {"kind": "bolt", "tasks": 1}}}, "longer than the 52 characters"),
    (
        "minimal",
        {"components": {"split": {"autoscaling": {"hpa": {"enabled": True}, "keda": {"enabled": True}}}}},
        "components.split has both hpa and keda, which would scale it against each other",
    ),
    (
        "minimal",
        {"components": {"split": {"autoscaling": {"hpa": {"enabled": True, "maxReplicas": 5}}}}},
        "components.split.autoscaling.hpa.maxReplicas is 5, but it has 4 tasks",
    ),
    (
        "minimal",
        {"components": {"split": {"autoscaling": {"keda": {"enabled": True, "minReplicas": 3, "maxReplicas": 2}}}}},
        "components.split.autoscaling.keda has minReplicas 3 above maxReplicas 2",
    ),
    (
        "minimal",
        {"components": {"sentences": {"autoscaling": {"keda": {"enabled": True}}}}},
        "components.sentences.autoscaling.keda needs topic and consumerGroup",
    ),
    (
        "minimal",
        {"components": {"split": {"autoscaling": {"keda": {"enabled": True}}}}},
        "components.split.autoscaling.keda needs topic and consumerGroup, of the source where messages wait. Or set lagThreshold",
    ),
    (
        "minimal",
        {"components": {"split": {"autoscaling": {"keda": {"enabled": True, "topic": "sentences"}}}}},
        "components.split.autoscaling.keda has only one of topic and consumerGroup: set both or neither",
    ),
    ("keda", {"keda": {"authenticationRef": ""}}, "name a TriggerAuthentication in keda.authenticationRef"),
    (
        "minimal",
        {"components": {"split": {"podDisruptionBudget": {"enabled": True}}}},
        "components.split has a podDisruptionBudget but may have only one replica",
    ),
    (
        "prod",
        {"components": {"split": {"autoscaling": {"hpa": {"minReplicas": 1}}}}},
        "components.split has a podDisruptionBudget but may have only one replica",
    ),
    ("minimal", {"image": {"tag": "latest"}}, "has an image with the tag latest"),
    ("minimal", {"stateQueries": {"enabled": True}}, "stateQueries.enabled needs a token: name a Secret with one"),
    ("minimal", {"test": {"source": "sentences"}}, "test needs both source and sink: set both or neither"),
    ("prod", {"test": {"message": "hello"}}, "test.expect contains {marker}, but test.message does not"),
    ("minimal", {"test": {"message": "a {marker}"}}, "test.message is set, but test.source and test.sink are not"),
    ("minimal", {"pipeline": {"enabled": True}}, "pipeline.enabled needs pipeline.topic"),
    (
        "minimal",
        {"kafka": {"securityProtocol": "SSL"}, "pipeline": {"enabled": True, "topic": "words"}},
        "pipeline: Kafka needs TLS or a login",
    ),
    ("tls-sasl", {"pipeline": {"tables": "/tables"}}, "pipeline.tables is /tables, which pods cannot write"),
    ("tls-sasl", {"pipeline": {"sparkConf": {"spark.master": "yarn"}}}, "set pipeline.master instead"),
    (
        "executors",
        {"pipeline": {"sparkConf": {"spark.network.crypto.cipher": "AES/CTR/NoPadding"}}},
        "pipeline.sparkConf contains spark.network.crypto.cipher, weaker than AES/GCM/NoPadding",
    ),
    (
        "executors",
        {"pipeline": {"sparkConf": {"spark.network.crypto.authEngineVersion": 1}}},
        "pipeline.sparkConf contains spark.network.crypto.authEngineVersion, weaker than 2",
    ),
    ("tls-sasl", {"pipeline": {"sparkApplication": {"enabled": True}}}, "but pipeline.master is local[*]: set it to k8s://"),
    ("executors", {"pipeline": {"storage": {"accessMode": "ReadWriteOncePod"}}}, "but the executors write tables too"),
    ("tls-sasl", {"pipeline": {"storage": {"accessMode": "ReadWriteOncePod"}}}, "but the pod of pipeline.maintain writes"),
    ("tls-sasl", {"pipeline": {"audit": {"enabled": True}, "storage": {"accessMode": "ReadWriteOncePod"}}}, "of pipeline.audit"),
    ("executors", {"pipeline": {"serviceAccount": {"create": False}}}, "pipeline.serviceAccount is neither created nor named"),
    ("minimal", {"tracing": {"otlp": {"existingSecret": {"name": "a"}}}}, "existingSecret is set, but tracing.otlp.endpoint"),
    ("prod", {"tracing": {"otlp": {"slowerThan": "2s"}}}, "tracing.otlp.slowerThan and tracing.otlp.slowestShare are both set"),
    ("prod", {"ackers": {"tasks": 0, "replicas": 0}}, "tracing.otlp.endpoint is set, but without ackers"),
    ("prod", {"components": {"traces": {"kind": "bolt", "tasks": 1}}}, "wordcount-traces, which is reserved for the pod of"),
    ("prod", {"components": {"ui": {"kind": "bolt", "tasks": 1}}}, "the name wordcount-ui, which is reserved for the web UI"),
    ("minimal", {"ui": {"enabled": True}}, "ui.enabled needs a login"),
    ("prod", {"ui": {"existingSecret": {"name": "page"}}}, "ui.existingSecret.name and ui.userHeader are both set"),
    ("prod", {"ui": {"serviceAccount": {"create": False}}}, "ui.serviceAccount.create is false"),
    ("minimal", {"ui": {"enabled": True, "actions": ["drain"]}}, "ui.enabled needs a login"),
    ("prod", {"ui": {"actions": ["edit"], "showValues": False}}, "ui.actions contains edit, whose form shows the values"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "more", "complaint"), REFUSED, ids=lambda part: str(part)[:40])
def test_contradictory_values_are_rejected(
    template: Template, base: str, more: dict[str, Any], complaint: str
) -> None:
    """The output has the expected error."""
    done = template(more, base=base)
    assert done.returncode != 0
    assert "these values cannot work:" in done.stderr
    assert complaint in done.stderr


def test_all_errors_are_reported_at_once(template: Template) -> None:
    done = template(
        {"ackers": {"replicas": 9}, "image": {"tag": "latest"}, "zookeeper": {"connect": ""}}
    )
    assert done.stderr.count("\n  - ") == 2 + 5  # the five workloads have the tag


@pytest.mark.parametrize(
    "more",
    [
        {"components": {"split": {"replicas": 2, "podDisruptionBudget": {"enabled": True}}}},
        {"components": {"kafka": {"kind": "bolt", "tasks": 1}}},
        {"image": {"tag": "latest"}, "images": {kind: {"digest": DIGEST} for kind in ("spout", "bolt", "acker")}},
        {"kafka": {"securityProtocol": "SSL"}},
        {"kafka": {"securityProtocol": "SASL_SSL", "saslMechanism": "OAUTHBEARER"}},
        {"test": {"source": "a", "sink": "b", "message": "hello", "expect": ""}},
        {"pipeline": {"tables": "/tables"}},
    ],
    ids=lambda part: str(part)[:40],
)  # fmt: skip
def test_similar_valid_values_are_accepted(template: Template, more: dict[str, Any]) -> None:
    done = template(more)
    assert done.returncode == 0, done.stderr
