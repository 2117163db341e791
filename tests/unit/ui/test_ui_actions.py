"""Actions: parsing of forms, and the list of background actions. Without servers."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kstorm.core.dead_letters import DeadLetter
from kstorm.errors import ConfigError, ControlError
from kstorm.operations.letters.selection import CurrentLetters, NumberedLetter
from kstorm.runtime.base.settings import Settings
from kstorm_ui import action_forms, available_actions, letter_selection, operator_actions
from kstorm_ui.background_actions import MOST_KEPT, BackgroundAction, BackgroundActions
from kstorm_ui.collector import Collector
from kstorm_ui.letter_selection import selected_by
from kstorm_ui.preview import form_text
from kstorm_ui.query_cache import QueryCache
from kstorm_ui.site import Site
from kstorm_ui.sources.newest_letters import FoundLetters
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import ACTIONS, from_environment
from tests.ui.server import MadeUp, topology

SETTINGS = Settings(topology="", bootstrap_servers="nowhere:1")


@pytest.fixture
def state() -> TopologyState:
    """A topology after one poll."""
    source = MadeUp(topology("shop", {"lines": "spout"}, [], bootstrap="nowhere:1"))
    collector = Collector(source)
    collector._learn(collector._ask())
    return collector.memories["shop"].state


@pytest.fixture
def site() -> Site:
    """A web UI for this machine that may run all actions."""
    return Site(Collector(MadeUp()), True, frozenset(ACTIONS))


def test_actions_are_a_comma_separated_list() -> None:
    """By default there are none. An unknown name is refused."""
    assert from_environment({}).actions == frozenset()
    assert from_environment({"KSTORM_UI_ACTIONS": "drain, replay"}).actions == {"drain", "replay"}
    with pytest.raises(
        ConfigError, match="KSTORM_UI_ACTIONS has 'kill, replya': choose from activate,deactivate"
    ):
        from_environment({"KSTORM_UI_ACTIONS": "replya,drain,kill"})


def test_edit_needs_show_values() -> None:
    with pytest.raises(ConfigError, match="set KSTORM_UI_SHOW_VALUES=true, or leave edit out"):
        from_environment({"KSTORM_UI_ACTIONS": "edit"})
    assert from_environment(
        {"KSTORM_UI_ACTIONS": "edit", "KSTORM_UI_SHOW_VALUES": "true"}
    ).actions == {"edit"}


@pytest.mark.parametrize(
    ("verb", "fields", "said"),
    [
        ("drain", {"timeout": "-1"}, "timeout: '-1' is not a number from 0 to 1,000,000,000"),
        ("drain", {"timeout": "nan"}, "timeout: 'nan' is not a number"),
        ("drain", {"timeout": "1e99"}, "timeout: '1e99' is not a number"),
        ("replay", {"limit": "0"}, "limit: '0': give a whole number from 1"),
        ("replay", {"limit": "1.5"}, "limit: '1.5': give a whole number from 1"),
        ("replay", {"rate": "0"}, "rate: '0': give 0.001 per second or more"),
        ("replay", {"number": "٣"}, "number: '٣' is not the number of a dead letter"),
        ("replay", {"until": "-1"}, "until: '-1' is not the number of a dead letter"),
        ("discard", {}, "Choose one dead letter, or a group"),
        ("discard", {"kind": "failed"}, "Choose one dead letter, or a group"),
        ("edit", {"value": "x"}, "Choose one dead letter"),
    ],
)
def test_invalid_fields_are_rejected(
    site: Site, state: TopologyState, verb: str, fields: dict[str, str], said: str
) -> None:
    """The message has the field, its value, and the valid values."""
    with pytest.raises(ConfigError, match=said):
        action_forms.requested_action(site, state, verb, fields, "anna")


def test_form_fields_are_parsed(
    site: Site, state: TopologyState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value gets the line ends that it had before the browser submitted it."""
    given: list[Any] = []
    for name in ("replay", "edit", "drain"):
        monkeypatch.setattr(
            operator_actions, name, lambda *words, **more: given.append((words[1:], more))
        )
    action_forms.requested_action(site, state, "drain", {"timeout": " 2.5 "}, "anna")
    fields = {
        "rate": "50",
        "limit": "3",
        "note": " mended ",
        "stages": "on",
        "kind": "failed",
        "until": "9",
    }
    assert (
        action_forms.requested_action(site, state, "replay", fields, "anna").what == "kind failed"
    )
    action_forms.requested_action(site, state, "edit", {"number": "7", "value": "a\r\nb\n"}, "anna")
    assert given[0] == ((2.5,), {})
    assert given[1] == (
        (selected_by(fields),),
        {"rate": 50.0, "limit": 3, "note": "mended", "by_stages": True},
    )
    assert given[2][0] == (state.outline, 7, b"a\nb\n", "")


