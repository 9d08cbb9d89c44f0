"""Text that others have written, on our terminal."""


def printable(text: str) -> str:
    """Without control characters, which could act on the terminal: each becomes a space."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
