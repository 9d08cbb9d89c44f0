"""Placement's error responses, with the codes of OpenStack Placement (microversion 1.23) that its clients check."""

from minova import errors

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
INVENTORY_INUSE = "placement.inventory.inuse"
DUPLICATE_NAME = "placement.duplicate_name"
PROVIDER_INUSE = "placement.resource_provider.inuse"
CANNOT_DELETE_PARENT = "placement.resource_provider.cannot_delete_parent"
PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"
DUPLICATE_KEY = "placement.query.duplicate_key"
BAD_VALUE = "placement.query.bad_value"
MISSING_VALUE = "placement.query.missing_value"


class Refused(errors.MinovaError):
    """Base class of the errors below. `placement_code` identifies the error for programs."""

    def __init__(self, message: str, placement_code: str = UNDEFINED) -> None:
        super().__init__(message)
        self.placement_code = placement_code


class BadRequest(Refused, errors.BadRequest):
    """The request cannot be fulfilled: an unknown class or trait, a bad unit, a malformed query."""


class NotFound(Refused, errors.NotFound):
    """There is no such provider, inventory, class, trait or allocation."""


class Conflict(Refused, errors.Conflict):
    """A generation has changed, the object is in use, or there is not enough capacity."""
