"""A user who is no administrator."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests.functional.api.conftest import Cloud
from tests.unit.api.access.test_auth import basic

Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def alice(cloud: Cloud, tmp_path: Path) -> Iterator[Ask]:
    """`cloud.ask` of a member of project p2."""
    file = tmp_path / "htpasswd"
    file.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    users = Cloud(
        tmp_path, auth_strategy="http_basic", http_basic_auth_user_file=str(file), user_roles=["alice:p2:member"]
    )
    yield lambda method, path, body=None: users.ask(
        method, path, body, headers={"Authorization": basic(b"alice:secret")}
    )
    users.close()
