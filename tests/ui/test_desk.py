"""Actions on a topology on real servers, through forms, with the effect of the command."""

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.events import Event
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.event_log import read_events
from kstorm.runtime.kafka.single_partition_topic import bounds
from kstorm_ui.ui_settings import ACTIONS
from tests.conftest import Eventually
from tests.ui.conftest import OpenPage
from tests.ui.running import Running, running_beside_page
from tests.ui.waiting import press_until

_MS = 60_000
_WHO = "anna@laptop"


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File that exists as soon as the bolt knows all words."""
    return tmp_path_factory.mktemp("mended") / "mended"


@pytest.fixture(scope="module")
def running(
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
    mended: Path,
) -> Iterator[Running]:
    """A topology with a bolt that does not know all words, and a web UI with all actions."""
    name, place = f"desk-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("desk")
    settings = {
        "KSTORM_UI_ACTIONS": ",".join(ACTIONS),
        "KSTORM_UI_SHOW_VALUES": "true",
        "KSTORM_OPERATOR": _WHO,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSTORM_TEST_MENDED", str(mended))
        with running_beside_page("mendable", name, kafka, zookeeper, place, settings) as found:
            yield found


@pytest.fixture
def fresh_letters(running: Running, mended: Path, eventually: Eventually) -> Callable[..., None]:
    """Return a function that makes dead letters, and then lets the bolt know all words."""

    def written() -> int:
        return (bounds(settings_of(running), f"{running.name}.__dead_letters") or (0, 0))[1]

    def make(*messages: bytes) -> None:
        mended.unlink(missing_ok=True)
        before = written()
        producer = Producer({"bootstrap.servers": running.engine.bootstrap, "log_level": 0})
        for message in messages:
            producer.produce(running.engine.source, message, partition=0)
        assert producer.flush(30) == 0
        eventually(lambda: written() >= before + len(messages), 60.0)
        mended.touch()

    return make


def settings_of(running: Running) -> Settings:
    return Settings(topology="", bootstrap_servers=running.engine.bootstrap)


def events(running: Running) -> list[Event]:
    return list(read_events(settings_of(running), running.name))


def shown_letters(page: Page, running: Running, count: int, eventually: Eventually) -> None:
    """Open the dead letters page, and wait until it has `count` of them."""
    page.goto(f"{running.page}/letters")
    rows = page.locator("#letters tbody tr")
    eventually(lambda: rows.count() == count or (page.reload() and False), 60.0)


def test_dead_letter_is_replayed_by_keyboard(
    running: Running,
    fresh_letters: Callable[..., None],
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """From the list to the end of the replay, which appears without a reload. Then the dead letter
    is gone. axe finds nothing."""
    fresh_letters(b"bad")
    page = open_page(running.page)
    shown_letters(page, running, 1, eventually)
    found = violations(page)
    press_until(page, "Tab", page.locator("#letters tbody th a"))
    page.keyboard.press("Enter")
    press_until(page, "Tab", page.get_by_role("link", name="Replay it"))
    found += violations(page)
    page.keyboard.press("Enter")
    expect(page.locator("#selected")).to_contain_text(f"failed, {running.engine.source}/0/")
    found += violations(page)
    press_until(page, "Tab", page.get_by_label("Why"))
    page.keyboard.type("the word is known")
    press_until(page, "Tab", page.get_by_role("button", name="Replay it"))
    page.keyboard.press("Enter")
    actions = page.locator("#background-actions li")
    expect(actions).to_contain_text(
        re.compile(rf"replay \d+, {_WHO}, by the web UI: done; 1 replay requested: done"),
        timeout=_MS,
    )
    assert found + violations(page) == []
    page.reload()
    expect(page.locator("main")).to_contain_text("has no dead letter")
    expect(page.locator("#history")).to_contain_text(f"requested by {_WHO}, by the web UI")
    asked = [
        (event.who, event.note, event.outcome)
        for event in events(running)
        if event.who.startswith(_WHO)
    ]
    assert asked[-1] == (f"{_WHO}, by the web UI", "the word is known", "1 replay requested")
    shown_letters(page, running, 0, eventually)


def test_deactivate_activate_drain(
    running: Running, open_page: OpenPage, violations: Callable[[Page], list[str]]
) -> None:
    """Each form explains its action first. The page shows the result, and an event records the
    operator."""
    page, found = open_page(running.page), list[str]()
    for link, state, said in (
        (
            "Deactivate",
            "Deactivated: its spouts emit nothing.",
            "is deactivated: 1 spout process, nothing in flight",
        ),
        ("Activate", "Active.", "is active again: 1 spout process"),
        (
            "Drain",
            "Deactivated: its spouts emit nothing.",
            "is drained: 1 spout process, nothing in flight",
        ),
        ("Activate", "Active.", "is active again: 1 spout process"),
    ):
        page.get_by_role("link", name=re.compile(f"^{link}…")).click()
        found += violations(page) if link == "Drain" else []
        page.get_by_role("button", name=link).click()
        expect(page.locator("#background-actions li").first).to_contain_text(said, timeout=_MS)
        expect(page.locator("#active")).to_have_text(state, timeout=_MS)
    assert found + violations(page) == []
    noted = [(event.verb, event.who, event.outcome) for event in events(running)][-4:]
    verbs = ("deactivate", "activate", "drain", "activate")
    assert noted == [(verb, f"{_WHO}, by the web UI", "done") for verb in verbs]


@pytest.mark.slow
def test_a_group_is_discarded(
    running: Running,
    fresh_letters: Callable[..., None],
    open_page: OpenPage,
    eventually: Eventually,
) -> None:
    """Only the dead letters that existed when the form was shown. It works without scripts."""
    fresh_letters(b"bad", b"bad")
    page = open_page(running.page, java_script_enabled=False)
    shown_letters(page, running, 2, eventually)
    expect(page.get_by_role("link", name="Discard these")).to_have_count(0)
    page.locator("#groups tbody th a").click()
    page.get_by_role("link", name="Discard these").click()
    expect(page.locator("h1")).to_contain_text("Discard 2 dead letters")
    fresh_letters(b"bad")
    page.get_by_role("button", name="Discard them").click()
    shown_letters(page, running, 1, eventually)
    action = page.locator("#background-actions li").first
    eventually(lambda: "under way" not in action.inner_text() or (page.reload() and False), 60.0)
    expect(action).to_contain_text("done; 2 discarded")
    assert re.fullmatch(r"\d+, \d+ \(group [0-9a-f]{8}\)", events(running)[-1].what)
    page.get_by_role("link", name="Replay these").click()
    page.get_by_label("Messages per second").fill("nonsense")
    page.get_by_role("button", name="Replay them").click()
    expect(page.get_by_role("alert")).to_have_text(
        "rate: 'nonsense' is not a number from 0 to 1,000,000,000"
    )
    page.get_by_label("Messages per second").fill("50")
    page.get_by_role("button", name="Replay them").click()
    shown_letters(page, running, 0, eventually)


@pytest.mark.slow
def test_message_is_edited(
    running: Running,
    fresh_letters: Callable[..., None],
    mended: Path,
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """The form of a value that is not text is empty. A value that fails again is in the new dead
    letter, byte for byte."""
    fresh_letters(b"no text: \xff")
    mended.unlink()
    page = open_page(running.page, color_scheme="dark")

    def edit(value: str, before: str) -> None:
        shown_letters(page, running, 1, eventually)
        page.locator("#letters tbody th a").click()
        page.get_by_role("link", name="Edit it").click()
        expect(page.get_by_label("New value")).to_have_value(before)
        assert violations(page) == []
        page.get_by_label("New value").fill(value)
        page.get_by_role("button", name="Edit it").click()

    action = page.locator("#background-actions li").first
    edit("\n bad\nlines", "")
    expect(action).to_contain_text("1 replay requested: failed again", timeout=_MS)
    edit("known words", "\n bad\nlines")
    expect(action).to_contain_text("1 replay requested: done", timeout=_MS)
    shown_letters(page, running, 0, eventually)
