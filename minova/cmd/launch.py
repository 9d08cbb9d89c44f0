"""What every executable does around its own composition: read options, log, start, stop, and fail with one clear line."""

import contextlib
import gc
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from oslo_config import cfg

from minova import conf as configuration
from minova import errors, log, metrics, private_files, service, threads
from minova.context import service_context

LOG = logging.getLogger(__name__)

# Seconds that a service which is still starting has to stop.
START_GRACE = 5.0
# Seconds that a process which has stopped has to end: for messages that are still worked on.
EXIT_GRACE = 30.0
# Where each shows its figures, unless it is told otherwise.
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
# A line of a configuration file that gives a password, by itself or in a URL.
_PASSWORD = re.compile(r"^\s*(?:\w*password\s*=\s*\S|\w+\s*=\s*\S+://[^\s/]*:[^\s/]+@)", re.MULTILINE)
Compose = Callable[[cfg.ConfigOpts, threading.Event], Sequence[service.Running]]


def launch(
    prog: str,
    compose: Compose,
    *,
    cli: Sequence[cfg.Opt] = (),
    prepare: Callable[[cfg.ConfigOpts], None] = lambda conf: None,
    ready: Callable[[cfg.ConfigOpts], None] = lambda conf: None,
) -> NoReturn:
    """Run until SIGTERM or SIGINT; exit 0, or 1 with the reason on standard error. SIGHUP: read the files again, or, to a
    process on a terminal, that the terminal has gone: stop.

    `prepare` may change defaults once the command line is read; `ready` is called when every service has started.
    """
    private_files.set_umask()
    # A crash inside a C library leaves the stacks of all threads in the log, and not just an exit status.
    threads.report_crashes()
    stopping, started = threading.Event(), threading.Event()
    watched = service.in_foreground()
    service.stop_on_signals(stopping, *([signal.SIGHUP] if watched else []))
    if not watched:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is a configuration to read again

    def every_service_started() -> None:
        # What the imports have made stays until the end: a full collection that looks at all of it stops each thread for 0.1 s.
        gc.collect()
        gc.freeze()
        started.set()
        # The reader may have gone with the terminal: that is no reason to fail.
        with contextlib.suppress(OSError):
            ready(conf)

    threading.Thread(target=_end_a_start, args=(prog, stopping, started), daemon=True).start()
    try:
        conf = configuration.load(sys.argv[1:], prog, cli=cli)
        prepare(conf)
        log.setup(conf)
        _close_files(conf)
        with log.bound_request(service_context()):
            services = [*metrics.page(conf, METRICS_PORTS[prog]), *compose(conf, stopping)]
            configuration.check(conf)  # again, with the options that oslo.messaging has added
            if not watched:
                service.on_hangup(lambda: reread(conf, lambda: configuration.load(sys.argv[1:], prog, cli=cli)))
            service.run(services, stopping, every_service_started)
    except cfg.ConfigFilesNotFoundError as error:
        _fail(prog, str(error))
    except (errors.MinovaError, cfg.ConfigFileParseError) as error:
        _fail(prog, str(error))
    _exit(0)


def _close_files(conf: cfg.ConfigOpts) -> None:
    """Close what a release before 0.2.0 left open to all users, and warn of passwords that they can read."""
    folders = [Path(name) for name in (conf.state_path, conf.instances_path, conf.api.images_path)]
    private_files.close_to_others([*folders, *_database_files(conf.database.connection)])
    for file in map(Path, conf.config_file or ()):
        if private_files.readable_by_others(file) and _PASSWORD.search(file.read_text(errors="replace")):
            LOG.warning("All users of this machine can read the passwords in %s: chmod 640 it", file)


def _database_files(url: str) -> list[Path]:
    """SQLite's; a compute reads this, too, and loads no library of databases."""
    name = url.partition("?")[0].removeprefix("sqlite:///")
    return [] if "://" in name else [Path(name + suffix) for suffix in ("", "-wal", "-shm")]


def reread(conf: cfg.ConfigOpts, load: Callable[[], object]) -> None:
    """Take over what may change while a service runs. `load` reads all anew: if it cannot, nothing is changed."""
    try:
        load()
        changed = conf.mutate_config_files()
    except (errors.MinovaError, cfg.Error) as error:
        LOG.error("The configuration stays as it was: %s", error)
        return
    LOG.info("The configuration was read again: %d options have changed", len(changed))


def _end_a_start(prog: str, stopping: threading.Event, started: threading.Event) -> None:
    """oslo.messaging waits for a broker that is away, and nothing wakes it. A service that has not started has nothing to finish."""
    stopping.wait()
    if not started.wait(START_GRACE):
        print(f"{prog}: stopped while it was starting", file=sys.stderr, flush=True)
        os._exit(1)


def _fail(prog: str, reason: str) -> NoReturn:
    print(f"{prog}: {reason}", file=sys.stderr)
    _exit(1)


def _exit(code: int) -> NoReturn:
    """The interpreter waits for threads, and a message that is worked on may wait for a broker that is away. What it leaves undone
    is gone on with from the rows.
    """
    threading.Thread(target=_end_after_grace, args=(code,), name="exit", daemon=True).start()
    sys.exit(code)


def _end_after_grace(code: int) -> None:
    time.sleep(EXIT_GRACE)
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    working = sorted(thread.name for thread in others if not thread.daemon)
    LOG.warning("After %.0f s threads still work and are left behind: %s", EXIT_GRACE, ", ".join(working))
    os._exit(code)
