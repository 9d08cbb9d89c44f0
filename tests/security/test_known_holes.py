"""Holes of Nova that minova's own code must not have again, where no test of behaviour would notice it."""

import ast
from pathlib import Path

import minova

VIRT = Path(minova.__file__).parent / "virt"


def test_a_disk_is_resized_only_as_the_format_that_is_recorded_of_it() -> None:
    """CVE-2026-24708: without a format, qemu-img believes a header that the guest has written."""
    commands = [
        [ast.unparse(part) for part in node.elts]
        for path in VIRT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List) and "'resize'" in [ast.unparse(part) for part in node.elts]
    ]
    assert commands
    # An encrypted disk is opened by a description, which names its format.
    plain = [command for command in commands if not any(part.startswith("*key.opening(") for part in command)]
    assert plain != commands
    assert [command for command in plain if "'-f'" not in command] == []
