"""The error for what a flavor or a user wrote and a filter cannot make sense of."""

from minova import errors


class InvalidFilterInput(errors.BadRequest):
    """The text names key and value. `nova_name` is the kind of Python's own error, which Nova lets through."""

    def __init__(self, text: str, cause: Exception) -> None:
        super().__init__(f"{text}: {cause}")
        self.nova_name = type(cause).__name__
