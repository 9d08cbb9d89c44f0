"""Validation of names by Nova's rule: 1 to 255 printable characters, no white space at either end."""

import re
import unicodedata

from minova import errors

LONGEST = 255
LONGEST_LABEL = 63
_HOSTNAME = re.compile(r"[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+")
_FULL_NAME = re.compile(r"[a-zA-Z0-9-._]+")


def fault_of(name: str) -> str | None:
    """Returns what is wrong with a name, or None. Markup is allowed: an XML writer must escape it anyway."""
    if not name:
        return "it is empty"
    if len(name) > LONGEST:
        return f"it is {len(name)} characters long, and may be {LONGEST}"
    if name != name.strip():
        return "it begins or ends with white space"
    for position, letter in enumerate(name, 1):
        if not _printable(letter):
            return f"character {position} (U+{ord(letter):04X}) cannot be printed"
    return None


def checked(what: str, name: str) -> str:
    """Returns the name. Raises BadRequest, with the reason, if it is invalid."""
    fault = fault_of(name)
    if fault:
        raise errors.BadRequest(f"{what} is not valid: {fault}.")
    return name


def checked_hostname(name: str, *, dots: bool) -> str:
    """Returns the name. Raises BadRequest, with Nova's text, if it is not a host name. `dots`: fully qualified names
    are allowed.
    """
    pattern, longest = (_FULL_NAME, LONGEST) if dots else (_HOSTNAME, LONGEST_LABEL)
    if not pattern.fullmatch(name) or len(name) > longest:
        raise errors.BadRequest(
            f"Invalid input for field/attribute hostname. Value: {name[:64]}. '{name[:64]}' does not match '{pattern.pattern}'"
        )
    return name


def _printable(letter: str) -> bool:
    category = unicodedata.category(letter)
    return not category.startswith("C") and (not category.startswith("Z") or category == "Zs")
