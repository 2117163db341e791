"""Checks the folders of tables and checkpoints on a local disk before Spark starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kstorm_pipeline.errors import SettingsError
from kstorm_pipeline.local_log import NeedsSparkError, local_tables, read_log
from kstorm_pipeline.setting_values import is_url, name_of
from kstorm_pipeline.table_names import LOG
from kstorm_pipeline.topic_identity import TOPIC, TOPIC_ID, another_topic, recreated

if TYPE_CHECKING:
    from kstorm_pipeline.settings import Settings

_READ: Final = ("describe", "maintain", "rebuild")
"""Commands that need tables."""
_WRITE: Final = ("run", "maintain", "rebuild", "audit")
"""Commands that write to the folder of the tables."""


def check_places(settings: Settings, command: str, topic_id: str | None) -> None:
    """Raise SettingsError if the command cannot use the folders.

    `topic_id` is the present id of the topic, None if unknown. Only Spark can check URLs.
    """
    if not is_url(settings.tables):
        _check_root(Path(settings.tables))
        if command in _READ:
            try:
                local_tables(settings.tables)
            except NeedsSparkError:
                return
        if command in _WRITE:
            _check_writable("tables", Path(settings.tables))
    if command == "run" and not is_url(settings.checkpoint_root):
        _check_writable("checkpoints", Path(settings.checkpoint_root))
        if not is_url(settings.tables):
            _check_topic(settings, topic_id)


def _check_root(root: Path) -> None:
    if (root / LOG).exists():
        raise SettingsError(
            f"{name_of('tables')} is {str(root)!r}, which is one Delta table: "
            f"give its parent folder, {str(root.parent)!r}"
        )


def _check_writable(name: str, folder: Path) -> None:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        way = "written" if there == folder else f"created, because {there} cannot be written"
        raise SettingsError(
            f"{name_of(name)} is {str(folder)!r}, which cannot be {way}: "
            "correct its permissions, or give another folder"
        )


def _check_topic(settings: Settings, topic_id: str | None) -> None:
    bronze = Path(settings.tables, "bronze")
    begun = Path(settings.checkpoint_root, "bronze", "metadata").exists()
    if not begun or not (bronze / LOG).exists():
        return
    try:
        noted = read_log(bronze).properties
    except NeedsSparkError:
        return
    if noted.get(TOPIC, settings.topic) != settings.topic:
        raise SettingsError(another_topic(settings, noted[TOPIC]))
    if topic_id is not None and noted.get(TOPIC_ID, topic_id) != topic_id:
        raise SettingsError(recreated(settings, noted[TOPIC_ID], topic_id))
