"""Makes the driver that `[scheduler] driver` names."""

from collections.abc import Callable
from typing import Any

from minova import errors
from minova.db.engine import Database
from minova.scheduler.drivers.base import Driver
from minova.scheduler.drivers.nova_driver import NovaDriver, Scheduler
from minova.scheduler.extensions import DRIVERS, find

OPTION = "[scheduler] driver"


def make_driver(conf: Any, db: Database, clock: Callable[[], float]) -> Driver:
    """Raises InvalidConfiguration, which lists the known drivers, if there is no such driver or the class is not a
    driver.
    """
    name = conf.scheduler.driver
    driver_class: Any = find(DRIVERS, name, OPTION)
    if issubclass(driver_class, Scheduler):
        return NovaDriver(conf, db, driver_class, clock=clock)
    if not issubclass(driver_class, Driver):
        raise errors.InvalidConfiguration(
            f"{OPTION}: {name!r} derives neither from {Driver.__module__}.Driver nor from {Scheduler.__module__}.Scheduler."
        )
    driver: Driver = driver_class(conf, db, clock=clock)
    return driver
