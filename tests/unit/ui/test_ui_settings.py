"""The page's settings: what cannot work is one line, and nobody is let in by mistake."""

from pathlib import Path

import pytest

from kstorm.errors import ConfigError
from kstorm_ui.settings import from_environment


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "page.example"])
def test_where_others_reach_it_it_has_a_login(host: str) -> None:
    """A token or a proxy's header; at this machine's own addresses neither is needed."""
    with pytest.raises(ConfigError, match="set KSTORM_UI_TOKEN_FILE or KSTORM_UI_USER_HEADER"):
        from_environment({"KSTORM_UI_HOST": host})
    assert (
        from_environment({"KSTORM_UI_HOST": host, "KSTORM_UI_USER_HEADER": "X-User"}).host == host
    )
    assert from_environment({"KSTORM_UI_HOST": "127.0.0.1"}).host == "127.0.0.1"


@pytest.mark.parametrize("port", ["x", "-1", "70000"])
def test_a_port_is_a_number(port: str) -> None:
    with pytest.raises(ConfigError, match=f"KSTORM_UI_PORT is '{port}'"):
        from_environment({"KSTORM_UI_PORT": port})


def test_values_are_shown_only_if_that_is_said() -> None:
    """By a word that leaves no doubt."""
    assert not from_environment({}).show_values
    assert not from_environment({"KSTORM_UI_SHOW_VALUES": "false"}).show_values
    assert from_environment({"KSTORM_UI_SHOW_VALUES": "true"}).show_values
    with pytest.raises(ConfigError, match="KSTORM_UI_SHOW_VALUES is 'yes': give true or false"):
        from_environment({"KSTORM_UI_SHOW_VALUES": "yes"})


def test_logs_are_shown_of_this_machine_to_this_machine() -> None:
    """Else only if that is said; and not if the contrary is."""
    here, login = (
        {"KSTORM_UI_RUNS": ".kstorm/runs"},
        {"KSTORM_UI_HOST": "0.0.0.0", "KSTORM_UI_USER_HEADER": "X-User"},
    )
    assert from_environment(here).shows_logs
    assert not from_environment({**here, **login}).shows_logs
    assert not from_environment({}).shows_logs
    assert from_environment({**login, "KSTORM_UI_LOGS": "true"}).shows_logs
    assert not from_environment({**here, "KSTORM_UI_LOGS": "false"}).shows_logs
    with pytest.raises(ConfigError, match="KSTORM_UI_LOGS is '1': give true or false"):
        from_environment({"KSTORM_UI_LOGS": "1"})


def test_a_token_is_long_and_in_a_file(tmp_path: Path) -> None:
    """Without the space around it."""
    file = tmp_path / "token"
    settings = from_environment({"KSTORM_UI_TOKEN_FILE": str(file)})
    with pytest.raises(ConfigError, match="cannot be read"):
        settings.token()
    file.write_text("short\n")
    with pytest.raises(ConfigError, match="shorter than 16 characters"):
        settings.token()
    file.write_text("a token of twenty-odd characters\n")
    assert settings.token() == "a token of twenty-odd characters"
    assert from_environment({}).token() == ""
