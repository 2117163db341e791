"""The page of a topology that runs on real servers: what moves, and what dies, is seen."""

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect

from tests.conftest import Eventually
from tests.ui.conftest import OpenPage
from tests.ui.running import Running
from tests.ui.waiting import arrives

_SEEN_MS = 30_000


def executed(page: Page, component: str) -> int:
    row = page.locator(
        "#components tbody tr", has=page.get_by_role("rowheader", name=component, exact=True)
    )
    return int(row.locator("td").nth(4).inner_text().replace(",", ""))


def test_the_first_page_leads_to_the_topology(running: Running, open_page: OpenPage) -> None:
    """By its name, with how many processes it has."""
    page = open_page(running.url)
    expect(page.get_by_role("cell", name="5 of 5")).to_be_visible(timeout=_SEEN_MS)
    page.get_by_role("link", name=running.name).click()
    expect(page).to_have_title(f"{running.name} · kstorm")


def test_the_graph_has_the_components_and_their_rates(
    running: Running, open_page: OpenPage
) -> None:
    """Each a link to its own page; lines between those that are connected, wider where more flows."""
    page = open_page(running.page)
    graph = page.locator("#graph")
    for component, kind in (
        ("sentences", "spout"),
        ("split", "bolt"),
        ("count", "bolt"),
        ("sink", "bolt"),
        ("__acker", "acker"),
    ):
        expect(graph.get_by_role("link", name=f"{component}, {kind}")).to_be_visible()
    expect(graph.get_by_role("img", name="sentences to split")).to_have_count(1)
    expect(graph.get_by_role("img", name="split to count")).to_have_attribute(
        "aria-label", re.compile("fields word")
    )
    expect(graph.get_by_role("img")).to_have_count(3)
    expect(
        graph.get_by_role("link", name=re.compile(r"^split, bolt, [1-9][\d,.]* tuples a second"))
    ).to_be_visible(timeout=_SEEN_MS)
    widths = "edges => edges.map(edge => parseFloat(edge.querySelector('path').style.strokeWidth))"
    first, second, _ = graph.locator("g[role=img]").evaluate_all(widths)
    assert second > first, "ten words a sentence flow behind split"
    graph.get_by_role("link", name="count, bolt").click()
    expect(page).to_have_title(f"count · {running.name} · kstorm")


def test_the_tables_figures_move_by_themselves(running: Running, open_page: OpenPage) -> None:
    """Without the page being loaded again; the chart gets its points too."""
    page = open_page(running.page)
    expect(page.locator("#components")).to_contain_text("__acker")
    before = executed(page, "count")
    page.wait_for_function(
        "before => Number(document.querySelectorAll('#components tbody tr')[2].cells[5].dataset.value) > before",
        arg=before,
        timeout=_SEEN_MS,
    )
    assert executed(page, "count") > before
    expect(page.locator(".plot canvas")).to_be_visible()


def test_lag_is_asked_of_kafka(running: Running, open_page: OpenPage) -> None:
    """By task: each has a partition of its own."""
    page = open_page(f"{running.page}/c/count")
    cells = page.locator("#tasks tbody tr td:nth-child(3)")
    expect(cells).to_have_count(4)
    expect(cells.first).to_have_text(re.compile(r"^[\d,]+$"), timeout=_SEEN_MS)


