"""The API's application over a database file, as the functional tests have it."""

from tests.functional.api.conftest import cloud, stocked
from tests.functional.api.placement.conftest import empty, folder

__all__ = ["cloud", "empty", "folder", "stocked"]
