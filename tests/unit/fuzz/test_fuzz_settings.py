"""Any environment and any config gives settings, or a `ConfigError` that names the mistake."""

import dataclasses
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstorm.errors import ConfigError, KstormError
from kstorm.kafka import KafkaHosts, SpoutConfig
from kstorm.runtime.base.settings import Settings, from_environment, load_topology
from kstorm.topology import Config
from tests.unit.fuzz.hostile import bounded, numbers, values

TEXTS = st.sampled_from(
    ["", " ", "²", "٣", "9" * 5000, "-1", "1e9", "\udcff", "\0", "[" * 5000, '{"a":' * 5000, "{}"]
)
VARIABLES = [f"KSTORM_{name.upper()}" for name in Settings.__dataclass_fields__]
NUMBERS = st.sampled_from(
    [10**400, -(10**400), 10**5000, 2**63, -1, 0, float("nan"), float("inf"), 1e308, 1e-308, True]
)

SPOUT_NUMBERS = [
    field.name
    for field in dataclasses.fields(SpoutConfig)
    if field.type in ("int", "float", int, float)
]


@given(
    st.dictionaries(
        st.sampled_from(VARIABLES), TEXTS | st.text(max_size=10) | values.map(repr), max_size=4
    )
)
def test_an_environment_is_settings_or_a_config_error(environment: dict[str, str]) -> None:
    """No other error is raised, and the settings can be printed."""
    with suppress(ConfigError):
        found = bounded(repr(environment).encode(), lambda _: from_environment(environment))
        assert found.topology == environment["KSTORM_TOPOLOGY"]
        assert found.client_config["bootstrap.servers"]
        repr(found)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.text(max_size=5) | numbers | st.booleans() | st.lists(st.none(), max_size=2),
        max_size=3,
    )
)
def test_properties_are_text_or_refused(properties: dict[str, Any]) -> None:
    """librdkafka takes strings. A list or an object is a mistake."""
    environment = {"KSTORM_TOPOLOGY": "a:b", "KSTORM_KAFKA_PROPERTIES": json.dumps(properties)}
    with suppress(ConfigError):
        found = from_environment(environment).kafka_properties
        assert all(isinstance(value, str) for value in found.values())
        assert not any(isinstance(value, list) for value in properties.values())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=40) | TEXTS.map(lambda text: text.encode(errors="surrogateescape"))
)
def test_a_file_of_secrets_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    """The error does not show the content."""
    file = tmp_path / "secret"
    file.write_bytes(b"hunter2" + content)
    for name in ("KSTORM_KAFKA_PROPERTIES_FILE", "KSTORM_ZOOKEEPER_AUTH_FILE"):
        with pytest.raises(ConfigError, match=name) as caught:
            from_environment({"KSTORM_TOPOLOGY": "a:b", name: str(file)})
        assert "hunter2" not in str(caught.value)


@given(
    st.sampled_from([field.name for field in dataclasses.fields(Config) if field.name != "own"]),
    NUMBERS | values,
)
def test_a_config_is_one_or_a_config_error(name: str, value: Any) -> None:
    """The message has the name of the setting."""
    refused: ConfigError | None = None
    try:
        config = Config(**{name: value})
    except ConfigError as error:
        refused = error
    if refused is not None:
        assert name in str(refused)
    else:
        assert getattr(config, name) is value
        assert value is None or 0 <= value < 2**31


@given(st.dictionaries(st.text() | st.sampled_from(dir(Config)), values, max_size=2))
def test_own_settings_are_kept_or_refused(own: dict[str, Any]) -> None:
    """Their names and values are arbitrary."""
    try:
        config = Config(own=own)
    except ConfigError:
        return
    assert all(config[name] is value for name, value in own.items())


@given(st.sampled_from(SPOUT_NUMBERS), NUMBERS | st.integers() | st.floats())
def test_a_spout_config_is_one_or_a_config_error(name: str, value: Any) -> None:
    """The numbers have any size."""
    with suppress(ConfigError):
        assert (
            getattr(SpoutConfig(KafkaHosts(), "topic", "/root", "id", **{name: value}), name)
            is value
        )


@given(
    st.sampled_from(["", ".", "..", ":", ".a:b", "os:path.x", "a\0:b", "\udcff:x"])
    | st.text(max_size=12)
)
def test_a_reference_is_a_topology_or_a_kstorm_error(reference: str) -> None:
    """A misspelt reference gives no stack trace."""
    with pytest.raises(KstormError):
        load_topology(reference)


# Cases that these tests found.


@pytest.mark.parametrize("port", ["²", "9" * 5000, "65536", "1_0", "+1"])
def test_invalid_port_is_refused(port: str) -> None:
    """`isdigit` accepts superscripts, and `int` rejects 4300 digits."""
    with pytest.raises(ConfigError, match=r"KSTORM_WEB_PORT is .*a whole number from 1 to 65535"):
        from_environment({"KSTORM_TOPOLOGY": "a:b", "KSTORM_WEB_PORT": port})


@pytest.mark.parametrize(
    "value", [10**400, 10**5000, 2**31, 1e300], ids=["huge", "unprintable", "one too many", "float"]
)
def test_too_large_number_is_refused(value: float) -> None:
    """The number exceeds a float, the limit for printing, or librdkafka's properties."""
    with pytest.raises(ConfigError, match="topology_message_timeout_secs is above 2147483647"):
        Config(topology_message_timeout_secs=value)


def test_deep_properties_are_refused() -> None:
    """The recursion depth is limited."""
    with pytest.raises(ConfigError, match="not a JSON object"):
        from_environment({"KSTORM_TOPOLOGY": "a:b", "KSTORM_KAFKA_PROPERTIES": '{"a":' * 100_000})


@pytest.mark.parametrize("reference", [".a:b", "..:x", ".:topology"])
def test_a_relative_reference_is_refused(reference: str) -> None:
    """The reference has no base."""
    with pytest.raises(ConfigError, match=r"does not have the form package\.module:attribute"):
        load_topology(reference)