def test_a_killed_process_is_seen(running: Running, open_page: OpenPage) -> None:
    """It is named while it is gone, and said aloud; when it is back it is well, and its page says that it started twice. What it
    had counted stays counted."""
    page = open_page(f"{running.page}?window=all")
    health = page.locator("#health")
    expect(health).to_have_text("All 5 processes do their share.", timeout=_SEEN_MS)
    before = executed(page, "count")
    running.engine.worker("count-0").process.kill()
    expect(health).to_contain_text("count-0", timeout=_SEEN_MS)
    assert health.get_attribute("role") == "status"
    expect(page.locator("#graph .down")).to_have_attribute(
        "aria-label", re.compile(r"^count, .*0/1 processes ready")
    )
    expect(page.locator("#held")).to_contain_text("no process of count is ready")
    expect(page.locator("#graph .held")).to_have_attribute(
        "aria-label", re.compile("^split to count.*held back")
    )
    expect(health).to_have_text("All 5 processes do their share.", timeout=60_000)
    assert executed(page, "count") >= before
    page.goto(f"{running.page}/c/count")
    expect(page.locator("#processes tbody tr td:nth-child(5)")).to_have_text("2")
    page.get_by_role("link", name="Log of count-0").click()
    expect(page.locator("pre")).to_have_count(
        2
    )  # a click does not wait for the page that it leads to
    newest, past = page.locator("pre").all_inner_texts()
    assert (
        "--- count-0, start 1: " in past,
        "start 2: " in past,
        "--- count-0, start 2: " in newest,
    ) == (
        True,
        False,
        True,
    )
    told = page.request.get(page.url.replace("/t/", "/api/v1/t/")).json()
    assert [life["name"] for life in told["lives"]] == ["start 2", "start 1"]


