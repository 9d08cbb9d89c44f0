"""The ordinary `openstack` client, for many commands in one process: it takes most of a second to start.

Reads a JSON list of commands (lists of words), writes one of [exit code, standard output, standard error]. Words before the command:

    until TEXT    it is repeated until its words of output are those of the text, for two minutes at most
    keep NAME     later commands have its output's first word in place of $NAME
"""

import contextlib
import io
import json
import os
import pty
import sys
import time
from typing import Any

from openstackclient.shell import main

PATIENCE = 120.0
Ended = tuple[Any, str, str]


def run(words: list[str]) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = main(words)
        except SystemExit as ended:
            code = ended.code
    return code, out.getvalue(), err.getvalue()


def run_until(text: str, words: list[str]) -> Ended:
    deadline = time.monotonic() + PATIENCE
    while True:
        ended = run(words)
        if ended[1].split() == text.split() or ended[0]:
            return ended
        if time.monotonic() > deadline:
            return 1, ended[1], f"is not {text!r} within {PATIENCE:g} s"
        time.sleep(0.2)


def run_all(commands: list[list[str]]) -> list[Ended]:
    kept: dict[str, str] = {}
    results = []
    for given in commands:
        words = [kept.get(word, word) for word in given]
        if words[0] == "until":
            results.append(run_until(words[1], words[2:]))
        elif words[0] == "keep":
            results.append(run(words[2:]))
            kept[f"${words[1]}"] = (results[-1][1].split() or [""])[0]
        else:
            results.append(run(words))
    return results


if __name__ == "__main__":
    given = json.load(sys.stdin)
    # As people have it: else `image create` takes the end of the list of commands for an image without a byte.
    os.dup2(pty.openpty()[1], 0)
    sys.stdin = os.fdopen(0)
    print(json.dumps(run_all(given)))
