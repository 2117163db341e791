"""Actions that the web UI refuses: not allowed, from another origin, already under way.

Also the operator that it records.
"""

import http.client
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from kstorm.dev.servers import EmbeddedKafka
from kstorm.introspection.outline import Outline
from kstorm.operations.kubernetes.cluster import open_cluster
from kstorm.runtime.kafka.event_log import read_events
from kstorm_ui.sources.kubernetes import KubernetesSource
from kstorm_ui.ui_settings import ACTIONS
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
    """Return the status, and the location or the body."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=60)
    connection.request("POST", where.path, urllib.parse.urlencode(fields), headers)
    answer = connection.getresponse()
    text = answer.getheader("Location") or answer.read().decode()
    connection.close()
    return answer.status, text


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of a web UI with all actions, with servers that do not respond."""
    with serving(made_up(), show_values=True, actions=frozenset(ACTIONS)) as found:
        yield found


@pytest.fixture
def letters(kafka: EmbeddedKafka) -> Letters:
    """Two dead letters of a topology with a unique name."""
    letters = Letters(kafka, f"shop-{uuid.uuid4().hex[:8]}")
    letters.write(letters.letter(0), letters.letter(1))
    return letters


@pytest.mark.parametrize("verb", ACTIONS)
def test_requests_from_other_origins_are_refused(url: str, verb: str) -> None:
    """Requests without an origin are refused too."""
    for headers in ({"Origin": "http://elsewhere.example"}, {"Origin": "null"}, {}):
        assert post(f"{url}/t/shop/do/{verb}", {"number": "1"}, **headers)[0] == 403


@pytest.mark.parametrize("verb", ACTIONS)
def test_only_allowed_actions_are_offered_and_run(verb: str, open_page: OpenPage) -> None:
    actions = frozenset(ACTIONS) - {verb}
    with serving(made_up(), show_values=True, actions=actions) as found:
        page = open_page(f"{found}/t/shop")
        offered = page.get_by_role("navigation", name="Actions").get_by_role("link")
        wanted = [each for each in ("deactivate", "drain") if each in actions]  # it is active
        assert [text.lower().rstrip("…") for text in offered.all_inner_texts()] == wanted
        assert post(f"{found}/t/shop/do/{verb}", {"number": "1"}, Origin=found)[0] == 403
        page.goto(f"{found}/t/shop/do/{verb}")
        expect(page.locator("h1")).to_have_text(f"The web UI may not {verb}")
        assert page.locator("form").count() == 0


def test_no_action_is_allowed_by_default(open_page: OpenPage) -> None:
    with serving(made_up()) as found:
        page = open_page(f"{found}/t/shop")
        assert page.locator("form[method=post], #background-actions").count() == 0
        assert page.get_by_role("navigation", name="Actions").count() == 0
        for verb in ACTIONS:
            assert post(f"{found}/t/shop/do/{verb}", {}, Origin=found)[0] == 403
        assert post(f"{found}/t/shop/do/kill", {}, Origin=found)[0] == 404


@pytest.mark.parametrize(
    ("verb", "fields", "said"),
    [
        ("drain", {"timeout": "-1"}, "timeout: &#39;-1&#39;"),
        ("discard", {"number": "x"}, "is not the number of a dead letter"),
        ("edit", {"value": "x"}, "Choose one dead letter"),
    ],
)
def test_invalid_form_is_explained(
    url: str, verb: str, fields: Mapping[str, str], said: str
) -> None:
    """No action is started."""
    code, answer = post(f"{url}/t/shop/do/{verb}", fields, Origin=url)
    assert (code, said in answer) == (400, True)


def test_too_long_form_is_refused(url: str) -> None:
    """A value has at most one megabyte."""
    code, answer = post(
        f"{url}/t/shop/do/edit", {"number": "1", "value": "x" * 3_300_000}, Origin=url
    )
    assert (code, "is longer than 3,200,000 bytes" in answer) == (400, True)


def test_operator_is_the_user_named_by_the_proxy(letters: Letters) -> None:
    """With a token, the operator is the address that sent it."""
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
        ("zoë, by the web UI", "discard", "0", "gone", "1 discarded"),
        ("the web UI, from 127.0.0.1", "discard", "1", "gone", "1 discarded"),
    ]


@pytest.mark.parametrize(
    ("exactly_once", "why"),
    [
        (True, "with exactly-once processing, bolts give tuples up"),
        (False, "'lines', which gave it up, is not a KafkaSpout of"),
    ],
)
def test_message_that_no_spout_can_emit_is_not_edited(
    letters: Letters, open_page: OpenPage, exactly_once: bool, why: str
) -> None:
    """With the reason of the command, also if the form is skipped."""
    report = made_up(letters.kafka.bootstrap, letters.name).reports[0]
    source = MadeUp(replace(report, outline=Outline(letters.name, exactly_once=exactly_once)))
    with serving(source, show_values=True, actions=frozenset({"edit"})) as found:
        place = f"{found}/t/{letters.name}/do/edit"
        page = open_page(f"{place}?number=0")
        expect(page.locator(".bad")).to_contain_text(f"0 cannot be edited: {why}")
        assert page.locator("form").count() == 0
        assert post(place, {"number": "0", "value": "x"}, Origin=found)[0] == 303
        page.goto(f"{found}/t/{letters.name}/letters/0")
        expect(page.locator("#background-actions li")).to_contain_text(
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
    """On Kubernetes, one at a time. A component with an autoscaler is refused."""
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
                    expect(page.locator("#background-actions li").first).to_contain_text(
                        "under way"
                    )
                    place, fields = (
                        f"{found}/t/wordcount/do/scale",
                        {"component": "count", "pods": "2"},
                    )
                    code, refused = post(place, fields, Origin=found)
                    assert (code, "; wait until it is over" in refused) == (409, True)
                    released.set()
                expect(page.locator("#background-actions li").first).to_contain_text(
                    f"scale {component} to 3", timeout=60_000
                )
                expect(page.locator("#background-actions li").first).to_contain_text(
                    said, timeout=60_000
                )
        assert found_wrong == []
        assert cluster.patches == [
            ("wc-split", {"spec": {"replicas": 3}}),
            ("wc-acker", {"spec": {"replicas": 3}}),
        ]
