"""The lock of the developers' packages."""

from tools.locks import subtract_lock


def test_subtracted_lock_keeps_other_entries_unchanged() -> None:
    entry = "{name}==1.0 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"
    a, b, c = (entry.format(name=name) for name in "abc")
    windows = c.replace("1.0", "1.0 ; sys_platform == 'win32'")
    assert subtract_lock(f"# a comment\n{a}{b}{c}", f"{b}{windows}") == f"{a}{c}"
