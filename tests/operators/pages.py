"""What the pages of docs/operators tell operators to type and to write."""

import re
from pathlib import Path

_PAGES = Path(__file__).parents[2] / "docs/operators"


def blocks(page: str, heading: str) -> list[str]:
    """Returns the indented blocks below the heading, up to the next heading, without their indentation."""
    line_blocks: list[list[str]] = []
    inside, is_open, before = False, False, ""
    for line in (_PAGES / page).read_text().splitlines():
        if line.startswith("#"):
            inside = line.lstrip("#").strip() == heading
        # Without an empty line before it, an indented line continues the text of a list.
        is_open = line.startswith("    ") and (is_open or not before.strip())
        if inside and is_open:
            if not before.startswith("    "):
                line_blocks.append([])
            line_blocks[-1].append(line[4:])
        before = line
    assert line_blocks, f"{page} has no block below {heading!r}"
    return ["\n".join(lines) + "\n" for lines in line_blocks]


def commands(block: str) -> list[str]:
    """Returns the commands of a block: a line that ends with a backslash goes on in the next."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def typed(page: str, *beginnings: str) -> list[str]:
    """Returns the commands in the page's text that begin so, one for each beginning."""
    spans = re.findall(r"`([^`\n]+)`", (_PAGES / page).read_text())
    commands_by_beginning = [[span for span in spans if span.startswith(beginning)] for beginning in beginnings]
    assert all(len(each) == 1 for each in commands_by_beginning), (page, beginnings, commands_by_beginning)
    return [command for each in commands_by_beginning for command in each]
