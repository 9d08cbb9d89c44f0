"""Reports of all guests of a host."""

from typing import Annotated, Protocol

from msgspec import Meta

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.hosts.bounds import MAX_GUESTS, MAX_REPORTS, Line, Serial
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord, GuestsAnswer


@BY_COMPUTES
class GuestReportsApi(Protocol):
    @call(since="1.8", in_safe_mode=True)
    def report_guests(
        self,
        ctx: RequestContext,
        *,
        host: Line,
        guests: Annotated[tuple[GuestMark, ...], Meta(max_length=MAX_GUESTS)],
        number: Serial = 0,
    ) -> GuestsAnswer:
        """Compares all guests of a host with the rows. Changes no row but those of unexpected guests, and removes
        nothing.

        `number`, here and below: rises with each report of the process. A report that is not the latest is ignored. 0:
          the order is not known.

        Raises BadRequest if a mark is not valid or there are too many. Raises DiskFull if there is no room.
        """
        ...

    @call(since="1.8", in_safe_mode=True)
    def report_guest_records(
        self,
        ctx: RequestContext,
        *,
        host: Line,
        records: Annotated[tuple[GuestRecord, ...], Meta(max_length=MAX_REPORTS)],
        number: Serial = 0,
    ) -> None:
        """Stores the records that the answer to `report_guests` wanted, and holds the addresses of these guests. Records
        that are not valid, and those of more guests than the host can hold, are left out.
        """
        ...
