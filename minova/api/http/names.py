"""Validation of names by Nova's rule: 1 to 255 printable characters, no white space at either end."""

import unicodedata

from minova import errors

LONGEST = 255


def fault_of(name: str) -> str | None:
    """What is wrong with a name, or None. Markup is allowed: an XML writer must escape it anyway."""
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
    """Returns the name. Raises BadRequest with the reason."""
    fault = fault_of(name)
    if fault:
        raise errors.BadRequest(f"{what} is not valid: {fault}.")
    return name


def _printable(letter: str) -> bool:
    category = unicodedata.category(letter)
    return not category.startswith("C") and (not category.startswith("Z") or category == "Zs")
