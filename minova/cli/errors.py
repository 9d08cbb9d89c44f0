"""What stops a command. The text is all that a user sees: it says what went wrong and what to do."""


class CliError(Exception):
    """Ends a command with exit code 1."""


class UsageError(CliError):
    """The command line itself cannot be right: exit code 2."""


class Unreachable(CliError):
    """Nobody answered, or the connection was lost; asking again may help."""


class ApiError(CliError):
    """The API said no. `status` is HTTP's, the text is the API's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
