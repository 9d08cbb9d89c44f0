"""A driver on libvirt's test hypervisor, and a guest on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.objects.servers.instance import Instance
from minova.virt.driver import ComputeDriver
from tests.functional.virt.libvirt.test_driver import instance, load


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[ComputeDriver]:
    driver = load(tmp_path)
    yield driver
    for domain in driver.domains():
        if domain.ours:
            driver.destroy(domain.uuid)
    driver.close()


@pytest.fixture
def guest(driver: ComputeDriver) -> Instance:
    running_guest = instance(node="n", attempt=3)
    driver.prepare(running_guest, "n", 3, None)
    driver.power_on(running_guest)
    return running_guest
