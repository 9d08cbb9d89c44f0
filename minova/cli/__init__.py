"""The command line. `minova --version` needs this alone."""


def show_version() -> int:
    from importlib.metadata import version  # noqa: PLC0415 - imported with every other module of the command line

    print("minova", version("minova"))
    return 0
