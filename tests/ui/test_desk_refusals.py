"""What the page does not do: what no value names, what another page asks for, what is under way. And whose an action is."""

import http.client
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from kstorm.cli.cluster import open_cluster
from kstorm.inspect.outline import Outline
from kstorm.local.servers import EmbeddedKafka
from kstorm.runtime.kafka.event_log import read_events
from kstorm_ui.settings import ACTIONS
from kstorm_ui.sources.kubernetes import KubernetesSource
from tests.integration.dead_letters import Letters
from tests.kubernetes_stub import KubernetesStub
from tests.ui.conftest import OpenPage
from tests.ui.server import MadeUp, serving, topology

pytestmark = pytest.mark.slow

_COMPONENTS = {"lines": "spout", "price": "bolt"}
_NOWHERE = "127.0.0.1:1"


def made_up(bootstrap: str = _NOWHERE, name: str = "shop") -> MadeUp:
    return MadeUp(
        topology(name, _COMPONENTS, [("lines", "price")], bootstrap=bootstrap, zookeeper=_NOWHERE)
    )


def post(url: str, fields: Mapping[str, str], **headers: str) -> tuple[int, str]:
    """The code, and where it leads or what it says."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=60)
    connection.request("POST", where.path, urllib.parse.urlencode(fields), headers)
    answer = connection.getresponse()
    text = answer.getheader("Location") or answer.read().decode()
    connection.close()
    return answer.status, text


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where a page is that may do everything, over servers that do not answer."""
    with serving(made_up(), show_values=True, actions=frozenset(ACTIONS)) as found:
        yield found


@pytest.fixture
def letters(kafka: EmbeddedKafka) -> Letters:
    """Two dead letters, of a topology that no other test has."""
    letters = Letters(kafka, f"shop-{uuid.uuid4().hex[:8]}")
    letters.write(letters.letter(0), letters.letter(1))
    return letters


@pytest.mark.parametrize("verb", ACTIONS)
def test_what_another_page_asks_for_is_not_done(url: str, verb: str) -> None:
    """Nor what tells no origin."""
    for headers in ({"Origin": "http://elsewhere.example"}, {"Origin": "null"}, {}):
        assert post(f"{url}/t/shop/do/{verb}", {"number": "1"}, **headers)[0] == 403


@pytest.mark.parametrize("verb", ACTIONS)
def test_what_no_value_names_is_neither_offered_nor_done(verb: str, open_page: OpenPage) -> None:
    """All the others are."""
    actions = frozenset(ACTIONS) - {verb}
    with serving(made_up(), show_values=True, actions=actions) as found:
        page = open_page(f"{found}/t/shop")
        offered = page.get_by_role("navigation", name="What can be done").get_by_role("link")
        wanted = [each for each in ("activate", "deactivate", "drain") if each in actions]
        assert [text.lower().rstrip("…") for text in offered.all_inner_texts()] == wanted
        assert post(f"{found}/t/shop/do/{verb}", {"number": "1"}, Origin=found)[0] == 403
        page.goto(f"{found}/t/shop/do/{verb}")
        expect(page.locator("h1")).to_have_text(f"This page does not {verb}")
        assert page.locator("form").count() == 0


def test_where_nothing_is_named_nothing_is_offered(open_page: OpenPage) -> None:
    """As it is at first."""
    with serving(made_up()) as found:
        page = open_page(f"{found}/t/shop")
        assert page.locator("form, #deeds").count() == 0
        assert page.get_by_role("navigation", name="What can be done").count() == 0
        for verb in ACTIONS:
            assert post(f"{found}/t/shop/do/{verb}", {}, Origin=found)[0] == 403
        assert post(f"{found}/t/shop/do/kill", {}, Origin=found)[0] == 404


@pytest.mark.parametrize(
    ("verb", "fields", "said"),
    [
        ("drain", {"timeout": "-1"}, "timeout: &#39;-1&#39;"),
        ("discard", {"number": "x"}, "is no number of a letter"),
        ("edit", {"value": "x"}, "Which letter?"),
    ],
)
def test_what_cannot_be_meant_is_said(
    url: str, verb: str, fields: Mapping[str, str], said: str
) -> None:
    """Nothing is begun then."""
    code, answer = post(f"{url}/t/shop/do/{verb}", fields, Origin=url)
    assert (code, said in answer) == (400, True)


def test_what_is_too_long_is_no_form(url: str) -> None:
    """A value has a megabyte at most."""
    code, answer = post(
        f"{url}/t/shop/do/edit", {"number": "1", "value": "x" * 3_300_000}, Origin=url
    )
    assert (code, "is longer than 3,200,000 bytes" in answer) == (400, True)


