"""The parts that all executables share: read options, set up logs, start, stop, and fail with one clear line."""

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from oslo_config import cfg

from minova import conf as configuration
from minova import errors, log, malloc, metrics, private_files, service
from minova.cmd.startup import systemd
from minova.cmd.startup.freed_memory import FreedMemory
from minova.concurrency import threads
from minova.conf import foreign_options
from minova.context import service_context
from minova.health.certificate_watch import CertificateWatch
from minova.health.storages import StorageWatch

LOG = logging.getLogger(__name__)

_STOPPED = "stopped while it was starting"
# Seconds within which a service must stop that is still starting.
START_GRACE = 5.0
# Seconds within which a service must stop, whatever does not answer. Work that proceeds may take longer.
STOP_WITHIN = 6.5
# Seconds within which the process must end after its services have stopped. They are for messages in progress.
EXIT_GRACE = 30.0
# The default port of each executable's metrics page.
METRICS_PORTS = {
    "minova-api": 9790,
    "minova-conductor": 9791,
    "minova-scheduler": 9792,
    "minova-compute": 9793,
    "minova-standalone": 9794,
    "minova-placement-api": 9795,
    "minova-consoleproxy": 9796,
    "minova-metadata": 9797,
}
MOVE_GUESTS = ("minova-compute", "minova-standalone")
Compose = Callable[[cfg.ConfigOpts, threading.Event], Sequence[service.Runnable]]


def launch(
    prog: str,
    compose: Compose,
    *,
    cli: Sequence[cfg.Opt] = (),
    prepare: Callable[[cfg.ConfigOpts], None] = lambda conf: None,
    ready: Callable[[cfg.ConfigOpts], None] = lambda conf: None,
) -> NoReturn:
    """Run until SIGTERM or SIGINT. Exit with 0, also if it is stopped during its start, or with 1 and the reason on standard error.

    SIGHUP makes the process read its configuration files again. For a process in the foreground of a terminal, SIGHUP
    means that the terminal is gone, and the process stops.

    `prepare`: may change defaults after the command line is read.
    `ready`: called when every service has started.
    """
    private_files.set_umask()
    malloc.use_one_arena()
    # After a crash inside a C library the log has the stacks of all threads, not only an exit status.
    threads.report_crashes()
    threads.log_uncaught()
    stopping, started = threading.Event(), threading.Event()
    watched = service.in_foreground()
    signalled = service.stop_on_signals(stopping, *([signal.SIGHUP] if watched else []))
    if not watched:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is a configuration that can be read again

    def every_service_started() -> None:
        # Objects made by the imports live until the end. A full collection that scans all of them stops every thread
        # for 0.1 s.
        gc.collect()
        gc.freeze()
        started.set()
        systemd.notify(READY="1", STATUS="Serves")
        # The output may be closed, because the terminal is gone. That is no reason to fail.
        with contextlib.suppress(OSError):
            ready(conf)

    threading.Thread(target=_end_a_start, args=(prog, stopping, started, signalled), daemon=True).start()
    try:
        conf = configuration.load(sys.argv[1:], prog, cli=cli)
        prepare(conf)
        warning = foreign_options.warning_of(configuration.foreign(conf))
        log.setup(conf)
        _close_files(conf)
        with log.bound_request(service_context()):
            is_worker = metrics.WORKERS in os.environ
            if warning is not None and not is_worker:
                LOG.warning("%s", warning)
            services: list[service.Runnable] = [
                *metrics.page(conf, METRICS_PORTS[prog]),
                CertificateWatch(conf, stopping, warns=not is_worker, moves_guests=prog in MOVE_GUESTS),
                StorageWatch(conf, prog, stopping),
                FreedMemory(stopping),
                *compose(conf, stopping),
            ]
            threading.Thread(target=_end_a_stop, args=(prog, stopping, started, services), daemon=True).start()
            configuration.check(conf)  # again, now with the options that oslo.messaging has added
            if not watched:
                service.on_hangup(lambda: reread(conf, lambda: configuration.load(sys.argv[1:], prog, cli=cli)))
            service.run(services, stopping, every_service_started, systemd.Watchdog())
    except errors.MinovaError as error:
        # A start that waits for a server ends with this error when it is stopped.
        if not (signalled.is_set() and isinstance(error, errors.ServiceUnavailable)):
            _fail(prog, str(error))
        print(f"{prog}: {_STOPPED}", file=sys.stderr)
    _exit(0)


