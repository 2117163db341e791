"""Settings from flags and the environment. Mistakes are explained in one line."""

import json
from pathlib import Path

import pytest

from kstorm_pipeline.__main__ import main, make_parser
from kstorm_pipeline.encryption import refuse_broken
from kstorm_pipeline.errors import PipelineError, SettingsError
from kstorm_pipeline.settings import Settings, help_texts, load

RUN = ["run", "--tables", "tables", "--topic", "words", "--bootstrap-servers", "127.0.0.1:9092"]


def loaded(*flags: str, **environment: str) -> Settings:
    """Return the settings of a run with these flags and variables (without their prefix)."""
    variables = {f"KSTORM_PIPELINE_{name}": value for name, value in environment.items()}
    return load(
        make_parser().parse_args([*RUN, *flags]), variables, needs=("bootstrap_servers", "topic")
    )


def test_flag_overrides_the_environment() -> None:
    """Otherwise the variable applies, or else the default."""
    assert loaded().max_records_per_batch == 500_000
    assert loaded(MAX_RECORDS_PER_BATCH="7").max_records_per_batch == 7
    assert (
        loaded("--max-records-per-batch", "8", MAX_RECORDS_PER_BATCH="7").max_records_per_batch == 8
    )


def test_pairs_are_merged_from_flags_and_json() -> None:
    """Options for Kafka and Spark may contain any character."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b=c,d";'
    settings = loaded(
        "--kafka-option",
        f"sasl.jaas.config={jaas}",
        KAFKA_OPTIONS='{"security.protocol": "SASL_SSL"}',
    )
    assert settings.kafka_options == {"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas}
    assert jaas not in repr(settings)


def test_the_login_of_the_schema_registry_is_not_shown() -> None:
    """Neither the one in the address nor the one in the options."""
    settings = loaded(
        "--schema-registry",
        "https://user:canary@one:1, http://two",
        "--schema-registry-option",
        "basic.auth.user.info=user:canary",
    )
    assert settings.schema_registry_options == {"basic.auth.user.info": "user:canary"}
    assert "canary" not in repr(settings)


def test_every_setting_has_a_help_text() -> None:
    """It is the docstring below the field."""
    assert set(help_texts()) == set(Settings.__dataclass_fields__)


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL stays unchanged."""
    monkeypatch.chdir(tmp_path)
    assert loaded().tables == str(tmp_path / "tables")
    assert loaded("--checkpoints", "s3a://bucket/c/").checkpoint_root == "s3a://bucket/c"


def test_jars_may_be_given_by_a_pattern(tmp_path: Path) -> None:
    """Images have all jars in one folder, under names with versions."""
    for name in ("b-1.jar", "a-2.jar", "notes.txt"):
        (tmp_path / name).touch()
    settings = loaded(JARS=f"{tmp_path}/*.jar,https://host/c.jar")
    assert settings.jars == (
        str(tmp_path / "a-2.jar"),
        str(tmp_path / "b-1.jar"),
        "https://host/c.jar",
    )


def test_pairs_are_read_from_a_mounted_file(tmp_path: Path) -> None:
    """A flag overrides the file, and the file the variable."""
    file = tmp_path / "options.json"
    file.write_text('{"a": "file", "b": "file"}')
    settings = loaded(
        "--kafka-option",
        "a=flag",
        KAFKA_OPTIONS='{"b": "variable", "c": "variable"}',
        KAFKA_OPTIONS_FILE=str(file),
    )
    assert settings.kafka_options == {"a": "flag", "b": "file", "c": "variable"}
    with pytest.raises(
        SettingsError,
        match="KSTORM_PIPELINE_KAFKA_OPTIONS_FILE is '/no/such', which cannot be read",
    ):
        loaded(KAFKA_OPTIONS_FILE="/no/such")


