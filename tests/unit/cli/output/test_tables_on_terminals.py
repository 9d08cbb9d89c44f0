"""Tables on a terminal and elsewhere: a long value, such as cpu_info in `hypervisor show`, and an empty list."""

import os
import pty
import re
import subprocess
import sys
import termios

WIDTH = 80
PROGRAM = """
import argparse, sys
from minova.cli.output.table import Table
options = argparse.Namespace(columns=[], max_width=0, fit_width=False, print_empty=False)
value = "{" + ", ".join(f'"feature{n}": true' for n in range(100)) + "}" + "x" * 200
Table().emit_one(["id", "cpu_info"], ["1", value], sys.stdout, options)
"""
EMPTY = """
import argparse, sys
from minova.cli.output.table import Table
options = argparse.Namespace(columns=[], max_width=0, fit_width=False, print_empty=False)
Table().emit_list(["id", "name"], [], sys.stdout, options)
"""


def on_terminal(program: str) -> str:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, WIDTH))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "CLIFF_FIT_WIDTH"}}
    process = subprocess.Popen([sys.executable, "-c", program], stdin=theirs, stdout=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return shown.decode().replace("\r", "")


def elsewhere(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_it_fits_a_terminal() -> None:
    shown = on_terminal(PROGRAM)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert '"feature99"' in shown


def test_it_is_whole_elsewhere() -> None:
    assert max(map(len, elsewhere(PROGRAM).splitlines())) > 2000


TIMES = """
import argparse, sys
from minova.cli.output.table import Table
options = argparse.Namespace(columns=[], max_width=0, fit_width=False, print_empty=False)
times = ("2026-11-27T11:26:04.123456", "2026-11-27T11:26:04.123Z", "2026-11-27T11:26:04.123456+01:00", "at 2026-11-27T11:26:04.123456")
Table().emit_list(["a", "b", "c", "d"], [times], sys.stdout, options)
Table().emit_one(["a", "b", "c", "d"], times, sys.stdout, options)
"""


def test_times_in_tables_have_no_microseconds() -> None:
    for cell in ("2026-11-27T11:26:04", "2026-11-27T11:26:04Z", "2026-11-27T11:26:04+01:00"):
        assert elsewhere(TIMES).count(f" {cell} ") == 2
    # Text that has a time in it may be of users.
    assert elsewhere(TIMES).count("at 2026-11-27T11:26:04.123456") == 2


def test_an_empty_list_is_a_sentence_on_a_terminal_alone() -> None:
    assert on_terminal(EMPTY) == "There is nothing to list.\n"
    assert elsewhere(EMPTY).strip() == ""


ACTING = """
import argparse, sys
from minova.cli.base import Lister, ShowOne
from minova.cli.output.columns import Words

class App:
    stdin, stdout, stderr = sys.stdin, sys.stdout, sys.stderr

TEXTS = ("a\\x1b]0;owned\\x07b", "one\\x9b2Jtwo", "three\\rfour", "five\\nsix")

class Show(ShowOne):
    "Shows what others have named."
    formatter_namespace = formatter_default = "table"
    def take_action(self, options):
        return ("tags", *"wxyz"), (Words(TEXTS), *TEXTS)

class List(Lister):
    "Lists it."
    formatter_namespace = formatter_default = "table"
    def take_action(self, options):
        return ("tags", *"wxyz"), [(Words(TEXTS), *TEXTS)]

for kind in (Show, List):
    command = kind(App(), None)
    for name in ("table", "value", "csv" if kind is List else "shell"):
        parser = command.get_parser("x")
        command.run(parser.parse_args(["-f", name, *(["--max-width", "300"] if name == "table" else [])]))
"""
ACTS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def test_bug_what_others_have_named_acted_on_the_terminal() -> None:
    """A tag with an escape sequence, which any project can give an image that all see, changed the terminal of who looked."""
    shown = on_terminal(ACTING)
    assert ACTS.findall(shown) == []
    assert shown.count("owned") == 12
    assert "five\nsix" in shown
    # Programs that read it get the values themselves; tables are for people.
    whole = elsewhere(ACTING)
    table = whole[: whole.index("a\x1b]")]
    assert "a ]0;owned b" in table
    assert ACTS.findall(table) == []


def test_the_list_of_commands_fits_a_terminal() -> None:
    program = "from minova.cli.main import main; main(['help', 'server', 'migration'])"
    lines = on_terminal(program).splitlines()
    assert max(map(len, lines)) <= WIDTH
    # A command's text continues below its first line.
    (begin,) = [line for line in lines if line.startswith("  server migration abort ")]
    assert lines[lines.index(begin) + 1].startswith(" " * begin.index("Abort") + "its host.")
    assert len(elsewhere(program).splitlines()) < len(lines)
