"""Pages of dead letters and events with a real Kafka: what they show and what they hide."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Page, expect

from kstorm.core.dead_letters import LetterError
from kstorm.core.origins import OriginRun
from kstorm.core.wire import VERSION, AckFrame, encode, pack_ids
from kstorm.dev.servers import EmbeddedKafka
from kstorm.events import Event
from kstorm.introspection.outline import Outline
from kstorm.operations.letters.selection import fingerprint
from kstorm.runtime.kafka.event_log import write_event
from kstorm.runtime.kafka.single_partition_topic import write_topic
from tests.integration.dead_letters import Letters
from tests.ui.conftest import OpenPage
from tests.ui.server import MadeUp, serving, topology

ROOT = 0xDEADBEEF00000011
EVIL = "<img src=x onerror=alert(1)>\u202e</script>"


@pytest.fixture(scope="module")
def letters(kafka: EmbeddedKafka) -> Letters:
    """Six dead letters, one with hostile names, and two events."""
    letters = Letters(kafka, "desk")
    letters.write(*map(letters.letter, range(3)), letters.strange(7))
    told = LetterError(
        type=EVIL, message=f"no user 'SECRET' {EVIL}", component="price", task=2, where=EVIL
    )
    letters.write(
        letters.letter(
            8, error=told, reason=EVIL, headers=[("h", "SECRET")], value=b"SECRET", key=b"SECRET"
        )
    )
    letters.write(letters.letter(9, topic="desk.count", row=2, roots=[f"{ROOT:016x}"]))
    begin_tree(letters)
    for event in (
        Event(
            at=1,
            who=EVIL,
            verb="discard",
            what="0, 1 (group d487)",
            note=EVIL,
            outcome="2 discarded",
        ),
        Event(
            at=2,
            who="lines, task 1",
            verb="replay",
            what="4 (orders/3/8)",
            outcome="failed again: no 'SECRET'",
        ),
    ):
        write_event(letters.settings, letters.name, event)
    return letters


def begin_tree(letters: Letters) -> None:
    """Write the init of the tree `ROOT`, whose message is orders/3/17."""
    acker = f"{letters.name}.__acker"
    letters.admin.create_topics([NewTopic(acker, 1, 1)])[acker].result(30)
    ids = pack_ids([ROOT - 1, ROOT])
    origins = [OriginRun("orders", 3, 1, 2, 16)]
    init = AckFrame(VERSION, 1, init_roots=ids, init_vals=ids, origins=origins)
    write_topic(letters.settings, acker, [(b"", encode(init))])


@pytest.fixture(scope="module")
def url(letters: Letters) -> Iterator[str]:
    """URL of the topology's pages."""
    components = {"lines": "spout", "price": "bolt"}
    source = MadeUp(
        topology(
            "desk",
            components,
            [],
            outline=Outline("desk", acker_tasks=1),
            bootstrap=letters.kafka.bootstrap,
            zookeeper="127.0.0.1:1",
        )
    )
    with serving(source) as found:
        yield f"{found}/t/desk"


def test_dead_letters_are_grouped_and_filtered(
    letters: Letters, url: str, open_page: OpenPage
) -> None:
    """By kind, component and text. A group links to its dead letters, a dead letter to its own
    page."""
    page = open_page(f"{url}/letters")
    groups, rows = page.locator("#groups tbody tr"), page.locator("#letters tbody tr")
    expect(groups).to_have_count(3)
    expect(rows).to_have_count(6)
    expect(groups.first).to_contain_text("ValueError")
    expect(groups.first).to_contain_text("price.py:41")
    page.get_by_label("Kind").select_option("undecodable")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1)
    page.goto(f"{url}/letters?text=valueerror")
    expect(rows).to_have_count(4)
    page.get_by_role("link", name=fingerprint(letters.letter(0)), exact=True).click()
    expect(rows).to_have_count(4)
    page.get_by_role("link", name="2", exact=True).click()
    expect(page.locator("#facts")).to_contain_text("orders/3/2")
    expect(page.locator("main")).to_contain_text("This page does not show the message's contents")


def test_dead_letter_has_the_events_of_its_message(url: str, open_page: OpenPage) -> None:
    """Also one that does not exist any more."""
    page = open_page(f"{url}/letters/4")
    expect(page.locator("#history tbody tr")).to_have_count(1)
    expect(page.locator("#history")).to_contain_text("failed again")
    answer = page.goto(f"{url}/letters/999")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator("main")).to_contain_text("has no dead letter 999")


def test_dead_letter_of_a_tuple_leads_to_its_message(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}/letters/5")
    with page.expect_response(re.compile("/m/orders/3/17")):
        page.get_by_role("link", name=f"{ROOT:016x}").click()
    expect(page).to_have_url(f"{url}/m/orders/3/17?root={ROOT:016x}")


