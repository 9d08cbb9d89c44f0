"""What the private servers of OpenStack share."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import ClassVar

import urllib3

from tests.servers.private_server import PrivateServer


def without_tests_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables but credentials and Python's options of the tests."""
    return {name: value for name, value in environment.items() if not name.startswith(("OS_", "PYTHON"))}


class OpenStackServer(PrivateServer):
    """`ready_status`: of its root, when it serves requests."""

    ready_status: ClassVar[int] = 200

    @property
    @abc.abstractmethod
    def url(self) -> str: ...

    def environment(self) -> dict[str, str]:
        return without_tests_variables(super().environment()) | {"PYTHONWARNINGS": "ignore"}

    def answers(self) -> bool:
        try:
            return urllib3.request("GET", self.url, retries=False, timeout=5).status == self.ready_status
        except urllib3.exceptions.HTTPError:
            return False
