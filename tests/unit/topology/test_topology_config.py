"""Settings: types, ranges, overrides."""

import copy
import dataclasses
import inspect
import math
import pickle
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.topology import Config

SWITCHES = {"topology_debug", "topology_enable_message_timeouts"}


def test_defaults_are_storms_where_storm_has_one() -> None:
    """They are thirty seconds, one acker and no ticks.

    Unlike in Storm, the pending limit is finite.
    """
    config = Config()
    assert config.topology_message_timeout_secs == 30
    assert config.topology_acker_executors == 1
    assert config.topology_tick_tuple_freq_secs is None
    assert config.topology_max_spout_pending == 2000
    assert config.topology_enable_message_timeouts is True


def test_every_field_has_its_docstring() -> None:
    """The docstring documents the unit and the default."""
    source = inspect.getsource(Config)
    for field in dataclasses.fields(Config):
        declaration = source.index(f"\n    {field.name}: ")
        following = source[source.index("\n", declaration + 1) + 1 :]
        assert following.lstrip().startswith('"""'), field.name


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Config)])
@pytest.mark.parametrize("value", ["1", b"1", [1], float("nan"), float("inf")])
def test_values_of_the_wrong_type(field: str, value: Any) -> None:
    """A string in place of a number, or NaN, is refused with the field's name."""
    with pytest.raises(ConfigError, match=field):
        Config(**{field: value})


def test_bool_is_not_a_number() -> None:
    """In Python it is one, but `true` in a settings file does not mean a count of 1."""
    with pytest.raises(ConfigError, match="topology_acker_tasks is True: it must be int"):
        Config(topology_acker_tasks=True)


def test_number_is_not_a_bool() -> None:
    """The reverse is an error too."""
    for name in sorted(SWITCHES):
        for number in (0, 1):
            with pytest.raises(ConfigError, match=f"{name} is {number}: it must be bool"):
                Config(**{name: number})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "field", [f.name for f in dataclasses.fields(Config) if f.name not in SWITCHES | {"own"}]
)
def test_nothing_is_negative(field: str) -> None:
    """Counts and times cannot be negative."""
    with pytest.raises(ConfigError, match=f"{field} is -1"):
        Config().override(**{field: -1})


def test_settings_that_may_be_zero() -> None:
    """No ackers and no rest between polls are valid, but a timeout of zero is a mistake."""
    Config(topology_acker_executors=0, topology_sleep_spout_wait_strategy_time_ms=0)
    with pytest.raises(ConfigError, match="topology_message_timeout_secs is 0: it must be above 0"):
        Config(topology_message_timeout_secs=0)


def test_acker_tasks() -> None:
    """The number is 0 without ackers, and otherwise at least that of acker processes."""
    assert Config(topology_acker_executors=0).acker_tasks == 0
    assert Config().acker_tasks == 4
    assert Config(topology_acker_executors=6).acker_tasks == 6


def test_overrides() -> None:
    """The result is a checked copy with changes."""
    config = Config(topology_debug=True)
    changed = config.override(topology_max_spout_pending=5)
    assert (changed.topology_debug, changed.topology_max_spout_pending) == (True, 5)
    assert config.topology_max_spout_pending == 2000
    with pytest.raises(ConfigError, match="topology_max_spout_pending is 0"):
        config.override(topology_max_spout_pending=0)


def test_message_timeouts_can_be_off() -> None:
    """Then a tree never times out, and the timeout's value does not matter."""
    assert Config(topology_message_timeout_secs=5).message_timeout_secs == 5
    config = Config(topology_message_timeout_secs=5, topology_enable_message_timeouts=False)
    assert config.message_timeout_secs == math.inf
    assert config.override(topology_enable_message_timeouts=True).message_timeout_secs == 5


def test_own_settings_are_kept() -> None:
    """Names and values are free. They are read like kstorm's, and a later override adds to them."""
    greeting = object()
    config = Config(topology_debug=True, own={"greeting": "hello", "my.limit": 5})
    assert (config["greeting"], config["my.limit"], config["topology_debug"]) == ("hello", 5, True)
    assert (config.get("greeting"), config.get("nothing"), config.get("nothing", 7)) == (
        "hello",
        None,
        7,
    )
    assert "my.limit" in config
    assert "topology_debug" in config
    assert "nothing" not in config
    with pytest.raises(
        KeyError, match=r"no setting 'nothing': your own settings are greeting, my\.limit"
    ):
        config["nothing"]
    changed = config.override(greeting=greeting, topology_debug=False, get=None)
    assert changed.own == {"greeting": greeting, "my.limit": 5, "get": None}
    assert changed.override(own={"my.limit": 6}).own == {
        "greeting": greeting,
        "my.limit": 6,
        "get": None,
    }
    assert changed.topology_debug is False
    assert config.own == {"greeting": "hello", "my.limit": 5}


def test_config_with_own_settings_is_a_value() -> None:
    """It copies the given settings, and can be copied, compared and hashed."""
    given = {"names": ["a"]}
    config = Config(own=given)
    given["more"] = []
    assert config.own == {"names": ["a"]}
    assert config == Config(own={"names": ["a"]}) != Config()
    assert hash(config) == hash(Config(own={"names": ["a"]}))
    assert copy.deepcopy(config) == pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topology_max_spout_pendin", "topology_max_spout_pending"),
        ("toplogy_max_spout_pending", "topology_max_spout_pending"),
        ("topology.tick.tuple.freq.secs", "topology_tick_tuple_freq_secs"),
        ("TOPOLOGY_DEBUG", "topology_debug"),
        ("topology-debug", "topology_debug"),
        ("topology_message_timeout", "topology_message_timeout_secs"),
    ],
)
def test_a_setting_spelt_wrongly(name: str, meant: str) -> None:
    """It would otherwise have no effect and no error."""
    told = f"no setting '{name}': did you mean '{meant}'[?] The settings are .*topo"
    with pytest.raises(ConfigError, match=told):
        Config(own={name: 1})
    with pytest.raises(ConfigError, match=told):
        Config().override(**{name: 1})


def test_unknown_settings_are_rejected() -> None:
    """The prefix of kstorm is reserved. A name must be a string."""
    with pytest.raises(
        ConfigError, match="no setting 'topology_zzz': the settings are topology_acker_checkpoint"
    ):
        Config(own={"topology_zzz": 1})
    with pytest.raises(ConfigError, match="own has 'topology_debug', which is a kstorm setting"):
        Config(own={"topology_debug": 1})
    for name in ("", None, 7):
        with pytest.raises(ConfigError, match=f"{name!r} is not the name of a setting"):
            Config(own={name: 1})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="own is a list: it must be a dict"):
        Config().override(own=["a"])
