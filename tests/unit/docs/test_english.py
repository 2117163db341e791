"""The prose of the repository: no folder has a larger share of sentences that break a rule of docs/development/style.md."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import english
from tools.english import RULES, Hit, Share, broken_rule, fallen, folder, lowered, risen
from tools.prose import Sentence, sentences

COMMAND = "`python -m tools.english --write`"

SENTENCES = [
    ("old-word", "The bolt reads the topic anew.", "The bolt reads the topic again."),
    (
        "old-word",
        "The topic has to exist, else the spout waits.",
        "If there is no topic, the spout waits.",
    ),
    ("phrase", "The spouts stop to emit.", "The spouts stop emitting."),
    (
        "phrase",
        "The partition stands still after so many seconds.",
        "The partition stalls after 30 seconds, which is so long that it fails.",
    ),
    ("speech", "The broker tells its members.", "The broker notifies its members."),
    ("speech", "The error says which node it is.", "The error names the node."),
    ("no-actor", "Nobody reads that topic.", "No process reads that topic."),
    ("no-actor", "It waits; who takes over reads it.", "The process that takes over reads it."),
    ("opening", "What the acker sends to spouts.", "Messages from the acker to spouts."),
    ("opening", "Where a task keeps its state.", "Where the disk is full, the task stops."),
    ("opening", "Why the broker refused it.", "Why does the broker refuse it?"),
    (
        "inverted",
        "From a lost disk nothing is read.",
        "The process reads nothing from a lost disk.",
    ),
    (
        "clause-as-noun",
        "It counts the rows of what was written.",
        "It counts the rows that were written.",
    ),
    ("negated-noun", "The value is no number.", "The value is not a number. There is no number."),
    ("negated-noun", "A queue is no longer open, and is none.", "It is no longer None."),
    ("causative", "The flag has the spouts emit.", "The flag makes the spouts emit."),
    (
        "causative",
        "It has them all wait for the broker.",
        "It has the offset of the next one to read.",
    ),
    ("per", "The ledger takes 16 bytes a tree.", "The ledger takes 16 bytes per tree."),
    ("long", " ".join(["word"] * 26), " ".join(["word"] * 25)),
]


@pytest.mark.parametrize(("rule", "bad", "good"), SENTENCES)
def test_rule_finds_the_bad_sentence_only(rule: str, bad: str, good: str) -> None:
    found = broken_rule(bad)
    assert found is not None
    assert found.name == rule
    assert broken_rule(good) is None


def test_every_rule_has_an_example() -> None:
    assert {rule for rule, _, _ in SENTENCES} == {rule.name for rule in RULES}


def read(directory: Path, name: str, text: str) -> list[Sentence]:
    file = directory / name
    file.write_text(text)
    return list(sentences(file))


def test_sentences_of_markdown(tmp_path: Path) -> None:
    page = """# A heading is not prose

The first sentence has `code here`
and [a link](elsewhere.md). The second
one, e.g. this, ends later.

    an indented block is code

* This item has four words.
  Its second sentence follows.
* **Bold text ends here.** *Then more follows.*

```
a fenced block is code
```

| a header cell here | another header cell |
|---|---|
| cells of a table | word | `x` `y` `z` |
"""
    assert read(tmp_path, "page.md", page) == [
        (3, "The first sentence has X and a link."),
        (4, "The second one, e.g. this, ends later."),
        (9, "This item has four words."),
        (10, "Its second sentence follows."),
        (11, "Bold text ends here."),
        (11, "Then more follows."),
        (19, "cells of a table"),
    ]


def test_sentences_of_python(tmp_path: Path) -> None:
    module = '''"""Docstring of a module.

    code = "in a docstring"

Another paragraph of it.
"""

LIMIT = 3  # a comment behind code  # noqa
# A comment that fills
# two whole lines.
PLAIN = "this string is not a message"


def fails(value):  # noqa: ANN201 - not prose at all
    """Fail."""
    print(f"value {value!r} was read")
    raise ValueError(f"the value {value} is wrong; give a number" " above zero")


option(help="Number of all tasks.", name="not a help text")
'''
    assert sorted(read(tmp_path, "module.py", module)) == [
        (1, "Docstring of a module."),
        (5, "Another paragraph of it."),
        (8, "a comment behind code # noqa"),
        (9, "A comment that fills two whole lines."),
        (16, "value X was read"),
        (17, "give a number above zero"),
        (17, "the value X is wrong"),
        (20, "Number of all tasks."),
    ]


def test_sentences_of_yaml(tmp_path: Path) -> None:
    values = """# A comment on two
