"""Parses the form of an action into the action to run."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kstorm.errors import ConfigError
from kstorm.operations.control.activation import timeout_option
from kstorm_ui import operator_actions
from kstorm_ui.background_actions import Act
from kstorm_ui.letter_selection import SelectedLetters, selected_by
from kstorm_ui.operator_actions import ActionTarget
from kstorm_ui.site import NOT_TOLD, Site, no_outline
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import settings_of

MOST_PODS: Final = 99_999
_MOST: Final = 10**9
_MOST_NOTE: Final = 2_000
_BY_POD: Final = ("activate", "deactivate", "drain", "scale")


class RequestedAction(NamedTuple):
    """An action to run."""

    what: str
    """The object of the action, if it is not the whole topology."""
    act: Act
    selected: SelectedLetters | None = None
    """The selected dead letters, if the action applies to dead letters."""


def requested_action(
    site: Site, state: TopologyState, verb: str, fields: Mapping[str, str], who: str
) -> RequestedAction:
    """Parse the form of an action. Raises `ConfigError`, naming the field and its valid values."""
    settings = settings_of(state.bootstrap, state.zookeeper)
    if verb == "scale" and site.cluster is not None:
        component, pods = fields.get("component", ""), _whole(fields, "pods", 0, MOST_PODS)
        if state.component(component) is None or pods is None:
            raise ConfigError("Choose a component, and enter its number of pods")
        return RequestedAction(
            f"{component} to {pods}",
            operator_actions.scale(site.cluster, settings, state.name, who, component, pods),
        )
    if settings is None:
        return _run_by_pod(site, state, verb, fields, who)
    where = ActionTarget(settings, state.name, who)
    match verb:
        case "activate":
            return RequestedAction("", operator_actions.activate(where))
        case "deactivate":
            return RequestedAction("", operator_actions.deactivate(where))
        case "drain":
            return RequestedAction("", operator_actions.drain(where, _number(fields, "timeout")))
    selected, note = selected_by(fields), fields.get("note", "").strip()[:_MOST_NOTE]
    match verb:
        case "replay":
            rate, limit = _number(fields, "rate"), _whole(fields, "limit", 1, _MOST)
            if rate is not None and rate < 0.001:
                raise ConfigError(
                    f"rate: {fields['rate']!r}: give 0.001 per second or more, or nothing"
                )
            act = operator_actions.replay(
                where, selected, rate=rate, limit=limit, note=note, by_stages="stages" in fields
            )
        case "edit":
            if selected.number is None:
                raise ConfigError("Choose one dead letter")
            if state.outline is None:
                raise ConfigError(no_outline(state.name))
            value = fields.get("value", "").replace("\r\n", "\n").encode()
            act = operator_actions.edit(where, state.outline, selected.number, value, note)
        case _:
            if selected.number is None and not selected.wanted.group:
                raise ConfigError("Choose one dead letter, or a group")
            act = operator_actions.discard(where, selected, note)
    return RequestedAction(str(selected), act, selected)


def _run_by_pod(
    site: Site, state: TopologyState, verb: str, fields: Mapping[str, str], who: str
) -> RequestedAction:
    if not runs_by_pod(site, verb) or site.cluster is None:
        raise ConfigError(NOT_TOLD)
    timeout = _number(fields, "timeout") if verb == "drain" else None
    return RequestedAction(
        "", operator_actions.by_pod(site.cluster, state.name, who, verb, *timeout_option(timeout))
    )


def runs_by_pod(site: Site, verb: str) -> bool:
    """Return True if a pod can run the action, so that this process does not need Kafka's address:
    for a whole topology on Kubernetes."""
    return site.cluster is not None and verb in _BY_POD


def _number(fields: Mapping[str, str], name: str) -> float | None:
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= _MOST:
        raise ConfigError(f"{name}: {text!r} is not a number from 0 to {_MOST:,}")
    return found


def _whole(fields: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    found = _number(fields, name)
    if found is None:
        return None
    if found != int(found) or not least <= found <= most:
        raise ConfigError(
            f"{name}: {fields[name]!r}: give a whole number from {least:,} to {most:,}"
        )
    return int(found)
