"""The API's application over a database file, as the functional tests have it."""

from tests.functional.api.conftest import cloud, stocked

__all__ = ["cloud", "stocked"]
