"""A cloud with three identities: administrator, and users alice and bob, each with a project of that name."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bcrypt

from tests.functional.api.conftest import Cloud

PASSWORD = "secret"


def with_users(
    folder: Path,
    cost: int = 4,
    users: Sequence[str] = ("admin", "alice", "bob"),
    password: str = PASSWORD,
    **options: Any,
) -> Cloud:
    """Its htpasswd file has hashes of this cost."""
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()
    file = folder / "htpasswd"
    file.write_text("".join(f"{user}:{hashed}\n" for user in users))
    return Cloud(folder, auth_strategy="http_basic", http_basic_auth_user_file=str(file), **options)


def login(user: str, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
