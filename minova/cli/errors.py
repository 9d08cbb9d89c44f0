"""Errors that end a command. A user sees only the text: what went wrong and what to do."""


class CliError(Exception):
    """Ends a command with exit code 1."""


class UsageError(CliError):
    """The command line is wrong: exit code 2."""


class Unreachable(CliError):
    """The API did not answer, or the connection was lost; trying again may help."""


class ApiError(CliError):
    """The API refused the request. `status` is the HTTP status; the text comes from the API."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
