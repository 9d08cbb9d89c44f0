"""Warns of certificates that have ended or end soon: at the start, and once a day."""

import logging
import threading
import time
from collections.abc import Callable

from oslo_config import cfg

from minova import certificates
from minova.metrics import CERTIFICATE_DAYS
from minova.service import PeriodicTask, start_periodic

LOG = logging.getLogger(__name__)
# A warning comes so many days before the end.
SOON = 14.0
# Seconds between two readings, and between two warnings of one certificate.
INTERVAL = 3600.0
REMINDER = certificates.DAY


class CertificateWatch:
    """`warns`: False for a worker, whose parent warns. The gauge shows every certificate. `moves_guests`: whether the process moves guests,
    for which libvirt and QEMU have certificates.
    """

    binary = "certificates"

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        stopping: threading.Event,
        *,
        warns: bool = True,
        moves_guests: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._conf = conf
        self._stopping = stopping
        self._warns = warns
        self._moves_guests = moves_guests
        self._clock = clock
        # When each certificate was warned of, by option, file and end: a new certificate is another one.
        self._warned: dict[tuple[str, str, float], float] = {}

    def start(self) -> None:
        task = PeriodicTask(name="watch_certificates", interval=INTERVAL, work=self.check, at_once=True)
        start_periodic(task, self._stopping)

    def stop(self) -> None:
        """Does nothing: the thread ends with `stopping`."""

    def check(self) -> None:
        now = self._clock()
        places = certificates.of_options(self._conf)
        if self._moves_guests:
            places += certificates.of_live_migrations(self._conf)
        for certificate in certificates.readable(places):
            CERTIFICATE_DAYS.labels(certificate.option, certificate.file).set(round(certificate.days(now), 3))
            key = (certificate.option, certificate.file, certificate.ends)
            if (
                self._warns
                and certificate.days(now) <= SOON
                and now - self._warned.get(key, 0.0) >= REMINDER - INTERVAL / 2
            ):
                self._warned[key] = now
                LOG.warning("%s", certificate.warning(now))
