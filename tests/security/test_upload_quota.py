"""Uploads that have not ended count in the quota, on SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.api.image.upload_quota_cases import Site, UploadQuotaCases, make_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    yield from make_site(tmp_path, None)


class TestOnSqlite(UploadQuotaCases):
    pass
