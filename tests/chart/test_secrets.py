"""Secrets in values are rejected.

The error is one line that names the right place. Named Secrets are mounted as files.
"""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.chart.conftest import Objects, Render, containers, environment, one, pod_specs

Template = Callable[..., subprocess.CompletedProcess[str]]

CANARY = "canary-Pa55"
JAAS = f'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientSecret="{CANARY}";'
KAFKA = "put it into the Secret of kafka.existingSecret"
SPARK_KAFKA = "put it into the Secret of pipeline.kafkaOptionsSecret"
REGISTRY = "put it into the Secret of pipeline.schemaRegistry.optionsSecret"
SPARK = "put it into the Secret of pipeline.sparkConfSecret, or pass it as a variable of pipeline.extraEnv"
FROM = "with a secret value: take it from an existing Secret, by valueFrom.secretKeyRef"


def variable(name: str, value: str = CANARY) -> list[dict[str, Any]]:
    """Return one more variable, in plain text."""
    return [{"name": name, "value": value}]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    *(
        ({"kafka": {"properties": {name: CANARY}}}, f"kafka.properties contains {name}, which is secret", KAFKA)
        for name in ("sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret")
    ),
    *(
        ({"pipeline": {"kafkaOptions": {name: value}}}, f"pipeline.kafkaOptions contains {name}, which is secret", SPARK_KAFKA)
        for name, value in (
            ("sasl.jaas.config", JAAS),
            ("kafka.sasl.jaas.config", JAAS),
            ("ssl.keystore.password", CANARY),
            ("ssl.key.password", CANARY),
            ("ssl.keystore.key", CANARY),
            ("clientSecret", CANARY),
            ("sasl.login.token", CANARY),
            ("of.ones.own", JAAS),
            ("another.of.ones.own", f"-----BEGIN RSA PRIVATE KEY----- {CANARY}"),
        )
    ),
    *(
        (
            {"pipeline": {"schemaRegistry": {"options": {name: CANARY}}}},
            f"pipeline.schemaRegistry.options contains {name}, which is secret",
            REGISTRY,
        )
        for name in ("basic.auth.user.info", "bearer.auth.token", "ssl.key.password")
    ),
    *(
        ({"pipeline": {"sparkConf": {name: value}}}, f"pipeline.sparkConf contains {name}, which is secret", SPARK)
        for name, value in (
            ("spark.hadoop.fs.s3a.secret.key", CANARY),
            ("spark.hadoop.fs.s3a.access.key", CANARY),
            ("spark.hadoop.fs.s3a.session.token", CANARY),
            ("spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net", CANARY),
            ("spark.ssl.keyPassword", CANARY),
            ("spark.authenticate.secret", CANARY),
            ("spark.executorEnv.AWS_SECRET_ACCESS_KEY", CANARY),
            ("spark.driver.extraJavaOptions", f"-Djavax.net.ssl.trustStorePassword={CANARY}"),
            ("spark.hadoop.fs.s3a.proxy", f"http://user:{CANARY}@proxy:3128"),
        )
    ),
    *(
        ({where: {"extraEnv": variable(name)}}, f"{where}.extraEnv contains {name}", FROM)
        for where in ("defaults", "ackers", "pipeline")
        for name in ("DB_PASSWORD", "API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "KSTORM_ZOOKEEPER_AUTH")
    ),
    (
        {"components": {"split": {"extraEnv": variable("DB_PASS")}}},
        "components.split.extraEnv contains DB_PASS",
        FROM,
    ),
    (
        {"defaults": {"extraEnv": variable("DATABASE", f"postgres://words:{CANARY}@db/words")}},
        "defaults.extraEnv contains DATABASE",
        FROM,
    ),
    (
        {"defaults": {"extraEnv": variable("KSTORM_KAFKA_PROPERTIES", f'{{"sasl.password": "{CANARY}"}}')}},
        "defaults.extraEnv contains KSTORM_KAFKA_PROPERTIES",
        FROM,
    ),
    (
        {"defaults": {"extraEnv": variable("KSTORM_ZOOKEEPER_TLS", f'{{"keyfile_password": "{CANARY}"}}')}},
        "defaults.extraEnv contains KSTORM_ZOOKEEPER_TLS",
        FROM,
    ),
    (
        {"pipeline": {"tables": f"s3a://id:{CANARY}@bucket/words"}},
        "pipeline.tables has a login in its URL",
        "pass it as variables of pipeline.extraEnv, by valueFrom.secretKeyRef",
    ),
    (
        {"keda": {"metadata": {"password": CANARY}}},
        "keda.metadata contains password, which is secret",
        "put it into the TriggerAuthentication of keda.authenticationRef",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("more", "says", "instead"), REFUSED, ids=lambda part: str(part)[:60])
def test_secret_in_values_is_rejected(
    template: Template, more: dict[str, Any], says: str, instead: str
) -> None:
    """The error has one line with the place, the name and the remedy.

    The secret itself is in no output.
    """
    done = template(more, base="tls-sasl")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("  - ")]
    assert line.startswith(f"  - {says}")
    assert instead in line
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "more",
    [
        {"kafka": {"properties": {"ssl.key.location": "/etc/kstorm/tls/tls.key", "sasl.username": "words"}}},
        {"pipeline": {"kafkaOptions": {"sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token"}}},
        {"pipeline": {"kafkaOptions": {"ssl.keystore.location": "/etc/kstorm/tls/key.p12"}}},
        {"pipeline": {"sparkConf": {"spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY": "store:key"}}},
        {"pipeline": {"sparkConf": {"spark.kubernetes.driver.secrets.store": "/etc/store"}}},
        {"pipeline": {"sparkConf": {"spark.authenticate": True, "spark.authenticate.secretBitLength": 256}}},
        {"pipeline": {"sparkConf": {"spark.redaction.regex": "(?i)secret|password|token"}}},
        {"pipeline": {"sparkConf": {"spark.hadoop.fs.s3a.path.style.access": True}}},
        {"pipeline": {"tables": "abfss://words@account.dfs.core.windows.net/tables"}},
        {"defaults": {"extraEnv": [{"name": "A_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}},
        {"defaults": {"extraEnv": variable("DATABASE", "postgres://words:$(DB_PASSWORD)@db/words")}},
        {"defaults": {"extraEnv": variable("DB_PASSWORD_FILE", "/etc/db/password")}},
        {"defaults": {"extraEnv": variable("MAX_TOKENS", "4096")}},
        {"defaults": {"extraEnv": variable("KSTORM_ZOOKEEPER_AUTH_FILE", "/etc/zookeeper/auth")}},
        {"zookeeper": {"tls": {"keyPasswordKey": "passphrase"}}},
        {"pipeline": {"extraEnv": variable("KSTORM_PIPELINE_ZOOKEEPER_TLS", '{"keyfile_password_file": "/etc/zk/password"}')}},
        {"defaults": {"extraEnv": variable("ASK_FOR_PASSWORD", "true")}},
    ],
    ids=lambda part: str(part)[:60],
)  # fmt: skip
def test_similar_harmless_values_are_accepted(template: Template, more: dict[str, Any]) -> None:
    """They name a secret's location or length, or only resemble a secret."""
    done = template(more, base="tls-sasl")
    assert done.returncode == 0, done.stderr


def test_chart_has_no_plain_variable_named_like_a_secret(objects: Objects) -> None:
    """This holds for all CI files."""
    for spec in pod_specs(objects).values():
        for container in containers(spec):
            plain = (
                {name for name in environment(container) if not name.endswith("_FILE")}
                if "env" in container
                else set()
            )
            assert not [
                name for name in plain if "PASSWORD" in name or "SECRET" in name or "TOKEN" in name
            ]


@pytest.mark.parametrize(
    ("base", "made"),
    [
        (
            "tls-sasl",
            [
                "Deployment/wordcount-pipeline",
                "CronJob/wordcount-maintain",
                "CronJob/wordcount-audit",
            ],
        ),
        (
            "executors",
            [
                "Deployment/wordcount-pipeline",
                "CronJob/wordcount-maintain",
                "CronJob/wordcount-audit",
            ],
        ),
        ("operator", ["Spark/driver", "CronJob/wordcount-maintain", "CronJob/wordcount-audit"]),
    ],
)
def test_secret_spark_settings_are_mounted_as_a_file(
    render: Render, base: str, made: list[str]
) -> None:
    """All pods that start Spark mount it.

    Executors get these settings from the driver. No other pod has the Secret.
    """
    pipeline = {
        "audit": {"enabled": True},
        "sparkConfSecret": {"name": "store", "key": "conf.json"},
    }
    specs = pod_specs(render({"pipeline": pipeline}, base=base))
    have = [
        name
        for name, spec in specs.items()
        if "sparkconf" in [volume["name"] for volume in spec["volumes"]]
    ]
    assert sorted(have) == sorted(made)
    for name in made:
        (container,) = specs[name]["containers"]
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == "sparkconf"]
        assert mount["readOnly"] is True
        assert (
            environment(container)["KSTORM_PIPELINE_SPARK_CONF_FILE"]
            == f"{mount['mountPath']}/conf.json"
        )
        (volume,) = [each for each in specs[name]["volumes"] if each["name"] == "sparkconf"]
        assert volume["secret"] == {"secretName": "store"}


def test_without_a_secret_there_is_no_file_and_no_volume(render: Render) -> None:
    objects = render(base="executors")
    driver = one(objects, "Deployment", "wordcount-pipeline")["spec"]["template"]["spec"]
    assert "KSTORM_PIPELINE_SPARK_CONF_FILE" not in environment(driver["containers"][0])
    assert "sparkconf" not in [volume["name"] for volume in driver["volumes"]]
