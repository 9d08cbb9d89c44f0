"""Where the password of HTTP basic comes from: never from the command line, which everybody on the machine can read."""

import os
import sys

from minova.cli.errors import CliError


def password_for(username: str) -> str:
    """MINOVA_PASSWORD, else asked for on the terminal. CliError: there is neither."""
    password = os.environ.get("MINOVA_PASSWORD")
    if password is not None:
        return password
    if not sys.stdin.isatty():
        raise CliError(f"No password for user {username}: set MINOVA_PASSWORD.")
    from getpass import getpass  # noqa: PLC0415 - only when somebody types it

    return getpass(f"Password of {username}: ")
