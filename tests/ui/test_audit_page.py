"""The audit page with a real Kafka: gaps, skips and their operators, and outcomes."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from playwright.sync_api import Page, expect

from kstorm.dev.servers import EmbeddedKafka
from kstorm.kafka.finished_ranges import VERSION, FinishedRange, Skipped
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.single_partition_topic import write_topic
from tests.ui.conftest import OpenPage
from tests.ui.server import MadeUp, serving, topology

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror=alert(1)>\u202e</script>"


@pytest.fixture(scope="module")
def url(kafka: EmbeddedKafka) -> Iterator[str]:
    """URL of the audit page of a topology with three ranges, a gap and a skip."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic("audited.__finished", 1, 1)])["audited.__finished"].result(30)
    skip = Skipped(40, 50, f"offsets set {EVIL}", "anna@laptop")
    ranges = [made(0, 10), made(12, 40), made(40, 50, skip)]
    settings = Settings(topology="", bootstrap_servers=kafka.bootstrap)
    write_topic(settings, "audited.__finished", [(found.key, found.encode()) for found in ranges])
    source = MadeUp(topology("audited", {"lines": "spout"}, [], bootstrap=kafka.bootstrap))
    with serving(source) as found:
        yield f"{found}/t/audited/audit"


def made(start: int, end: int, *skipped: Skipped) -> FinishedRange:
    """Return a range with one dead letter and the rest acked, or with all skipped."""
    return FinishedRange(
        v=VERSION,
        reading="/kstorm/audited",
        topic="orders",
        partition=3,
        start=start,
        end=end,
        n={"skipped": end - start} if skipped else {"acked": end - start - 1, "dead": 1},
        skipped=[*skipped],
        at=1_700_000_000_000,
    )


def test_audit_shows_gaps_and_the_operator_who_skipped(url: str, open_page: OpenPage) -> None:
    """Names of other people's making stay text."""
    page = open_page(url)
    expect(page.locator("#verdict")).to_contain_text(
        "Some offsets are in no range: kstorm has violated an invariant"
    )
    row = page.locator("#accounts tbody tr")
    expect(row).to_have_count(1)
    cells = row.locator("td").all_inner_texts()
    assert cells[:6] == ["3", "/kstorm/audited", "0", "10", "50", "10 to 11"]
    assert cells[6:11] == ["36", "0", "2", "10", "0"]
    expect(page.locator("#accounts")).not_to_contain_text("claimed")
    expect(page.locator("#skipped tbody tr")).to_contain_text("anna@laptop")
    assert page.locator("img").count() == 0
    assert "\u202e" not in page.content()


def test_audit_json_matches_the_page(url: str, open_page: OpenPage) -> None:
    told = open_page(url).request.get(url.replace("/t/", "/api/v1/t/")).json()
    [account] = told["partitions"]
    assert (account["partition"], account["start"], account["end"], account["gaps"]) == (
        3,
        0,
        50,
        [[10, 12]],
    )
    assert account["counts"] == {"acked": 36, "dead": 2, "skipped": 10}
    assert [skip["who"] for skip in account["skipped"]] == ["anna@laptop"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_audit(
    url: str, open_page: OpenPage, violations: Callable[[Page], list[str]], scheme: str
) -> None:
    assert violations(open_page(url, color_scheme=scheme)) == []
