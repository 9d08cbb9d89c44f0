"""What a contract is: a Protocol whose methods are marked `call` (an answer is awaited) or `cast` (a hint).

Each contract class carries TOPIC, VERSION ("major.minor": minor = added, major = broken) and HISTORY.
"""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def call(method: F) -> F:
    """The caller waits for the answer or the error."""
    method.__rpc_kind__ = "call"  # type: ignore[attr-defined]
    return method


def cast(method: F) -> F:
    """Nobody waits: whoever casts has written a row first, from which the loss of the message is healed."""
    method.__rpc_kind__ = "cast"  # type: ignore[attr-defined]
    return method
