"""Uploads that have not ended count in the quota, on PostgreSQL and MariaDB."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.api.image.upload_quota_cases import Site, UploadQuotaCases, make_site


@pytest.fixture(params=["fresh_postgresql_url", "fresh_mariadb_url"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    yield from make_site(tmp_path, request.getfixturevalue(request.param)())


class TestOnServers(UploadQuotaCases):
    pass