@pytest.mark.parametrize(
    "name",
    [
        "spark.driver.extraJavaOptions",
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
        "spark.authenticate",
        "spark.jars",
        "spark.ssl.enabled",
        "spark.hadoop.fs.s3a.proxy.port",
    ],
)
def test_mounted_spark_conf_refuses_settings_on_command_lines(tmp_path: Path, name: str) -> None:
    """Spark passes them to a JVM or a pod, where others see them. They may be in the variable,
    which is not secret."""
    file = tmp_path / "conf.json"
    file.write_text(json.dumps({"spark.hadoop.fs.s3a.secret.key": "canary-1", name: "canary-2"}))
    with pytest.raises(
        SettingsError, match=f"KSTORM_PIPELINE_SPARK_CONF_FILE has {name}, which"
    ) as refused:
        loaded(SPARK_CONF_FILE=str(file))
    assert "canary" not in str(refused.value)
    assert loaded(SPARK_CONF=json.dumps({name: "1"})).spark_conf == {name: "1"}


def test_mounted_spark_conf_accepts_secrets(tmp_path: Path) -> None:
    """Spark passes these on without a command line."""
    file = tmp_path / "conf.json"
    secrets = {
        "spark.hadoop.fs.s3a.secret.key": "a",
        "spark.authenticate.secret": "b",
        "spark.ssl.keyPassword": "c",
    }
    file.write_text(json.dumps(secrets))
    assert loaded(SPARK_CONF_FILE=str(file)).spark_conf == secrets


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (RUN[:3], "--bootstrap-servers (KSTORM_PIPELINE_BOOTSTRAP_SERVERS) is not set"),
        ([*RUN, "--audit", "found.json"], "--topology (KSTORM_PIPELINE_TOPOLOGY) is not set"),
        (["summary"], "--tables (KSTORM_PIPELINE_TABLES) is not set"),
        ([*RUN, "--bootstrap-servers", "a:1,b"], "has 'b', which is not host:port"),
        ([*RUN, "--bootstrap-servers", "a:70000"], "has 'a:70000', which is not host:port"),
        (
            [*RUN, "--schema-registry", "http://a:1,user:secret@b:1"],
            "has 'b:1', which is not http://host:port",
        ),
        ([*RUN, "--topic", "two words"], "--topic (KSTORM_PIPELINE_TOPIC) is 'two words'"),
        ([*RUN, "--master", "somewhere"], "is 'somewhere'; give local[*], spark://host:port"),
        ([*RUN, "--trigger", "sometimes"], "is 'sometimes'; give available-now or continuous"),
        ([*RUN, "--interval-seconds", "nan"], "is 'nan'; give seconds above 0"),
        ([*RUN, "--max-records-per-batch", "0"], "is '0'; give a whole number of 1 or more"),
        ([*RUN, "--allow-data-loss", "perhaps"], "is 'perhaps'; give true or false"),
        ([*RUN, "--jars", "no.jar"], "has 'no.jar', but there is no such file"),
        ([*RUN, "--driver-memory", "much"], "is 'much'; give a number followed by m or g"),
        (
            [*RUN, "--starting-offsets", "now"],
            "cannot be read; give earliest, latest or a JSON object",
        ),
        ([*RUN, "--starting-offsets", '{"other": {"0": 1}}'], "does not name the topic 'words'"),
        ([*RUN, "--tables", __file__], "which is a file; give a directory"),
        (
            [*RUN, "--spark-conf", "spark.network.crypto.cipher=AES/CTR/NoPadding"],
            "leave it out, the default is AES/GCM/NoPadding",
        ),
        (
            [*RUN, "--spark-conf", "spark.network.crypto.authEngineVersion=1"],
            "leave it out, the default is 2",
        ),
        (
            [*RUN, "--spark-conf", "spark.network.crypto.saslFallback=true"],
            "leave it out, the default is false",
        ),
        (
            [*RUN, "--spark-conf", "alone"],
            "--spark-conf (KSTORM_PIPELINE_SPARK_CONF) was given without a value",
        ),
    ],
)
def test_invalid_setting_is_explained_in_one_line(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With flag, variable, value and remedy. The exit code is 2, and Spark is not started."""
    assert main(flags) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize("spark", ["4.1.1", "4.1.2"])
def test_encryption_is_refused_on_a_spark_that_loses_messages(spark: str) -> None:
    refuse_broken({"spark.network.crypto.enabled": "false"}, spark)
    with pytest.raises(PipelineError, match=f"Spark {spark} loses encrypted messages"):
        refuse_broken({"spark.network.crypto.enabled": " True"}, spark)


def test_encryption_is_allowed_since_spark_4_2() -> None:
    refuse_broken({"spark.network.crypto.enabled": "true"}, "4.2.0")