@pytest.mark.parametrize(
    ("root", "said"),
    [("00000000000000ff", "has no tree with the root"), ("nonsense", "give a root as 16 hex")],
)
def test_root_without_a_known_message_is_explained(
    url: str, open_page: OpenPage, root: str, said: str
) -> None:
    page = open_page(f"{url}/letters")
    answer = page.goto(f"{url}/roots/{root}")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator(".bad")).to_contain_text(said)


@pytest.mark.parametrize("path", ["letters", "letters/4", "events"])
def test_names_and_notes_are_escaped(url: str, open_page: OpenPage, path: str) -> None:
    """Characters that reverse the reading direction are made visible. Message contents and error
    texts are not there."""
    page = open_page(f"{url}/{path}")
    assert page.locator("img").count() == 0
    assert "\u202e" not in page.content()
    assert "SECRET" not in page.content()
    assert "<img src=x onerror=alert" in page.locator("main").inner_text()


def test_events_are_filtered(url: str, open_page: OpenPage) -> None:
    """By action and by text, but not by hidden text."""
    page = open_page(f"{url}/events?verb=replay&text=orders%2F3%2F8")
    expect(page.locator("#events tbody tr")).to_have_count(1)
    page.goto(f"{url}/events?text=SECRET")
    expect(page.locator("#count")).to_have_text("0 events.")
    page.goto(f"{url}/letters?text=SECRET")
    expect(page.locator("#count")).to_contain_text("0 dead letters of 6")


def test_json_has_what_the_pages_show(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}/letters?text=valueerror")
    told = told_by(page, url, "letters?text=valueerror")
    assert [each["number"] for each in told["letters"]] == numbers(page, "#letters th[data-value]")
    assert [each["group"] for each in told["groups"]] == page.locator(
        "#groups tbody th"
    ).all_inner_texts()
    assert (told["all"], told["count"], told["wanted"]["text"]) == (6, 4, "valueerror")
    page.goto(f"{url}/letters/4")
    told = told_by(page, url, "letters/4")
    facts = dict(told["facts"])
    assert facts["written"] in page.locator("#facts").inner_text()
    assert told["letter"]["message"] == "orders/3/8"
    assert page.locator("#facts a").first.get_attribute("href") == told["letter"]["href"]
    assert [event["outcome"] for event in told["history"]] == ["failed again"]
    page.goto(f"{url}/events")
    told = told_by(page, url, "events")
    assert [each["verb"] for each in told["events"]] == ["replay", "discard"]
    assert page.locator("#events tbody tr").count() == told["count"] == 2
    assert told_by(page, url, "events?text=SECRET")["events"] == []
    missing = page.request.get(api(url, "letters/999"))
    assert (missing.status, list(missing.json())) == (404, ["error"])


def api(url: str, path: str) -> str:
    return f"{url.replace('/t/', '/api/v1/t/')}/{path}"


def told_by(page: Page, url: str, path: str) -> Any:
    answer = page.request.get(api(url, path))
    assert answer.status == 200
    assert "\u202e" not in answer.text()
    # only the echoed filter has it
    assert "SECRET" not in answer.text().replace('"text":"SECRET"', "")
    return answer.json()


def numbers(page: Page, cells: str) -> list[int]:
    return [int(text) for text in page.locator(cells).all_inner_texts()]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_dead_letters_and_events(
    url: str, open_page: OpenPage, violations: Callable[[Page], list[str]], scheme: str
) -> None:
    page = open_page(f"{url}/letters", color_scheme=scheme)
    found = []
    for path in ("letters", "letters?text=nothing", "letters/4", "letters/999", "events"):
        page.goto(f"{url}/{path}")
        found += violations(page)
    assert found == []


@pytest.mark.slow
def test_contents_are_shown_if_values_are(letters: Letters, open_page: OpenPage) -> None:
    """On the page of a dead letter, whose list has pages of 50."""
    report = topology(
        "desk", {"lines": "spout"}, [], bootstrap=letters.kafka.bootstrap, zookeeper="127.0.0.1:1"
    )
    with serving(MadeUp(report), show_values=True) as url:
        page = open_page(f"{url}/t/desk/letters/4")
        expect(page.locator("#contents")).to_contain_text("SECRET")
        expect(page.locator("#contents")).to_contain_text("no user")
        assert page.locator("img").count() == 0
        letters.write(*(letters.letter(offset) for offset in range(100, 200)))
        page.goto(f"{url}/t/desk/letters?text=valueerror&page=2")
        expect(page.locator("#letters tbody tr")).to_have_count(50)
        expect(page.locator(".pages")).to_contain_text("Page 2 of 3")
        page.locator(".pages").get_by_role("link", name="Older").click()
        expect(page.locator("#letters tbody tr")).to_have_count(4)
