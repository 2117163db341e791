"""A service's settings: each mistake is reported in one sentence, before anything starts."""

from pathlib import Path

import pytest

from kstorm.errors import ConfigError, KstormError, TopologyError
from kstorm.kafka import KAFKA
from kstorm.runtime.base.settings import from_environment, load_topology
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.service.resources import Resources
from kstorm.topology import Topology

GOOD = {"KSTORM_TOPOLOGY": "examples.wordcount.topology:topology"}


def test_only_the_topology_has_to_be_named() -> None:
    """Every other setting has a default."""
    settings = from_environment(GOOD)
    assert settings.bootstrap_servers == "localhost:9092"
    assert settings.web_port == 6066
    assert settings.instance


def test_every_variable_is_read() -> None:
    """A variable's name is KSTORM_ and the field in capitals."""
    settings = from_environment(
        GOOD
        | {
            "KSTORM_COMPONENT": "split",
            "KSTORM_TOPOLOGY_ID": "wordcount-7",
            "KSTORM_DATA_DIR": "/data",
            "KSTORM_WEB_PORT": "8080",
            "KSTORM_LOG_LEVEL": "debug",
            "KSTORM_LEAVE_ON_STOP": "true",
            "KSTORM_KAFKA_PROPERTIES": '{"security.protocol": "SSL"}',
        }
    )
    assert settings.component == "split"
    assert settings.topology_id == "wordcount-7"
    assert Resources(settings).lent[KAFKA].topology_id == "wordcount-7"
    assert Resources(from_environment(GOOD)).lent[KAFKA].topology_id is None
    assert settings.data_dir == Path("/data")
    assert settings.web_port == 8080
    assert settings.log_level == "DEBUG"
    assert settings.leave_on_stop
    assert settings.client_config["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("KSTORM_TOPOLOGY", "", "package.module:attribute"),
        ("KSTORM_WEB_PORT", "http", "'http'"),
        ("KSTORM_WEB_PORT", "0", "from 1 to 65535"),
        ("KSTORM_LOG_LEVEL", "loud", "DEBUG, INFO, WARNING, ERROR"),
        ("KSTORM_LOG_FORMAT", "xml", "json, console"),
        ("KSTORM_LEAVE_ON_STOP", "no", "true, false"),
        ("KSTORM_KAFKA_PROPERTIES", "security.protocol=SSL", "JSON object"),
        ("KSTORM_BOOTSTRAP_SERVERS", " ", "is empty"),
    ],
)
def test_a_bad_value_is_named_with_its_variable(variable: str, value: str, says: str) -> None:
    """The message also has the value and the remedy."""
    with pytest.raises(ConfigError) as caught:
        from_environment(GOOD | {variable: value})
    assert variable in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("examples.wordcount.topology", "package.module:attribute"),
        ("no_such_module:topology", "there is no module 'no_such_module'"),
        ("examples.wordcount.topology:nothing", "has no 'nothing'"),
        ("examples.wordcount.topology:time", "not a Topology"),
    ],
)
def test_unloadable_topology_is_reported(reference: str, says: str) -> None:
    """A misspelt reference gives no stack trace."""
    with pytest.raises(KstormError, match=says):
        load_topology(reference)