def test_later_dead_letters_are_not_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form has the number of the last dead letter that existed when it was shown."""
    letter = DeadLetter(topology="shop", component="lines", task=0, reason="failed", kind="failed")
    there = [NumberedLetter(number, letter) for number in (1, 4, 9)]
    monkeypatch.setattr(letter_selection, "letters_of", lambda *_: FoundLetters(there, False))
    monkeypatch.setattr(letter_selection, "read_letters", lambda *_: CurrentLetters(there))
    shown = selected_by({"kind": "failed"}).upto(4)
    assert selected_by(shown.fields) == shown
    assert [one.number for one in shown.letters(SETTINGS, "shop")] == [1, 4]
    assert [one.number for one in selected_by({"number": "9"}).letters(SETTINGS, "shop")] == [9]
    assert selected_by({"number": "9"}).query == "?number=9"
    for fields in ({"number": "2"}, {"kind": "timed_out"}):
        with pytest.raises(ControlError, match="has no dead letter that matches the selection"):
            selected_by(fields).letters(SETTINGS, "shop")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"a\nb", "a\nb"),
        (None, ""),
        (b"\xff", None),
        (b"a\r\nb", None),
        ("\u202ea".encode(), None),
        (b"\0", None),
    ],
)
def test_form_shows_only_values_that_it_submits_unchanged(
    value: bytes | None, text: str | None
) -> None:
    assert form_text(value) == text


def test_many_are_discarded_only_by_group() -> None:
    """Only allowed actions are offered."""
    assert available_actions.on_letters(frozenset(ACTIONS), "") == ["replay"]
    assert available_actions.on_letters(frozenset(ACTIONS), "d487") == ["replay", "discard"]
    assert available_actions.on_letter(frozenset({"edit"})) == ["edit"]
    assert available_actions.on_topology(frozenset(), active=True) == []
    assert all(map(available_actions.about, ACTIONS))


class Held:
    """An action that runs until it is released."""

    def __init__(self, outcome: Callable[[], str] = lambda: "all is well") -> None:
        self.released, self._outcome = threading.Event(), outcome

    def __call__(self, action: BackgroundAction) -> str:
        action.wait(lambda: "" if self.released.is_set() else "3 in flight", 60)
        return self._outcome()


def test_one_action_of_a_kind_per_topology() -> None:
    """Actions of another kind, or of another topology, run at the same time."""
    actions, held = BackgroundActions(), Held()
    action = actions.start("shop", "drain", "", "anna", held)
    with pytest.raises(
        ControlError, match=r"drain is already under way: anna started it at .* UTC"
    ):
        actions.start("shop", "drain", "", "bert", held)
    others = [
        actions.start("shop", "replay", "", "bert", held),
        actions.start("mill", "drain", "", "bert", held),
    ]
    held.released.set()
    assert all(each.over.wait(60) for each in (action, *others))
    assert (action.state, action.said) == ("done", "all is well")
    assert actions.start("shop", "drain", "", "bert", held).over.wait(60)
    assert [each.who for each in actions.of("shop")] == ["bert", "bert", "anna"]


def test_last_twenty_actions_are_kept() -> None:
    """Actions that still run are kept too."""
    actions, held = BackgroundActions(), Held()
    first = actions.start("shop", "drain", "", "anna", held)
    for number in range(MOST_KEPT + 5):
        assert actions.start("shop", "replay", str(number), "anna", lambda action: "").over.wait(60)
    assert len(actions.of("shop")) == MOST_KEPT + 1
    assert actions.of("shop")[-1] is first
    held.released.set()


def test_failed_action_has_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    """The traceback of an unexpected error is in the web UI's log."""

    def refuse() -> str:
        raise ControlError("the spout has died")

    ended = threading.Event()
    actions, held = BackgroundActions(ended.set), Held(refuse)
    held.released.set()
    action = actions.start("shop", "drain", "", "anna", held)
    assert action.over.wait(60)
    assert (action.state, action.said) == ("failed", "the spout has died")
    assert ended.wait(60)
    broken = actions.start("shop", "drain", "", "anna", lambda action: str(1 // 0))
    assert broken.over.wait(60)
    assert broken.said == "ZeroDivisionError: see the web UI's log"
    assert "ZeroDivisionError" in caplog.text


def test_shutdown_ends_waiting_actions() -> None:
    """They end with a reason, so that an event can record it."""
    actions, held = BackgroundActions(), Held()
    action = actions.start("shop", "drain", "", "anna", held)
    actions.close()
    assert action.over.is_set()
    assert (action.state, action.said) == (
        "failed",
        "the web UI stopped during the wait; 3 in flight",
    )


async def test_actions_discard_cached_answers() -> None:
    asked, answers = QueryCache(1), iter(range(3))
    assert await asked.answer("letters", lambda: next(answers)) == (0, "")
    assert await asked.answer("letters", lambda: next(answers)) == (0, "")
    asked.forget()
    assert await asked.answer("letters", lambda: next(answers)) == (1, "")
