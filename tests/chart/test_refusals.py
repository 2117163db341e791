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
    ("minimal", {"topology": ""}, "topology, topologyName and components are needed"),
    ("minimal", {"topologyName": ""}, "write them by `kstorm values package.module:attribute`"),
    ("minimal", {"components": {"sentences": {"kind": "bolt"}}}, "components has no spout"),
    ("minimal", {"topologyFiles": {"a.py": ""}, "existingTopologyConfigMap": "b"}, "/topology can be only one of them"),
    ("minimal", {"topologyFilter": "a.properties"}, "topologyFilter is for a topology in YAML, and topology is"),
    ("minimal", {"kafka": {"bootstrapServers": ""}}, "there is no Kafka: set kafka.bootstrapServers, or dev.enabled"),
    ("minimal", {"zookeeper": {"connect": ""}}, "there is no ZooKeeper: set zookeeper.connect, or dev.enabled"),
    ("minimal", {"dev": {"enabled": True}}, "dev.enabled brings its own Kafka and ZooKeeper"),
    ("minimal", {"dev": {"sync": True}}, "dev.sync lets code be changed in running pods"),
    ("dev", {"dev": {"sync": True}}, "dev.sync copies the code of the images"),
    ("dev", {"kafka": {"securityProtocol": "SSL"}}, "dev.enabled has no TLS and no logins"),
    ("dev", {"zookeeper": {"existingSecret": {"name": "a"}}}, "dev.enabled has no TLS and no logins"),
    ("dev", {"zookeeper": {"tls": {"enabled": True}}}, "dev.enabled has no TLS and no logins"),
    ("minimal", {"zookeeper": {"tls": {"existingSecret": "ca"}}}, "zookeeper.tls.existingSecret is set, but zookeeper.tls.enabled"),
    ("minimal", {"zookeeper": {"tls": {"clientCertificate": True}}}, "clientCertificate needs zookeeper.tls.existingSecret"),
    ("minimal", {"zookeeper": {"tls": {"keyPasswordKey": "p"}}}, "set zookeeper.tls.clientCertificate, or leave it out"),
    ("minimal", {"kafka": {"securityProtocol": "SASL_SSL"}}, "SASL_SSL, but kafka.saslMechanism is empty"),
    ("minimal", {"kafka": {"saslMechanism": "PLAIN"}}, "is PLAIN, but kafka.securityProtocol PLAINTEXT has no login"),
    ("tls-sasl", {"kafka": {"existingSecret": {"name": ""}}}, "SCRAM-SHA-512 needs a user and a password"),
    ("minimal", {"kafka": {"tls": {"existingSecret": "ca"}}}, "kafka.securityProtocol PLAINTEXT has no TLS"),
    ("minimal", {"kafka": {"tls": {"clientCertificate": True}}}, "clientCertificate needs kafka.tls.existingSecret"),
    ("minimal", {"kafka": {"properties": {"sasl.password": "x"}}}, "kafka.properties has sasl.password, which is secret"),
    ("minimal", {"components": {"split": {"replicas": 5}}}, "components.split has 5 replicas for 4 tasks"),
    ("minimal", {"ackers": {"replicas": 5}}, "ackers has 5 replicas for 4 tasks"),
    ("minimal", {"ackers": {"replicas": 0}}, "ackers has no replicas for its 4 tasks"),
    ("minimal", {"ackers": {"tasks": 0}}, "ackers has 1 replicas for 0 tasks"),
    ("minimal", {"components": {"sentences": {"stateful": True}}}, "only bolts have state"),
    ("minimal", {"components": {"Acker": {"kind": "bolt", "tasks": 1}}}, "called wordcount-acker, as the ackers are"),
    ("dev", {"components": {"kafka": {"kind": "bolt", "tasks": 1}}}, "called wordcount-kafka, as Kafka are"),
    ("minimal", {"components": {"Split": {"kind": "bolt", "tasks": 1}}}, "would both be called wordcount-split"),
    ("minimal", {"components": {"a" * 50: {"kind": "bolt", "tasks": 1}}}, "longer than the 52 characters"),
    (
        "minimal",
        {"components": {"split": {"autoscaling": {"hpa": {"enabled": True}, "keda": {"enabled": True}}}}},
        "components.split has hpa and keda: two would scale it against each other",
    ),
    (
        "minimal",
        {"components": {"split": {"autoscaling": {"hpa": {"enabled": True, "maxReplicas": 5}}}}},
        "components.split.autoscaling.hpa.maxReplicas is 5, but there are 4 tasks",
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
        "components.split.autoscaling.keda needs topic and consumerGroup, of the source where messages wait; or lagThreshold",
    ),
    (
        "minimal",
        {"components": {"split": {"autoscaling": {"keda": {"enabled": True, "topic": "sentences"}}}}},
        "components.split.autoscaling.keda has one of topic and consumerGroup: give both, or neither",
    ),
    ("keda", {"keda": {"authenticationRef": ""}}, "name a TriggerAuthentication in keda.authenticationRef"),
    (
        "minimal",
        {"components": {"split": {"podDisruptionBudget": {"enabled": True}}}},
        "components.split has a podDisruptionBudget and may have one replica",
    ),
    (
        "prod",
        {"components": {"split": {"autoscaling": {"hpa": {"minReplicas": 1}}}}},
        "components.split has a podDisruptionBudget and may have one replica",
    ),
    ("minimal", {"image": {"tag": "latest"}}, "has an image of the tag latest"),
    ("minimal", {"stateQueries": {"enabled": True}}, "stateQueries.enabled needs a token: name a Secret with one"),
    ("minimal", {"test": {"source": "sentences"}}, "test needs both source and sink, or neither"),
    ("prod", {"test": {"message": "hello"}}, "test.expect has {marker}, but test.message has not"),
    ("minimal", {"test": {"message": "a {marker}"}}, "test.source and test.sink do not say where"),
    ("minimal", {"pipeline": {"enabled": True}}, "pipeline.enabled needs pipeline.topic"),
    (
        "minimal",
        {"kafka": {"securityProtocol": "SSL"}, "pipeline": {"enabled": True, "topic": "words"}},
        "pipeline: Kafka wants TLS or a login",
    ),
    ("tls-sasl", {"pipeline": {"tables": "/tables"}}, "pipeline.tables is /tables, where nothing can be written"),
    ("tls-sasl", {"pipeline": {"sparkConf": {"spark.master": "yarn"}}}, "set pipeline.master instead"),
    (
        "executors",
        {"pipeline": {"sparkConf": {"spark.network.crypto.cipher": "AES/CTR/NoPadding"}}},
        "pipeline.sparkConf has spark.network.crypto.cipher, weaker than AES/GCM/NoPadding",
    ),
    (
        "executors",
        {"pipeline": {"sparkConf": {"spark.network.crypto.authEngineVersion": 1}}},
        "pipeline.sparkConf has spark.network.crypto.authEngineVersion, weaker than 2",
    ),
    ("tls-sasl", {"pipeline": {"sparkApplication": {"enabled": True}}}, "but pipeline.master is local[*]: set it to k8s://"),
    ("executors", {"pipeline": {"storage": {"accessMode": "ReadWriteOncePod"}}}, "but the executors write tables too"),
    ("tls-sasl", {"pipeline": {"storage": {"accessMode": "ReadWriteOncePod"}}}, "but the pod of pipeline.maintain writes"),
    ("tls-sasl", {"pipeline": {"audit": {"enabled": True}, "storage": {"accessMode": "ReadWriteOncePod"}}}, "of pipeline.audit"),
    ("executors", {"pipeline": {"serviceAccount": {"create": False}}}, "pipeline.serviceAccount is neither made nor named"),
    ("minimal", {"tracing": {"otlp": {"existingSecret": {"name": "a"}}}}, "existingSecret is set, but tracing.otlp.endpoint"),
    ("prod", {"tracing": {"otlp": {"slowerThan": "2s"}}}, "tracing.otlp.slowerThan and tracing.otlp.slowestShare are both set"),
    ("prod", {"ackers": {"tasks": 0, "replicas": 0}}, "tracing.otlp.endpoint is set, but without ackers"),
    ("prod", {"components": {"traces": {"kind": "bolt", "tasks": 1}}}, "called wordcount-traces, as the pod of tracing.otlp are"),
    ("prod", {"components": {"ui": {"kind": "bolt", "tasks": 1}}}, "called wordcount-ui, as the page are"),
    ("minimal", {"ui": {"enabled": True}}, "ui.enabled needs a login"),
    ("prod", {"ui": {"existingSecret": {"name": "page"}}}, "ui.existingSecret.name and ui.userHeader are both set"),
    ("prod", {"ui": {"serviceAccount": {"create": False}}}, "ui.serviceAccount.create is false"),
    ("minimal", {"ui": {"enabled": True, "actions": ["drain"]}}, "ui.enabled needs a login"),
    ("prod", {"ui": {"actions": ["edit"], "showValues": False}}, "ui.actions has edit, whose form shows what a message holds"),
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
