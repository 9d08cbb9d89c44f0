"""Compute microversions."""

import pytest

from minova import errors
from minova.api.compute import versions
from minova.api.http.microversions import VersionNotSupported

VERSIONS: dict[tuple[str | None, str | None], str] = {
    (None, None): "2.1",
    ("compute 2.1", None): "2.1",
    ("volume 3.0", None): "2.1",
    ("volume 3.0, compute 2.90", None): "2.90",
    (None, "2.25"): "2.25",
    ("compute latest", "2.1"): "latest",
}


@pytest.mark.parametrize(("headers", "expected"), VERSIONS.items())
def test_requested_version_of_headers(headers: tuple[str | None, str | None], expected: str) -> None:
    assert versions.requested_version(*headers) == expected


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("2.105", VersionNotSupported),
        ("2.9999", VersionNotSupported),
        ("3.0", VersionNotSupported),
        ("2.0", VersionNotSupported),
        ("two", errors.BadRequest),
        ("2", errors.BadRequest),
        ("2.01", errors.BadRequest),
    ],
)
def test_unsupported_or_malformed_version_is_refused(version: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        versions.parse(version)


def test_every_version_up_to_the_newest_is_served() -> None:
    assert [versions.parse(f"2.{minor}") for minor in range(1, 105)] == [(2, minor) for minor in range(1, 105)]
    assert versions.parse("latest") == versions.MAX == (2, 104)