def test_an_action_is_put_down_to_whom_the_proxy_names(letters: Letters) -> None:
    """With a token to where that was given."""
    source = made_up(letters.kafka.bootstrap, letters.name)
    token = "a token of some length"
    for number, given, header, headers in (
        ("0", "", "X-User", {"X-User": "zoë".encode().decode("latin-1")}),
        ("1", token, "", {"Authorization": f"Bearer {token}"}),
    ):
        with serving(source, given, header, actions=frozenset({"discard"})) as found:
            place = f"{found}/t/{letters.name}/do/discard"
            answer = post(place, {"number": number, "note": "gone"}, Origin=found, **headers)
            assert answer == (303, f"/t/{letters.name}/letters/{number}")
    noted = read_events(letters.settings, letters.name)
    assert [(event.who, event.verb, event.what, event.note, event.outcome) for event in noted] == [
        ("zoë, by the page", "discard", "0", "gone", "1 discarded"),
        ("the page, from 127.0.0.1", "discard", "1", "gone", "1 discarded"),
    ]


@pytest.mark.parametrize(
    ("exactly_once", "why"),
    [
        (True, "with exactly-once processing, bolts give tuples up"),
        (False, "'lines', which gave it up, is not a KafkaSpout of"),
    ],
)
def test_what_no_spout_could_emit_is_not_edited(
    letters: Letters, open_page: OpenPage, exactly_once: bool, why: str
) -> None:
    """As the command refuses it; in words, and also if the form is left out."""
    report = made_up(letters.kafka.bootstrap, letters.name).reports[0]
    source = MadeUp(replace(report, outline=Outline(letters.name, exactly_once=exactly_once)))
    with serving(source, show_values=True, actions=frozenset({"edit"})) as found:
        place = f"{found}/t/{letters.name}/do/edit"
        page = open_page(f"{place}?number=0")
        expect(page.locator(".bad")).to_contain_text(f"0 cannot be edited: {why}")
        assert page.locator("form").count() == 0
        assert post(place, {"number": "0", "value": "x"}, Origin=found)[0] == 303
        page.goto(f"{found}/t/{letters.name}/letters/0")
        expect(page.locator("#deeds li")).to_contain_text(
            f"failed; 0 cannot be edited: {why}", timeout=60_000
        )
    assert [
        (event.verb, event.what, event.outcome[:19])
        for event in read_events(letters.settings, letters.name)
    ] == [("edit", "0", "0 cannot be edited:")]


def test_a_component_is_scaled(
    open_page: OpenPage,
    violations: Callable[[Page], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On Kubernetes, by its form, one at a time; what an autoscaler scales is left to it."""
    with KubernetesStub() as cluster:
        cluster.add("split", "bolt", 2)
        cluster.add("acker", "acker")
        cluster.add("count", "bolt")
        cluster.autoscale("count")
        monkeypatch.setenv("KUBECONFIG", str(cluster.write_kubeconfig(tmp_path / "config")))
        released = threading.Event()
        cluster.on_scale = lambda name, replicas: released.wait(60)
        source = KubernetesSource(open_cluster(None, None), inside=False)
        with serving(source, actions=frozenset(ACTIONS)) as found:
            page = open_page(found)
            page.get_by_role("link", name="wordcount").click()
            for component, said in (
                ("split", "done; split: 2 → 3"),
                ("__acker", "done; acker: 1 → 3"),
                ("count", "failed; 'count' is scaled by the HorizontalPodAutoscaler"),
            ):
                page.get_by_role("link", name="Scale…").click()
                found_wrong = violations(page)
                page.get_by_label("Component").select_option(component)
                page.get_by_label("Pods").fill("3")
                page.get_by_role("button", name="Scale").click()
                if not released.is_set():
                    expect(page.locator("#deeds li").first).to_contain_text("under way")
                    place, fields = (
                        f"{found}/t/wordcount/do/scale",
                        {"component": "count", "pods": "2"},
                    )
                    code, refused = post(place, fields, Origin=found)
                    assert (code, "and that is under way: wait until it is over" in refused) == (
                        409,
                        True,
                    )
                    released.set()
                expect(page.locator("#deeds li").first).to_contain_text(
                    f"scale {component} to 3", timeout=60_000
                )
                expect(page.locator("#deeds li").first).to_contain_text(said, timeout=60_000)
        assert found_wrong == []
        assert cluster.patches == [
            ("wc-split", {"spec": {"replicas": 3}}),
            ("wc-acker", {"spec": {"replicas": 3}}),
        ]
