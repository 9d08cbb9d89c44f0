"""Work for many members in one transaction, where one failing member must not fail the others."""

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from minova import errors

LOG = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def together_or_alone(what: str, members: Mapping[K, V], work: Callable[[Mapping[K, V]], None]) -> dict[K, Exception]:
    """Do `work` for all members; if that fails, for each alone. Returns the errors of the members that failed alone.

    `work` does all or nothing, such as one transaction. Raises ServiceUnavailable if the database is away, because that
    is not a member's error; what was done for some members by then stays.
    """
    try:
        work(members)
    except errors.ServiceUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  - whatever it is, the members are tried alone
        if len(members) == 1:
            return dict.fromkeys(members, error)
        LOG.warning("%s: %d together failed (%s), each is tried alone", what, len(members), error)
    else:
        return {}
    failed: dict[K, Exception] = {}
    for key, value in members.items():
        try:
            work({key: value})
        except errors.ServiceUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  - whatever it is, it is this member's alone
            failed[key] = error
    return failed
