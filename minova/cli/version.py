"""`minova --version`, which needs nothing else of the command line."""

from importlib.metadata import version


def show_version() -> int:
    print("minova", version("minova"))
    return 0
