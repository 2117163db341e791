"""Pages of a topology that runs on real servers: live counts and killed processes."""

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
    return int(row.locator("td").nth(8).inner_text().replace(",", ""))


def test_start_page_links_to_the_topology(running: Running, open_page: OpenPage) -> None:
    """With its number of processes."""
    page = open_page(running.url)
    expect(page.get_by_role("cell", name="5 of 5")).to_be_visible(timeout=_SEEN_MS)
    page.get_by_role("link", name=running.name).click()
    expect(page).to_have_title(f"{running.name} · kstorm")


def test_the_graph_has_the_components_and_their_rates(
    running: Running, open_page: OpenPage
) -> None:
    """Each component links to its page. Edges with higher rates are wider."""
    page = open_page(running.page)
    graph = page.locator("#graph")
    for component, kind in (
        ("sentences", "spout"),
        ("split", "bolt"),
        ("count", "bolt"),
        ("sink", "bolt"),
        ("__acker", "acker"),
    ):
        expect(
            graph.get_by_role("link", name=re.compile(f"^{component} .*, {kind}"))
        ).to_be_visible()
    expect(graph.get_by_role("img", name="sentences to split")).to_have_count(1)
    expect(graph.get_by_role("img", name="split to count")).to_have_attribute(
        "aria-label", re.compile("fields word")
    )
    expect(graph.get_by_role("img")).to_have_count(3)
    expect(graph.get_by_role("link", name=re.compile("^split [1-9]"))).to_be_visible(
        timeout=_SEEN_MS
    )
    widths = "edges => edges.map(edge => parseFloat(edge.querySelector('path').style.strokeWidth))"
    first, second, _ = graph.locator("g[role=img]").evaluate_all(widths)
    assert second > first, "ten words a sentence flow behind split"
    graph.get_by_role("link", name=re.compile("^count ")).click()
    expect(page).to_have_title(f"count · {running.name} · kstorm")


def test_counts_are_updated_without_a_reload(running: Running, open_page: OpenPage) -> None:
    """The chart gets its points too."""
    page = open_page(running.page)
    expect(page.locator("#components")).to_contain_text("__acker")
    before = executed(page, "count")
    page.wait_for_function(
        "before => Number(document.querySelectorAll('#components tbody')[2].rows[0].cells[9].dataset.value) > before",
        arg=before,
        timeout=_SEEN_MS,
    )
    assert executed(page, "count") > before
    expect(page.locator(".plot canvas")).to_be_visible()


def test_lag_is_queried_from_kafka(running: Running, open_page: OpenPage) -> None:
    """Each task has its own partition."""
    page = open_page(f"{running.page}/c/count")
    cells = page.locator("#tasks tbody tr td:nth-child(3)")
    expect(cells).to_have_count(4)
    expect(cells.first).to_have_text(re.compile(r"^[\d,]+$"), timeout=_SEEN_MS)


def test_killed_process_is_shown(running: Running, open_page: OpenPage) -> None:
    """It is named and announced while it is gone. After its restart it is ready, has two starts,
    and its counts are kept."""
    page = open_page(f"{running.page}?window=all")
    health = page.locator("#health")
    expect(health).to_have_text("All 5 processes are ready.", timeout=_SEEN_MS)
    before = executed(page, "count")
    running.engine.worker("count-0").process.kill()
    expect(health).to_contain_text("count-0", timeout=_SEEN_MS)
    assert health.get_attribute("role") == "status"
    expect(page.locator("#graph .down")).to_have_attribute(
        "aria-label", re.compile(r"^count .*0/1 processes ready")
    )
    expect(page.locator("#held")).to_contain_text("no process of count is ready")
    expect(page.locator("#graph .held")).to_have_attribute(
        "aria-label", re.compile("^split to count.*held back")
    )
    expect(health).to_have_text("All 5 processes are ready.", timeout=60_000)
    assert executed(page, "count") >= before
    page.goto(f"{running.page}/c/count")
    expect(page.locator("#processes tbody tr td:nth-child(8)").first).to_have_text("2")
    page.get_by_role("link", name="Log of count-0").click()
    # a click does not wait for the page that it leads to
    expect(page.locator(".log")).to_have_count(2)
    newest, past = page.locator(".log").all_inner_texts()
    assert (
        "--- count-0, start 1: " in past,
        "start 2: " in past,
        "--- count-0, start 2: " in newest,
    ) == (True, False, True)
    told = page.request.get(page.url.replace("/t/", "/api/v1/t/")).json()
    assert [life["name"] for life in told["lives"]] == ["start 2", "start 1"]


def test_sources_page_shows_the_partitions(
    running: Running, open_page: OpenPage, eventually: Eventually
) -> None:
    """With the data of Kafka and ZooKeeper, and the process that reads each."""
    page = open_page(running.page)
    page.get_by_role("link", name="Sources").click()
    rows = page.locator("#partitions-1 tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.first).to_contain_text("of 'sentences'")
    assert int(rows.first.locator("td").nth(2).inner_text().replace(",", "")) > 0
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
    page.get_by_role("link", name=f"Messages of {running.engine.source}").click()
    expect(page.locator("#records tbody tr")).to_have_count(50)
    assert "moon" not in page.content()
    page.go_back()
    links = rows.get_by_role("link")
    # no links while all messages are done
    eventually(lambda: links.count() or (page.reload() and False), 60.0)
    expect(links.first).to_have_attribute(
        "href", re.compile(f"/m/{running.engine.source}/[0-5]/[0-9]+$")
    )


def test_a_message_has_its_tree(
    running: Running,
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """Proven, with a row for each tuple, and without values."""
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
    """A tuple waits for a paused process. When the process continues, the tree completes on the
    page without a reload, and polling stops."""
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
        expect(page.locator("#followed")).to_have_text(
            "This page follows the message until it is done."
        )
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
    expect(page.locator("#followed")).to_have_text(
        "This is final: the page is not updated any more."
    )
    page.wait_for_function("() => window.same && window.ended")
    page.clock.fast_forward(25_000)
    page.clock.run_for(2_000)
    # no more events arrive, but the connection is not reported as lost
    expect(page.locator("#link")).to_be_hidden()
    assert violations(page) == []


@pytest.mark.slow
def test_oldest_unfinished_messages_are_listed(
    running: Running,
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """One per partition, with a verdict and a link. Invalid messages in the form are explained."""
    page = open_page("about:blank")
    rows = page.locator("#oldest tbody tr")
    sink = running.engine.worker("sink-0").process
    sink.pause()
    try:
        eventually(lambda: page.goto(f"{running.page}/why") and rows.count(), 60.0)
    finally:
        sink.resume()
    assert violations(page) == []
    told = page.request.get(f"{running.url}/api/v1/t/{running.name}/why").json()
    assert set(told) == {"verdicts", "all_read"}
    rows.first.get_by_role("link").click()
    expect(page.locator("#verdict")).to_be_visible(timeout=_SEEN_MS)
    page.get_by_role("link", name="why", exact=True).click()
    form = page.get_by_label("Message (TOPIC/PARTITION/OFFSET)")
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


def test_dead_letters_are_listed_without_contents(
    running: Running,
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    eventually: Eventually,
) -> None:
    """An undecodable message is listed by its coordinates."""
    page = open_page(f"{running.page}/letters")
    expect(page.locator("main")).to_contain_text("There are no dead letters.")
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
