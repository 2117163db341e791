"""Previews an action for its confirmation page."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from kstorm.errors import ConfigError, ControlError
from kstorm.introspection.outline import Outline
from kstorm.operations.letters.discarding import check_discardable
from kstorm.operations.letters.reading import read_one
from kstorm.operations.letters.replaying import replayable
from kstorm.operations.letters.selection import NumberedLetter
from kstorm.printable import printable
from kstorm.runtime.base.settings import Settings
from kstorm_ui.action_forms import runs_by_pod
from kstorm_ui.letter_selection import SelectedLetters, selected_by
from kstorm_ui.operator_actions import why_no_edit
from kstorm_ui.site import NOT_TOLD, Site, no_outline
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import settings_of

_OF_LETTERS: Final = ("replay", "edit", "discard")


class Preview(msgspec.Struct, frozen=True):
    """Contents of an action's page. With a `problem` the page has no form."""

    problem: str = ""
    selected: SelectedLetters | None = None
    letters: Sequence[NumberedLetter] = ()
    others: Mapping[str, int] = {}
    """Reasons why selected dead letters are left out, with their counts."""
    value: str | None = None
    """Value of the message to edit. None if a form cannot hold it, because it is not text."""


async def preview(
    site: Site, state: TopologyState, verb: str, fields: Mapping[str, str]
) -> Preview:
    """Preview an action. Raises `ConfigError` or `ControlError` with the reason why it is not
    possible."""
    if verb not in _OF_LETTERS:
        if settings_of(state.bootstrap, state.zookeeper) is None and not runs_by_pod(site, verb):
            raise ConfigError(NOT_TOLD)
        return Preview()
    selected = selected_by(fields)
    if verb == "edit":
        if selected.number is None:
            raise ConfigError("Choose one dead letter")
        if state.outline is None:
            raise ConfigError(no_outline(state.name))
        ask = partial(_edited, outline=state.outline, selected=selected)
    else:
        ask = partial(_replayed if verb == "replay" else _discarded, selected=selected)
    found, problem = await site.ask_kafka((verb, selected), state, ask)
    return Preview(problem=problem) if found is None else found


def _replayed(settings: Settings, topology: str, selected: SelectedLetters) -> Preview:
    letters, others = replayable(
        settings, topology, selected.letters(settings, topology), force=False
    )
    if not letters:
        raise ControlError(f"None of these dead letters can be replayed: {'; '.join(others)}")
    return _of(selected, letters, others)


def _discarded(settings: Settings, topology: str, selected: SelectedLetters) -> Preview:
    letters = selected.letters(settings, topology)
    check_discardable(topology, letters)
    return _of(selected, letters, {})


def _edited(
    settings: Settings, topology: str, outline: Outline, selected: SelectedLetters
) -> Preview:
    one = read_one(settings, topology, selected.number or 0)
    if why := why_no_edit(settings, outline, one):
        raise ControlError(f"{one.number} cannot be edited: {why}")
    return Preview(selected=selected, letters=[one], value=form_text(one.letter.value))


def _of(
    selected: SelectedLetters, letters: Sequence[NumberedLetter], others: Mapping[str, int]
) -> Preview:
    """Preview a selection, limited to dead letters that exist now."""
    return Preview(
        selected=selected.upto(max(one.number for one in letters)), letters=letters, others=others
    )


def form_text(value: bytes | None) -> str | None:
    """Return the text of a value if a form would submit the same bytes.

    A form changes line ends, and displays text with control characters escaped.
    """
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if text == printable(text) and "\r" not in text else None
