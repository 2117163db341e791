"""Format times, numbers and failures."""

from kstorm.core.failure_notes import Note


def utc_clock(ms: float) -> str:
    """Return `08:59:12 UTC`."""
    seconds = int(ms // 1000) % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def duration(ms: float) -> str:
    """Return `38 ms`, `3.4 s`, `12 min`, `5 h` or `2 d`."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000)):
        if ms >= size:
            return f"{ms // size:.0f} {unit}"
    return f"{ms // 60_000:.0f} min"


def utc_time(ms: float, now: float) -> str:
    """Return `at 08:59:12 UTC (in 3.4 s)`."""
    return f"at {utc_clock(ms)} ({f'in {duration(ms - now)}' if ms > now else f'{duration(now - ms)} ago'})"


def counted(count: int, what: str) -> str:
    """Return `1 frame` or `5,312 frames`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def failure(note: Note, task: str) -> str:
    """Return ` by split:5: ValueError: no such word (split.py:41)`."""
    what = "".join(f": {text}" for text in (note.type, note.message) if text and note.type)
    return f" by {task}{what}{f' ({note.where})' if note.where else ''}"