# lines. And more of it.
url: x # of the broker itself
# key: a setting that is commented out
# Sends to http://host:4318. Empty means nowhere.
"""
    assert read(tmp_path, "values.yaml", values) == [
        (1, "A comment on two lines."),
        (2, "And more of it."),
        (3, "of the broker itself"),
        (5, "Sends to http://host:4318."),
        (5, "Empty means nowhere."),
    ]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("README.md", "README.md"),
        ("docs/development/adr/README.md", "docs"),
        ("shared/src/kstorm/errors.py", "shared/src/kstorm"),
        ("shared/src/kstorm/core/engine/spout_engine.py", "shared/src/kstorm/core"),
        ("services/ui/src/kstorm_ui/app.py", "services/ui"),
        ("tests/conftest.py", "tests"),
        ("tests/unit/docs/test_pages.py", "tests/unit"),
    ],
)
def test_folder_of_a_file(file: str, name: str) -> None:
    assert folder(file) == name


def share(findings: int, total: int) -> Share:
    finding = Hit("README.md", 3, RULES[0], "The topic is read anew.")
    return Share([finding] * findings, total)


def test_percentage_is_rounded_up_to_a_tenth() -> None:
    assert share(1, 1000).percent == 0.1
    assert share(1, 999).percent == 0.2
    assert share(0, 0).percent == 0


def test_rise_is_reported_with_place_rule_and_sentence() -> None:
    (report,) = risen({"docs": share(2, 100), "helm": share(1, 100)}, {"docs": 1.9, "helm": 1.0})
    assert report.startswith("docs: 2.0 % of 100 sentences break a rule, and at most 1.9 % may")
    assert "README.md:3: old-word (use the modern word): The topic is read anew." in report


def test_folder_without_a_limit_may_have_no_finding() -> None:
    assert risen({"new": share(1, 1000)}, {})
    assert not risen({"new": share(0, 1000)}, {})


def test_fall_is_reported_from_half_a_point() -> None:
    limits = {"docs": 2.4, "helm": 2.5, "none": 0.1, "gone": 0.1}
    shares = {"docs": share(2, 100), "helm": share(2, 100), "none": share(0, 100)}
    reports = fallen(shares, limits)
    assert [report.partition(":")[0] for report in reports] == ["helm", "none", "gone"]


def test_limits_are_lowered_and_never_raised() -> None:
    shares = {"docs": share(2, 100), "helm": share(0, 100)}
    assert lowered(shares, {"docs": 3.0, "helm": 1.0, "gone": 5.0}) == {"docs": 2.0}
    with pytest.raises(ValueError, match=r"docs: 2\.0 % of 100"):
        lowered(shares, {"docs": 1.9})


def test_command_writes_no_higher_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, limits = tmp_path / "page.md", tmp_path / "english.json"
    page.write_text("The topic is read anew. The spout reads it.")
    limits.write_text('{"page.md": 49.9}')
    monkeypatch.setattr(english, "ROOT", tmp_path)
    monkeypatch.setattr(english, "LIMITS", limits)
    monkeypatch.setattr("sys.argv", ["english", "--write"])
    assert english.main() == 1
    assert "page.md:1: old-word" in capsys.readouterr().out
    assert json.loads(limits.read_text()) == {"page.md": 49.9}
    limits.write_text('{"page.md": 60}')
    assert english.main() == 0
    assert json.loads(limits.read_text()) == {"page.md": 50.0}


@pytest.fixture(scope="module")
def shares() -> Mapping[str, Share]:
    return english.measure(english.everything())


def test_no_share_has_risen(shares: Mapping[str, Share]) -> None:
    reports = risen(shares, english.limits())
    assert not reports, "\n".join(reports)


def test_fallen_shares_are_written_down(shares: Mapping[str, Share]) -> None:
    reports = fallen(shares, english.limits())
    assert not reports, f"lower the limits: run {COMMAND}, and commit\n" + "\n".join(reports)
