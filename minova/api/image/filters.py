"""The query of a listing of images: filters and order."""

import csv
import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial

from minova import errors
from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.structs import Int64, PageQuery, check_sort_keys
from minova.api.image.view import is_visible, view
from minova.db.api_queries import images
from minova.db.api_queries.images import ImageWithMembership
from minova.objects.catalogue.image import Image

MAX_VALUES = 100  # of one filter
VISIBILITIES = ("community", "public", "private", "shared")
MEMBER_STATUSES = ("pending", "accepted", "rejected")


class ImagesQuery(PageQuery, frozen=True, kw_only=True):
    """Every other parameter is a filter, too: by a field of the image, or by a property."""

    name: str | None = None
    status: str | None = None
    visibility: str | None = None
    owner: str | None = None
    disk_format: str | None = None
    container_format: str | None = None
    id: str | None = None
    tag: tuple[str, ...] = ()
    protected: bool | None = None
    os_hidden: bool = False
    size_min: Int64 | None = None
    size_max: Int64 | None = None
    created_at: str | None = None
    updated_at: str | None = None
    member_status: str = "accepted"
    sort: str | None = None
    sort_key: tuple[str, ...] = ()
    sort_dir: tuple[str, ...] = ()


_PARAMETERS = frozenset(ImagesQuery.__struct_fields__)
_COMPARISONS: dict[str, Callable[[datetime, datetime], bool]] = {
    "lt": operator.lt,
    "lte": operator.le,
    "eq": operator.eq,
    "neq": operator.ne,
    "gte": operator.ge,
    "gt": operator.gt,
}


def order(query: ImagesQuery) -> list[tuple[str, bool]]:
    """Returns (key, whether descending) pairs, from `sort=name:asc,created_at` or from sort_key and sort_dir."""
    if query.sort is not None:
        if query.sort_key or query.sort_dir:
            raise errors.BadRequest("Give sort, or sort_key and sort_dir, not both.")
        pairs = [part.strip().partition(":")[::2] for part in query.sort.split(",", maxsplit=len(images.SORT_KEYS))]
    else:
        directions = query.sort_dir or ("desc",)
        keys = query.sort_key or ("created_at",)
        pairs = [(key, directions[min(number, len(directions) - 1)]) for number, key in enumerate(keys)]
    check_sort_keys([key for key, _ in pairs], images.SORT_KEYS)
    for key, direction in pairs:
        if direction not in ("", "asc", "desc"):
            raise errors.BadRequest(f"Images cannot be sorted by {key} {direction}.")
    return [(key, direction != "asc") for key, direction in pairs]


def any_of(value: str | None) -> tuple[str, ...] | None:
    """Returns the values that match a filter: one value, or several in the form `in:one,"two, three"`.
    None: any value.
    """
    if value is None or not value.startswith("in:"):
        return None if value is None else (value,)
    try:
        values = tuple(next(csv.reader([value.removeprefix("in:")]), []))
    except csv.Error as error:
        raise errors.BadRequest(f"Invalid list of values for a filter: {error}.") from None
    if len(values) > MAX_VALUES:
        raise errors.BadRequest(f"A filter takes {MAX_VALUES} values at most, and {len(values)} are given.")
    return values


def matcher(call: Call, others: Mapping[str, str] | None = None) -> Callable[[ImageWithMembership], bool]:
    """Returns a function that decides whether an image is listed.

    `others`: filters that the query struct does not have; None: those of the request.

    Raises BadRequest if a filter is malformed.
    """
    query: ImagesQuery = call.query
    if query.member_status not in (*MEMBER_STATUSES, "all"):
        raise errors.BadRequest(f"Invalid status: {query.member_status[:64]}")
    if query.visibility not in (None, "", *VISIBILITIES, "all"):
        raise errors.BadRequest(f"Invalid visibility value: {query.visibility[:64]}")
    conditions = [
        *_field_filters(query),
        *_time_filters(query),
        *_other_filters(_property_filters(call) if others is None else others),
    ]
    return lambda seen: _listed(seen, call) and all(holds(seen.image) for holds in conditions)


Condition = Callable[[Image], bool]


def _field_filters(query: ImagesQuery) -> list[Condition]:
    conditions: list[Condition] = [
        lambda image: image.os_hidden == query.os_hidden,
        lambda image: set(query.tag) <= set(image.tags),
    ]
    for field in ("id", "disk_format", "container_format"):
        values = any_of(getattr(query, field))
        if values is not None:
            conditions.append(lambda image, field=field, values=values: getattr(image, field) in values)  # type: ignore[misc]
    for field in ("owner", "protected"):
        expected = getattr(query, field)
        if expected is not None:
            conditions.append(lambda image, field=field, expected=expected: getattr(image, field) == expected)  # type: ignore[misc]
    least, most = query.size_min, query.size_max
    if least is not None:
        conditions.append(lambda image: (image.size or 0) >= least)
    if most is not None:
        conditions.append(lambda image: (image.size or 0) <= most)
    return conditions


def _time_filters(query: ImagesQuery) -> Iterator[Condition]:
    """`created_at=gte:2026-01-31T12:00:00Z`; without an operator the times must be equal."""
    for field in ("created_at", "updated_at"):
        text: str | None = getattr(query, field)
        if text is not None:
            name, colon, rest = text.partition(":")
            compare = _COMPARISONS.get(name if colon else "")
            at = times.parse(text if compare is None else rest)
            yield partial(_compared, field, compare or operator.eq, at)


def _compared(field: str, compare: Callable[[datetime, datetime], bool], at: datetime, image: Image) -> bool:
    value: datetime | None = getattr(image, field) or image.created_at
    return value is not None and compare(value.replace(microsecond=0, tzinfo=None), at)


def _property_filters(call: Call) -> dict[str, str]:
    return {
        key: value[-1] if isinstance(value, list) else value
        for key, value in call.request.params.items()
        if key not in _PARAMETERS
    }


def _other_filters(filters: Mapping[str, str]) -> Iterator[Condition]:
    """Compares the filters with the fields and properties in the image's representation."""
    if filters:
        yield partial(_shows, filters)


def _shows(filters: Mapping[str, str], image: Image) -> bool:
    fields = view(image)
    return all(
        key in fields and (text == str(fields[key]) or (fields[key] is None and text == ""))
        for key, text in filters.items()
    )


def _listed(seen: ImageWithMembership, call: Call) -> bool:
    """Whether the request lists the image. Other projects' community images need `visibility=community` or `all`;
    shared ones need the requested `member_status`, which is accepted by default.
    """
    image, query = seen.image, call.query
    if query.visibility not in (None, "", "all", image.visibility):
        return False
    if not query.visibility and image.visibility == "community" and image.owner != call.ctx.project_id:
        return False
    if not is_visible(seen, call):
        return False
    is_foreign = seen.member_status is not None and not call.ctx.is_admin
    return not is_foreign or query.member_status in ("all", seen.member_status)
