"""The web UI of a local run."""

from pathlib import Path

import pytest

from kstorm.dev.web_ui import web_ui
from kstorm.errors import ConfigError


def test_invalid_setting_is_reported_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command reports it, because users do not read the log of a web UI that does not respond."""
    monkeypatch.setenv("KSTORM_UI_ACTIONS", "reply")
    with pytest.raises(ConfigError, match="KSTORM_UI_ACTIONS has 'reply'"), web_ui(tmp_path):
        pass
