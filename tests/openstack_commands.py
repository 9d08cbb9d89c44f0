"""The ordinary `openstack` client, for many commands in one process: it takes most of a second to start.

Reads a JSON list of commands (lists of words), writes one of [exit code, standard output, standard error].
"""

import contextlib
import io
import json
import sys
from typing import Any

from openstackclient.shell import main


def run(words: list[str]) -> tuple[Any, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = main(words)
        except SystemExit as ended:
            code = ended.code
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    print(json.dumps([run(words) for words in json.load(sys.stdin)]))
