"""The error for input of a flavor or a user that a filter cannot interpret."""

from minova import errors


class InvalidFilterInput(errors.BadRequest):
    """The text names key and value. `nova_name`: the type of the Python error, which Nova does not catch."""

    def __init__(self, text: str, cause: Exception) -> None:
        super().__init__(f"{text}: {cause}")
        self.nova_name = type(cause).__name__
