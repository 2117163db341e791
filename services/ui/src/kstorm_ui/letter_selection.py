"""The dead letters that an action applies to, as selected in its form."""

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from kstorm.errors import ConfigError, ControlError
from kstorm.operations.letters.reading import read_letters
from kstorm.operations.letters.selection import NumberedLetter
from kstorm.runtime.base.settings import Settings
from kstorm_ui.page_redaction import LetterFilter
from kstorm_ui.sources.newest_letters import letters_of


class SelectedLetters(msgspec.Struct, frozen=True):
    """One dead letter by its number, or all dead letters that match a filter and existed when the
    form was shown."""

    number: int | None = None
    wanted: LetterFilter = LetterFilter()
    until: int | None = None
    """Number of the last dead letter that existed. None: no limit."""

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        said = [
            f"{name} {text}" for name, text in msgspec.structs.asdict(self.wanted).items() if text
        ]
        return ", ".join(said) or "all"

    @property
    def fields(self) -> Mapping[str, str]:
        """Fields for a link to the form, or for hidden inputs. `selected_by` parses them."""
        found = {} if self.number is None else {"number": str(self.number)}
        found |= {name: text for name, text in msgspec.structs.asdict(self.wanted).items() if text}
        return found if self.until is None else found | {"until": str(self.until)}

    @property
    def query(self) -> str:
        """Query string for a path. Empty if all dead letters are selected."""
        return f"?{urlencode(self.fields)}" if self.fields else ""

    def letters(self, settings: Settings, topology: str) -> list[NumberedLetter]:
        """Return the selected dead letters, without their message contents.

        Raises `ControlError` if there is none, and `BrokerError` if Kafka does not respond.
        """
        if self.number is not None:
            there = read_letters(settings, topology, self.number).letters
            found = [one for one in there if one.number == self.number]
        else:
            there = self.wanted.of(letters_of(settings, topology).letters)
            found = [one for one in there if self.until is None or one.number <= self.until]
        if not found:
            raise ControlError(
                f"{topology!r} has no dead letter that matches the selection ({self}): "
                "it was discarded, or a newer one has replaced it"
            )
        return found

    def upto(self, number: int) -> "SelectedLetters":
        """Return the same selection, limited to numbers up to `number`."""
        return msgspec.structs.replace(self, until=number)


def selected_by(fields: Mapping[str, str]) -> SelectedLetters:
    """Parse the fields of a form or a link. Raises `ConfigError` if a number is invalid."""
    wanted = LetterFilter(**{name: fields.get(name, "") for name in LetterFilter.__struct_fields__})
    return SelectedLetters(_number(fields, "number"), wanted, _number(fields, "until"))


def _number(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ConfigError(f"{name}: {text!r} is not the number of a dead letter")
    return int(text)
