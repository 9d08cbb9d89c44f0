"""The `minova` command. Modules are imported where they are used: most of a short command's time is imports."""

import contextlib
import io
import os
import sys
from collections.abc import Sequence

from minova.concurrency import threads

BROKEN_PIPE = 141  # as a shell reports a program that SIGPIPE ended


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit code: 0, 1 (failure), 2 (wrong usage), 130 (Ctrl-C)."""
    threads.report_crashes()
    arguments = [_text(argument) for argument in sys.argv[1:]] if argv is None else list(argv)
    try:
        code = _version() if arguments == ["--version"] else _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return 130
    return code


def _text(argument: str) -> str:
    """Returns the argument as its bytes are meant: terminals send UTF-8, whatever the locale says. Other bytes are read as the locale
    says.
    """
    try:
        return os.fsencode(argument).decode()
    except UnicodeError:
        return argument


def _version() -> int:
    from minova.cli import show_version  # noqa: PLC0415 - see the module's first line

    return show_version()


def _run(arguments: list[str]) -> int:
    from minova.cli.shell import Shell  # noqa: PLC0415 - see the module's first line

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
    try:
        return Shell().run(arguments)
    except SystemExit as stop:  # argparse ends so
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1


def _forget_stdout() -> None:
    """Discards further output after a broken pipe. Otherwise Python would try to flush it at exit and report an
    error.
    """
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