def test_the_sources_have_their_partitions(
    running: Running, open_page: OpenPage, eventually: Eventually
) -> None:
    """With what Kafka and ZooKeeper say of each, and who reads it."""
    page = open_page(running.page)
    page.get_by_role("link", name="Sources").click()
    rows = page.locator("#partitions-1 tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.first).to_contain_text("of 'sentences'")
    assert int(rows.first.locator("td").nth(1).inner_text().replace(",", "")) > 0
    told = page.request.get(f"{running.url}/api/v1/t/{running.name}/sources").json()
    [spout] = told["spouts"]
    assert (spout["component"], spout["topic"], spout["problem"]) == (
        "sentences",
        running.engine.source,
        "",
    )
    assert [each["owner"] for each in spout["partitions"]] == rows.locator(
        "td:nth-child(6)"
    ).all_inner_texts()
    links = rows.get_by_role("link")
    eventually(
        lambda: links.count() or (page.reload() and False), 60.0
    )  # there is none while all is done
    expect(links.first).to_have_attribute(
        "href", re.compile(f"/m/{running.engine.source}/[0-5]/[0-9]+$")
    )


def test_a_message_has_its_tree(
    running: Running,
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """Proven, with a row for each tuple, and nothing of what they hold."""
    page = open_page(f"{running.page}/m/{running.engine.source}/0/3")
    done = page.locator("#verdict", has_text=re.compile("^done"))
    eventually(lambda: done.count() or (page.reload() and False), 60.0)
    expect(page.locator("#headline")).to_contain_text(
        f"{running.engine.source}/0/3 attempt 1, root "
    )
    expect(page.locator("#headline")).to_contain_text("✓ complete, proven (init ⊕")
    rows = page.locator("#tree tbody tr")
    expect(rows.first.get_by_role("rowheader")).to_have_text(re.compile(r"^sentences:\d+$"))
    expect(rows.nth(1).get_by_role("rowheader")).to_have_text(re.compile(r"^split:\d+$"))
    expect(page.locator("#tree")).to_contain_text("critical path")
    assert all(
        float(rect.get_attribute("width") or 0) > 0 for rect in page.locator("#tree rect").all()
    )
    assert "moon" not in page.content()
    assert violations(page) == []
    told = page.request.get(f"{running.url}/api/v1/t/{running.name}/m/{running.engine.source}/0/3")
    assert [tree["outcome"] for tree in told.json()["trees"]] == ["acked"]
    assert told.json()["verdict"]["kind"] == "done"
    assert "moon" not in told.text()


def test_a_message_is_followed_until_it_is_done(
    running: Running,
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """A tuple waits at a process that stands still. When that goes on the tree is complete, without the page being loaded again,
    and nobody asks any more."""
    sink = running.engine.worker("sink-0").process
    page = open_page("about:blank")
    page.clock.install()
    sink.pause()
    try:
        end = running.end_of_source()
        eventually(lambda: running.end_of_source() > end, 30.0)
        path = f"{running.page}/m/{running.engine.source}/0/{end}"
        waits = page.locator("#verdict", has_text="sink")
        eventually(lambda: page.goto(path) and waits.count(), 30.0)
        assert page.locator("#tree .bar.open").count() > 0
        expect(page.locator("#followed")).to_have_text("This page follows it until it is done.")
        assert violations(page) == []
        page.evaluate(
            "window.same = true; document.addEventListener('htmx:sse:close', () => { window.ended = true })"
        )
        arrives(page, 2)
    finally:
        sink.resume()
    expect(page.locator("#verdict")).to_have_text(re.compile("^done"), timeout=60_000)
    expect(page.locator("#headline")).to_contain_text("✓ complete, proven (init ⊕")
    assert page.locator("#tree .bar.open").count() == 0
    expect(page.locator("#followed")).to_have_text("Nothing more is to come of it.")
    page.wait_for_function("() => window.same && window.ended")
    page.clock.fast_forward(25_000)
    page.clock.run_for(2_000)
    expect(
        page.locator("#link")
    ).to_be_hidden()  # it hears nothing more, and is not without a connection for that
    assert violations(page) == []


@pytest.mark.slow
def test_the_oldest_messages_that_are_not_done(
    running: Running,
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """Of each partition one, with a verdict and a link; from there to any other, and what is no message is said in words."""
    running.engine.worker(
        "sink-0"
    ).process.kill()  # it is dead for seconds, in which nothing is done
    page = open_page(f"{running.page}/why")
    rows = page.locator("#oldest tbody tr")
    eventually(lambda: rows.count() or (page.reload() and False), 30.0)
    assert violations(page) == []
    told = page.request.get(f"{running.url}/api/v1/t/{running.name}/why").json()
    assert set(told) == {"verdicts", "all_read"}
    rows.first.get_by_role("link").click()
    expect(page.locator("#verdict")).to_be_visible(timeout=_SEEN_MS)
    page.get_by_role("link", name="why", exact=True).click()
    form = page.get_by_label("A message, TOPIC/PARTITION/OFFSET")
    form.fill("nonsense")
    form.press("Enter")
    expect(page.get_by_role("alert")).to_have_text(
        "nonsense: give a message as TOPIC/PARTITION/OFFSET, such as sentences/3/10482"
    )
    form.fill(f"{running.engine.source}/77/0")
    with page.expect_response(re.compile("/m/")) as answer:
        form.press("Enter")
    assert answer.value.status == 404
    expect(page.locator(".bad")).to_contain_text(
        "has partitions 0 to 5, but no partition 77", timeout=_SEEN_MS
    )
    form.fill("elsewhere/0/0")
    form.press("Enter")
    expect(page.locator(".bad")).to_contain_text("reads the topic 'elsewhere'; they read")


def test_dead_letters_are_listed_without_what_they_hold(
    running: Running,
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """A message that does not decode is one, by its coordinates."""
    page = open_page(f"{running.page}/letters")
    expect(page.locator("main")).to_contain_text("There is none.")
    producer = Producer({"bootstrap.servers": running.engine.bootstrap, "log_level": 0})
    producer.produce(running.engine.source, b"a secret \xff", partition=3)
    assert producer.flush(30) == 0
    row = page.locator("#letters tbody tr")
    eventually(lambda: page.reload() and row.count(), 60.0)
    expect(row).to_contain_text("undecodable")
    expect(row).to_contain_text(f"{running.engine.source}/3/")
    assert "secret" not in page.content()
    assert violations(page) == []
    row.get_by_role("link", name=f"{running.engine.source}/3/").click()
    expect(page.locator("#verdict")).to_contain_text("dead letter", timeout=_SEEN_MS)
    assert "secret" not in page.content()
