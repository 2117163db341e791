"""Pages with made-up topologies: hostile names, many components, failures, access control."""

import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.ui.conftest import OpenPage
from tests.ui.server import MadeUp, serving, status, topology
from tests.ui.waiting import arrives

_EVIL = "<img src=x onerror=alert(1)>'\"&\u202egnp\x1b]0;x\x07"
_DRAWN_ANEW = """async ({times}) => {
  const { drawGraph } = await import("/static/graph.js");
  const place = document.createElement("div");
  document.body.append(place);
  const sample = JSON.parse(document.getElementById("graph").dataset.sample);
  const found = [];
  for (let time = 0; time < times; time++) {
    drawGraph(place, { nodes: [], edges: [] });
    drawGraph(place, sample);
    found.push(Number(place.dataset.milliseconds));
  }
  place.remove();
  return Math.min(...found);
}"""
_TOKEN = "a token of twenty-odd characters"


def ask(
    url: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: str = ""
) -> tuple[int, http.client.HTTPMessage, str]:
    """Return status, headers and text."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    connection.request(method, place.path, body, dict(headers or {}))
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read().decode()
    connection.close()
    return found


def test_names_are_escaped(open_page: OpenPage) -> None:
    """Names and errors of any kind create no element, run no script, and do not reverse the reading
    direction."""
    found = status(
        last_error=_EVIL, last_error_age=1.0, not_ready=_EVIL, own={_EVIL: 1.0}, waits={_EVIL: 1.0}
    )
    report = topology(_EVIL, {_EVIL: "bolt", "split": "bolt"}, [(_EVIL, "split")], {_EVIL: found})
    with serving(MadeUp(report)) as url:
        for path in (
            "/",
            f"/t/{quote(_EVIL, safe='')}",
            f"/t/{quote(_EVIL, safe='')}/c/{quote(_EVIL, safe='')}",
        ):
            page = open_page(url + path)
            arrives(page, 1)
            assert page.locator("img").count() == 0
            graph = page.locator("#graph")
            text = page.locator("body").inner_text() + "".join(graph.all_text_contents())
            assert "<img src=x" in text
            assert "\\u202e" in text
            assert not {"\u202e", "\x1b", "\x07"} & set(page.content())


def test_two_hundred_components_are_drawn(open_page: OpenPage) -> None:
    """In twenty layers of ten, again with each sample. The test prints the time by the browser's
    clock, from the sample to the last element: the fastest of five."""
    names = [f"c{number}" for number in range(200)]
    edges = [
        (name, names[at])
        for number, name in enumerate(names)
        for at in {number + 10, number + 11}
        if at < len(names)
    ]
    components = {name: "spout" if number < 10 else "bolt" for number, name in enumerate(names)}
    with serving(MadeUp(topology("large", components, edges)), every=1.0) as url:
        page = open_page(f"{url}/t/large")
        expect(page.locator("#graph a")).to_have_count(200)
        expect(page.locator("#graph g")).to_have_count(len(edges))
        milliseconds = page.evaluate(_DRAWN_ANEW, {"times": 5})
        print(f"200 components, {len(edges)} lines: {milliseconds:.0f} ms")
        expect(page.locator("#graph a")).to_have_count(200)
        expect(page.locator("#graph g")).to_have_count(len(edges))


def test_failed_poll_shows_the_problem_and_the_last_state(open_page: OpenPage) -> None:
    """Until a poll succeeds."""
    source = MadeUp(topology("words", {"split": "bolt"}, []))
    with serving(source) as url:
        page = open_page(f"{url}/t/words")
        source.error = "Kubernetes cannot be reached"
        expect(page.locator("#live")).to_contain_text(
            "The last poll failed: Kubernetes cannot be reached."
        )
        expect(page.locator("#components tbody tr")).to_have_count(1)
        source.error = ""
        expect(page.locator("#live")).not_to_contain_text("failed:")
        source.reports = ()
        expect(page.locator("#health")).to_contain_text("The topology is not found any more")


def test_lost_connection_is_shown(open_page: OpenPage) -> None:
    with serving(MadeUp(topology("words", {"split": "bolt"}, []))) as url:
        page = open_page("about:blank")
        page.route("**/stream*", lambda route: route.abort())
        page.goto(f"{url}/t/words")
        expect(page.locator("#components tbody tr")).to_have_count(1)
        page.evaluate("htmx.trigger(document, 'htmx:sse:error')")
        expect(page.get_by_text("No connection to the web UI's server")).to_be_visible()


def test_only_a_live_page_reports_a_lost_connection(open_page: OpenPage) -> None:
    """A form receives no events, which does not mean that its connection is lost."""
    made = MadeUp(topology("words", {"split": "bolt"}, []))
    with serving(made, actions=frozenset({"drain"})) as url:
        page = open_page("about:blank")
        page.clock.install()
        for stream in "**/stream*", "**/status":
            page.route(stream, lambda route: route.abort())
        for path, silent in ("", True), ("/sources", True), ("/do/drain", False):
            page.goto(f"{url}/t/words{path}")
            page.wait_for_load_state("load")
            page.clock.fast_forward(25_000)
            page.clock.run_for(2_000)
            expect(page.locator("#link")).to_be_visible() if silent else expect(
                page.locator("#link")
            ).to_be_hidden()


def test_page_is_live_even_if_scripts_load_slowly(open_page: OpenPage) -> None:
    """htmx without its extension would never connect."""
    with serving(MadeUp(topology("words", {"split": "bolt"}, []))) as url:
        page = open_page(f"{url}/livez")

        def late(route: Route) -> None:
            page.wait_for_timeout(700)
            route.continue_()

        page.route("**/hx-sse.min.js", late)
        page.goto(f"{url}/t/words")
        arrives(page, 1)


@pytest.mark.parametrize(
    "answer", [None, {"status": 500, "body": "broken"}, {"status": 200, "body": "no JSON"}]
)
def test_chart_without_history_starts_now(
    open_page: OpenPage, answer: dict[str, Any] | None
) -> None:
    """If the server does not respond, or sends something else. The scripts log no error."""
    with serving(MadeUp(topology("words", {"split": "bolt"}, []))) as url:
        page = open_page(f"{url}/livez")
        page.route("**/history", lambda route: route.fulfill(**answer) if answer else route.abort())
        page.goto(f"{url}/t/words")
        expect(page.locator(".plot canvas")).to_be_visible()


def test_edge_counts_are_shown_if_reported(open_page: OpenPage) -> None:
    """Each edge shows its own tuples, not everything that its source emits."""
    source = MadeUp()

    def tell(sent: int) -> None:
        counted = [
            {"stream": "default", "target": "count", "tuples": sent},
            {"stream": "late", "target": "log", "tuples": 0},
        ]
        split = status(emitted=sent * 2, edges=counted, busy_seconds=sent / 1e6)
        source.reports = [
            topology(
                "words",
                {"split": "bolt", "count": "bolt", "log": "bolt"},
                [("split", "count")],
                {"split": split},
            )
        ]

    tell(0)
    with serving(source) as url:
        page = open_page(f"{url}/t/words")
        tell(1_000_000)
        line = page.locator("#graph").get_by_role("img", name="split to count")
        expect(line).to_contain_text("/s")
        expect(line).not_to_contain_text("≤")
        expect(page.locator("#graph").get_by_role("img", name="split to log")).to_contain_text(
            "0/s"
        )
        expect(page.locator("#components tbody tr td:nth-child(6)").first).to_contain_text("%")


def test_json_has_what_the_pages_show(open_page: OpenPage) -> None:
    """Topologies, a topology in a window and a component, with the same figures."""
    counted = {
        "split": status(executed=1200, emitted=300, acked=7),
        "lines": status("spout", emitted=90, acked=80),
    }
    made = topology("words", {"lines": "spout", "split": "bolt"}, [("lines", "split")], counted)
    with serving(MadeUp(made), every=60) as url:
        api = f"{url}/api/v1"
        page = open_page(url)
        [row] = page.request.get(f"{api}/topologies").json()["topologies"]
        expect(page.locator("#topologies tbody tr")).to_contain_text(
            f"{row['ready']} of {row['processes']}"
        )
        assert (row["name"], row["state"]) == ("words", "active")
        page.goto(f"{url}/t/words?window=all")
        told = page.request.get(f"{api}/t/words?window=all").json()
        cells = page.locator("#components tbody tr").evaluate_all(
            "rows => rows.map(row => row.cells[9].dataset.value)"
        )
        assert (
            list(map(int, cells)) == [each["executed"] for each in told["components"]] == [0, 1200]
        )
        expect(page.locator("#health")).to_have_text(told["health"])
        expect(page.locator("#window-says")).to_have_text(told["window_says"])
        assert [(edge["source"], edge["target"]) for edge in told["edges"]] == [("lines", "split")]
        page.goto(f"{url}/t/words/c/split")
        told = page.request.get(f"{api}/t/words/c/split").json()
        assert (told["component"]["executed"], told["processes"][0]["name"]) == (1200, "split-0")
        expect(page.locator("#processes tbody tr")).to_contain_text("1,200")
        for path in ("t/nothing", "t/words/c/nothing"):
            missing = page.request.get(f"{api}/{path}")
            assert (missing.status, list(missing.json())) == (404, ["error"])


def test_every_response_has_security_headers_and_no_inline_script() -> None:
    """Pages, files and refusals."""
    with serving(MadeUp(topology("words", {"split": "bolt"}, []))) as url:
        for path in ("/", "/t/words", "/t/nothing", "/static/page.js", "/livez"):
            _, headers, text = ask(url + path)
            assert "script-src 'self';" in headers["Content-Security-Policy"]
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert " onclick" not in text
            assert "<script>" not in text


def test_without_a_login_only_local_host_names_are_accepted() -> None:
    """Otherwise any website could read it, by a host name that resolves to this machine."""
    with serving(MadeUp()) as url:
        assert ask(url)[0] == 200
        assert ask(url, headers={"Host": "localhost:1"})[0] == 200
        assert ask(url, headers={"Host": "evil.example"})[0] == 421


@pytest.mark.parametrize(
    "path", ["/", "/t/words", "/t/words/stream", "/t/words/history", "/static/page.js"]
)
def test_nothing_is_shown_without_the_token(path: str) -> None:
    """A wrong token is refused too. The health check is open."""
    with serving(MadeUp(topology("words", {"split": "bolt"}, [])), token=_TOKEN) as url:
        assert ask(url + path)[0] == 303
        assert ask(url + path, headers={"Authorization": f"Bearer {_TOKEN}x"})[0] == 303
        assert ask(url + path, headers={"Cookie": "kstorm_ui=" + "0" * 64})[0] == 303
        assert ask(f"{url}/livez")[0] == 200
        if not path.endswith("stream"):
            assert ask(url + path, headers={"Authorization": f"Bearer {_TOKEN}"})[0] == 200


def test_api_without_the_token_returns_401() -> None:
    """It is not redirected to the login form."""
    with serving(MadeUp(topology("words", {"split": "bolt"}, [])), token=_TOKEN) as url:
        assert ask(f"{url}/api/v1/topologies")[0] == 401
        assert (
            ask(f"{url}/api/v1/topologies", headers={"Authorization": f"Bearer {_TOKEN}"})[0] == 200
        )


def test_token_is_entered_once(
    open_page: OpenPage, violations: Callable[[Page], list[str]]
) -> None:
    """The browser stores only a hash of it, out of reach of scripts."""
    with serving(MadeUp(topology("words", {"split": "bolt"}, [])), token=_TOKEN) as url:
        page = open_page(f"{url}/t/words")
        page.get_by_label("Token").fill("wrong")
        with page.expect_response("**/login") as answer:
            page.keyboard.press("Enter")
        assert answer.value.status == 401
        expect(page.get_by_role("alert")).to_have_text("That is not the token.")
        assert violations(page) == []
        page.get_by_label("Token").fill(_TOKEN)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("link", name="words")).to_be_visible()
        cookie = page.context.cookies()[0]
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        assert _TOKEN not in json.dumps(page.context.cookies())


def test_login_from_another_origin_is_refused() -> None:
    """Or without an origin."""
    with serving(MadeUp(), token=_TOKEN) as url:
        for headers in ({}, {"Origin": "http://evil.example"}):
            assert ask(f"{url}/login", "POST", headers, f"token={_TOKEN}")[0] == 403
        form = {"Origin": url, "Content-Type": "application/x-www-form-urlencoded"}
        assert ask(f"{url}/login", "POST", form, f"token={quote(_TOKEN)}")[0] == 303


def test_proxys_user_header_is_required() -> None:
    """Except for the health check."""
    with serving(MadeUp(), user_header="X-User") as url:
        assert ask(url)[0] == 401
        assert ask(url, headers={"X-User": "ann", "Host": "storm.example"})[0] == 200
        assert ask(f"{url}/livez")[0] == 200