def _close_files(conf: cfg.ConfigOpts) -> None:
    """Remove other users' rights from files that a release before 0.2.0 left open, and warn of passwords that they can
    read.
    """
    folders = [Path(name) for name in (conf.state_path, conf.instances_path, conf.api.images_path)]
    private_files.close_to_others([*folders, *_database_files(conf.database.connection)])
    for file in configuration.files(conf):
        if private_files.readable_by_others(file) and private_files.holds_password(file):
            LOG.warning("All users of this machine can read the passwords in %s: chmod 640 it", file)


def _database_files(url: str) -> list[Path]:
    """Returns the paths of SQLite's files. It only parses the URL, because a compute calls it, too, and loads no
    database library.
    """
    name = url.partition("?")[0].removeprefix("sqlite:///")
    return [] if "://" in name else [Path(name + suffix) for suffix in ("", "-wal", "-shm")]


def reread(conf: cfg.ConfigOpts, load: Callable[[], object]) -> None:
    """Apply the options that may change while a service runs. `load` reads the whole configuration first; if it fails,
    nothing changes.
    """
    try:
        load()
        changed = conf.mutate_config_files()
    except (errors.MinovaError, cfg.Error) as error:
        LOG.error("The configuration stays as it was: %s", error)
        return
    LOG.info("The configuration was read again: %d options have changed", len(changed))


def _end_a_start(prog: str, stopping: threading.Event, started: threading.Event, signalled: threading.Event) -> None:
    """End the process if it is stopped during its start. oslo.messaging waits for a broker that is away, and nothing
    interrupts this wait. A service that has not started has no work to finish.
    """
    stopping.wait()
    if not started.wait(START_GRACE):
        print(f"{prog}: {_STOPPED}", file=sys.stderr, flush=True)
        os._exit(0 if signalled.is_set() else 1)


def _end_a_stop(
    prog: str, stopping: threading.Event, started: threading.Event, services: Sequence[service.Runnable]
) -> None:
    """End the process if its services do not stop, because a broker, a database or a hypervisor does not answer. Unfinished
    work is continued from the rows.
    """
    stopping.wait()
    systemd.notify(STOPPING="1")
    if not started.is_set():
        return  # the end of a start is limited anyway
    remaining = STOP_WITHIN
    while remaining > 0:
        time.sleep(service.STOP_NOTICED)
        if not any(getattr(each, "waits_for_work", False) for each in services):
            remaining -= service.STOP_NOTICED
    reasons = [failure for each in services if (failure := getattr(each, "failure", None)) is not None]
    _leave_threads(STOP_WITHIN, 1 if reasons else 0)


def _fail(prog: str, reason: str) -> NoReturn:
    systemd.notify(STATUS=reason)
    print(f"{prog}: {reason}", file=sys.stderr)
    _exit(1)


def _exit(code: int) -> NoReturn:
    """Exit within EXIT_GRACE. The interpreter waits for threads, and a message in progress may wait for a broker that
    is away. Unfinished work is continued from the rows.
    """
    threading.Thread(target=_end_after_grace, args=(code,), name="exit", daemon=True).start()
    sys.exit(code)


def _end_after_grace(code: int) -> None:
    time.sleep(EXIT_GRACE)
    _leave_threads(EXIT_GRACE, code)


def _leave_threads(seconds: float, code: int) -> NoReturn:
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    working = sorted(thread.name for thread in others if not thread.daemon)
    LOG.warning("After %.0f s threads still work and are left behind: %s", seconds, ", ".join(working))
    os._exit(code)
