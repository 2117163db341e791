"""A service's settings: what is wrong is said in one sentence, before anything starts."""

from pathlib import Path

import pytest

from kstorm.errors import ConfigError, KstormError, TopologyError
from kstorm.runtime.settings import from_environment, load_topology
from kstorm.topology import Topology

GOOD = {"KSTORM_TOPOLOGY": "examples.wordcount:topology"}


def test_only_the_topology_has_to_be_named() -> None:
    """Everything else has a default."""
    settings = from_environment(GOOD)
    assert settings.bootstrap_servers == "localhost:9092"
    assert settings.web_port == 6066
    assert settings.instance


def test_every_variable_is_read() -> None:
    """Names are KSTORM_ and the field in capitals."""
    settings = from_environment(
        GOOD
        | {
            "KSTORM_COMPONENT": "split",
            "KSTORM_DATA_DIR": "/data",
            "KSTORM_WEB_PORT": "8080",
            "KSTORM_LOG_LEVEL": "debug",
            "KSTORM_KAFKA_PROPERTIES": '{"security.protocol": "SSL"}',
        }
    )
    assert settings.component == "split"
    assert settings.data_dir == Path("/data")
    assert settings.web_port == 8080
    assert settings.log_level == "DEBUG"
    assert settings.client_config["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("KSTORM_TOPOLOGY", "", "package.module:attribute"),
        ("KSTORM_WEB_PORT", "http", "'http'"),
        ("KSTORM_WEB_PORT", "0", "from 1 to 65535"),
        ("KSTORM_LOG_LEVEL", "loud", "DEBUG, INFO, WARNING, ERROR"),
        ("KSTORM_LOG_FORMAT", "xml", "json, console"),
        ("KSTORM_KAFKA_PROPERTIES", "security.protocol=SSL", "JSON object"),
        ("KSTORM_BOOTSTRAP_SERVERS", " ", "is empty"),
    ],
)
def test_a_bad_value_is_named_with_its_variable(variable: str, value: str, says: str) -> None:
    """The message has the variable, the value and the remedy."""
    with pytest.raises(ConfigError) as caught:
        from_environment(GOOD | {variable: value})
    assert variable in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("examples.wordcount", "package.module:attribute"),
        ("no_such_module:topology", "there is no module 'no_such_module'"),
        ("examples.wordcount:nothing", "has no 'nothing'"),
        ("examples.wordcount:time", "not a Topology"),
    ],
)
def test_a_topology_that_cannot_be_loaded_says_why(reference: str, says: str) -> None:
    """No stack trace for a misspelt reference."""
    with pytest.raises(KstormError, match=says):
        load_topology(reference)


def test_a_module_that_a_topology_needs_and_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing dependency is told from a missing topology."""
    (tmp_path / "needy.py").write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="needs the module 'surely_not_installed'"):
        load_topology("needy:topology")


def test_a_topology_may_be_a_function_or_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`topology = builder.build()` works as well as `def topology(): …`."""
    (tmp_path / "ready.py").write_text("from examples.wordcount import topology as make\nfound = make()\nwrong = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(load_topology("ready:found"), Topology)
    assert isinstance(load_topology("ready:make"), Topology)
    with pytest.raises(TopologyError, match="is a int"):
        load_topology("ready:wrong")
