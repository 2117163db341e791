"""A page has a table for each topology of the end-to-end run. A run replaces its own table."""

from pathlib import Path

import pytest

from kstorm.errors import ConfigError
from tests.e2e.inside.findings import Findings
from tests.e2e.orders import ORDERS
from tests.e2e.outcome import E2eOutcome, Episode
from tests.e2e.page import check_page, write_page
from tests.e2e.release import Sample
from tests.e2e.trial import Trial
from tests.e2e.wordcount import WORDCOUNT

PAGE = """before
<!-- e2e wordcount begins -->
old words
<!-- e2e wordcount ends -->
between
<!-- e2e orders begins -->
<!-- e2e orders ends -->
after
"""


def outcome(trial: Trial, findings: Findings) -> E2eOutcome:
    """Return a run with one disturbance, at 100 s, which stopped the sink for 4 s."""
    samples = [
        Sample(at, 0, sink)
        for at, sink in ((99.0, 5), (100.0, 6), (101.0, 6), (104.0, 7), (111.0, 7))
    ]
    episode = Episode("the spout's pod is deleted", 100.0, 103.25, 112.0)
    return E2eOutcome(trial, [episode], samples, findings, None, None, 10, [], "Kubernetes v1")


def test_run_replaces_its_own_table(tmp_path: Path) -> None:
    """The order and the number of runs do not matter. The rest of the page stays."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    words = outcome(WORDCOUNT, Findings(messages=10, due=40, slowest=[(102.0, 105.5)]))
    orders = outcome(
        ORDERS,
        Findings(
            messages=10, due=9, letters=1, copies={"101": 2, "500": 1}, slowest=[(90.0, 101.0)]
        ),
    )
    for one in (orders, words, orders):
        check_page(page, one.trial.name)
        write_page(one, page)
    begins, ends, written = (
        "<!-- e2e orders begins -->",
        "<!-- e2e orders ends -->",
        page.read_text(),
    )
    assert "old words" not in written
    assert [line for line in written.splitlines() if line in PAGE.splitlines()] == [
        line for line in PAGE.splitlines() if line != "old words"
    ]
    table = written.partition(begins)[2].partition(ends)[0].splitlines()
    assert table[1].endswith(
        ", Kubernetes v1. 10 messages, 9 orders; **lost 0**, strange 0, written again 3, dead letters 1."
    )
    assert table[3:] == [
        "| disturbance | ready again, s | longest stop, s | worst message, s | orders written again |",
        "| --- | --- | --- | --- | --- |",
        "| the spout's pod is deleted | 3.2 | 4.0 | 11.0 | 2 |",
    ]
    assert "| the spout's pod is deleted | 3.2 | 4.0 | 3.5 | 0 |" in written.partition(begins)[0]


def test_page_without_a_place_is_rejected_before_the_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    with pytest.raises(ConfigError, match="there is no such page"):
        check_page(page, "orders")
    page.write_text(PAGE.replace("<!-- e2e orders ends -->", ""))
    with pytest.raises(
        ConfigError, match="<!-- e2e orders begins --> and <!-- e2e orders ends -->"
    ):
        check_page(page, "orders")
    check_page(page, "wordcount")


def test_page_of_the_documentation_has_both_places() -> None:
    page = Path(__file__).parents[3] / "docs/operations.md"
    for trial in (WORDCOUNT, ORDERS):
        check_page(page, trial.name)