def test_a_module_that_a_topology_needs_and_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error distinguishes a missing topology from a missing module that it imports."""
    (tmp_path / "needy.py").write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="needs the module 'surely_not_installed'"):
        load_topology("needy:topology")


def test_a_topology_may_be_a_function_or_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`topology = builder.build()` works as well as `def topology(): …`."""
    (tmp_path / "ready.py").write_text(
        "from examples.wordcount.topology import topology as make\nfound = make()\nwrong = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(load_topology("ready:found"), Topology)
    assert isinstance(load_topology("ready:make"), Topology)
    with pytest.raises(TopologyError, match="is a int"):
        load_topology("ready:wrong")


def test_a_component_of_another_kind_is_named_with_those_that_there_are() -> None:
    """A spout does not run as a bolt, and a misspelt name is an error."""
    settings = from_environment(GOOD | {"KSTORM_COMPONENT": "split"})
    topology = settings.load_topology()
    assert settings.component_of(topology, "bolt") == "split"
    with pytest.raises(
        ConfigError, match=r"KSTORM_COMPONENT is 'split': the spouts of '.*' are 'sentences'$"
    ):
        settings.component_of(topology, "spout")


def test_secrets_are_read_from_files(tmp_path: Path) -> None:
    """Secrets are mounted as files. A file's properties override those of the variable."""
    properties, login = tmp_path / "kafka.json", tmp_path / "zookeeper"
    properties.write_text('{"sasl.password": "hunter2", "security.protocol": "SASL_SSL"}\n')
    login.write_text("sasl:me:hunter3\n")
    settings = from_environment(
        GOOD
        | {
            "KSTORM_KAFKA_PROPERTIES": '{"security.protocol": "SSL", "enable.ssl.certificate.verification": true}',
            "KSTORM_KAFKA_PROPERTIES_FILE": str(properties),
            "KSTORM_ZOOKEEPER_AUTH_FILE": str(login),
        }
    )
    assert settings.kafka_properties == {
        "security.protocol": "SASL_SSL",
        "enable.ssl.certificate.verification": "true",
        "sasl.password": "hunter2",
    }
    assert settings.zookeeper_auth == "sasl:me:hunter3"
    assert "hunter" not in repr(settings)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "KSTORM_KAFKA_PROPERTIES_FILE",
            "/no/such/file",
            "cannot be read: No such file or directory",
        ),
        ("KSTORM_KAFKA_PROPERTIES_FILE", "/", "cannot be read: Is a directory"),
        ("KSTORM_KAFKA_PROPERTIES_FILE", __file__, "is not a JSON object of names and values"),
        (
            "KSTORM_KAFKA_PROPERTIES",
            '{"sasl.password": ["hunter2"]}',
            "is not a JSON object of names and values",
        ),
        ("KSTORM_ZOOKEEPER_AUTH", "me:hunter2", "is not of the form digest:user:password"),
        ("KSTORM_ZOOKEEPER_AUTH", "x509:me:hunter2", "digest:user:password or sasl:user:password"),
        ("KSTORM_ZOOKEEPER_AUTH", "digest:hunter2", "is not of the form digest:user:password"),
    ],
)
def test_a_bad_secret_is_named_and_not_shown(variable: str, value: str, says: str) -> None:
    """The error names the variable and the remedy, but not the value."""
    with pytest.raises(ConfigError, match=variable) as caught:
        from_environment(GOOD | {variable: value})
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_zookeeper_tls_settings_are_read() -> None:
    """The setting is optional. `{}` selects all defaults."""
    assert from_environment(GOOD).zookeeper_tls is None
    assert from_environment(GOOD | {"KSTORM_ZOOKEEPER_TLS": "{}"}).zookeeper_tls == ZooKeeperTls()
    given = {"KSTORM_ZOOKEEPER_TLS": '{"check_hostname": false}'}
    assert from_environment(GOOD | given).zookeeper_tls == ZooKeeperTls(check_hostname=False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is not a JSON object"),
        ('{"ca": "/etc/ca.crt"', "it is not a JSON object"),
        ("true", "Expected `object`, got `bool`"),
        ('{"ca_file": "/etc/ca.crt"}', "unknown field `ca_file`"),
        ('{"keyfile_password": "hunter2"}', "unknown field `keyfile_password`"),
        ('{"ca": ["hunter2"]}', "Expected `str`, got `array` - at `$.ca`"),
        ('{"keyfile": "/etc/tls.key"}', "has keyfile without certfile"),
        (
            '{"ca": "/no/such/ca.crt"}',
            "has ca '/no/such/ca.crt', which cannot be used: No such file or directory",
        ),
        ('{"ca": "/"}', "has ca '/', which cannot be used: Is a directory"),
        ('{"ca": "a\\u0000b"}', r"has ca 'a\x00b', which cannot be used"),
    ],
)
def test_invalid_zookeeper_tls_is_named(text: str, says: str) -> None:
    """The error is one line with the variable and the problem. A misplaced password is not shown."""
    with pytest.raises(ConfigError, match=r"^KSTORM_ZOOKEEPER_TLS ") as caught:
        from_environment(GOOD | {"KSTORM_ZOOKEEPER_TLS": text})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_property_that_librdkafka_refuses_is_a_config_error() -> None:
    """The error shows its name."""
    with pytest.raises(ConfigError, match=r'KSTORM_KAFKA_PROPERTIES: .*"no\.such"'):
        Admin(from_environment(GOOD | {"KSTORM_KAFKA_PROPERTIES": '{"no.such": "hunter2"}'}))
