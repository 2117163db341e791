"""The page beside a run of this machine."""

from pathlib import Path

import pytest

from kstorm.errors import ConfigError
from kstorm.local.page import page


def test_what_the_page_cannot_be_told_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever starts it, as nobody reads the log of a page that does not answer."""
    monkeypatch.setenv("KSTORM_UI_ACTIONS", "reply")
    with pytest.raises(ConfigError, match="KSTORM_UI_ACTIONS has 'reply'"), page(tmp_path):
        pass
