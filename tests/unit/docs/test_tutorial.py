"""The first three pages of the tutorial: their files are written, and their commands are run, in order."""

from pathlib import Path

import pytest

from tests.tutorial import START, Block, Step, assert_printed, follow, steps


def test_pages_that_need_no_server_print_what_they_show(tmp_path: Path) -> None:
    """Each page continues in the folder of the page before it."""
    assert len(follow(START / "install.md", tmp_path)) == 1
    _, exact, too_high = follow(START / "first-topology.md", tmp_path)
    counts: dict[str, int] = eval(too_high)
    right: dict[str, int] = eval(exact)
    assert all(counts[word] > right[word] for word in right), "the page says that each is too high"
    assert len(follow(START / "test.md", tmp_path)) == 2
    assert len(follow(START / "deploy.md", tmp_path)) == 1


def test_steps_of_a_block() -> None:
    block = Block(
        "console", "", "$ pytest -q  # both files\n…\n1 passed\n$ kstorm \\\n> --version\n"
    )
    assert list(steps(block)) == [Step("pytest -q", "…\n1 passed\n"), Step("kstorm --version", "")]


def test_a_wrong_output_is_found() -> None:
    with pytest.raises(AssertionError, match=r"prints\ncow 2\nand the page shows\ncow 1"):
        assert_printed("cow 1", "cow 2", "python count.py")
    assert_printed("{'cow': …}", "{'cow': 104}")
