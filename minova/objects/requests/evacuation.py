"""Evacuations: what is requested, and what the new host gets. Pure.

ACTIVE, STOPPED, ERROR  --evacuate-->  rebuilding, task(schedule)           accepted
                                          | the scheduler chooses a host: attempt N+1
                                          v claimed there: the row names it  pre-migrating
                                       ACTIVE, or STOPPED                    done
                                          | the old host is back and has removed what it had
                                          v                                  completed
no host, no disks, ...: as it was, on its old host                           error
"""

import msgspec

# Names in the records of actions, as in Nova.
ACTION, EVENT = "evacuate", "compute_rebuild_instance"


class EvacuationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`host`: where the server is to go; None: the scheduler chooses. `force`: no filter looks at that host.
    `stops`: the server is stopped there, even if it was not before.
    `shared_disks`: whether the disks must be found there, or must not; None: they are used if they are found.
    """

    host: str | None = None
    force: bool = False
    stops: bool = False
    shared_disks: bool | None = None
    admin_password: str | None = None


class Evacuation(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a build an evacuation, for the new host. `stops`: the guest is not started. `old_attempt`: of the guest on its old
    host; 0: not known, from an earlier version.
    """

    stops: bool = False
    shared_disks: bool | None = None
    old_attempt: int = 0
