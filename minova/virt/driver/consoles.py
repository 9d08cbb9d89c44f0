"""The consoles of guests, and their logs."""

import re
from typing import Protocol

from minova.objects.guests.console import ConsoleAddress, ConsoleType

# All that Nova's API leaves out. A guest, and some firmware, writes NUL characters too, which no answer of a host may have.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")


def last_lines(text: str, length: int | None) -> str:
    """Returns the last `length` lines, or the whole text if it is None, without control characters other than tabs and line ends.
    The last line has no newline, so that a client that splits the text at newlines gets as many lines as it requested.
    """
    text = _CONTROL.sub("", text)
    if length is None:
        return text
    return "\n".join(text.removesuffix("\n").split("\n")[-length:]) if length > 0 else ""


class ConsoleDriver(Protocol):
    def console(self, instance_uuid: str, console_type: ConsoleType) -> ConsoleAddress:
        """Returns the address where a proxy reaches the console. Raises NotFound if there is no such domain, Conflict
        if it does not run, ConsoleTypeUnavailable if it has no such console.
        """
        ...

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        """Returns the last `tail_length` lines, or all that is kept. Raises NotFound if there is no such domain."""
        ...

    def bound_console_logs(self) -> None:
        """Truncate the console logs that have grown beyond the configured size."""
        ...
