"""Prometheus metrics of a process, and the page that serves them.

Counting is always on, because it costs next to nothing. The page is served only with `[prometheus] enabled`. There is
one registry per process, so the services of minova-standalone share its page. Pure packages count nothing; the code
that applies a decision counts it.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oslo_config import cfg
from oslo_utils.netutils import escape_ipv6
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector

from minova import errors

LOG = logging.getLogger(__name__)

# The folder in which the workers of one service store their metrics. prometheus_client reads this variable when it is
# imported.
WORKERS = "PROMETHEUS_MULTIPROC_DIR"
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

# Seconds. Calls take milliseconds, builds minutes.
CALL_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)
BUILD_BUCKETS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)

RPC_SECONDS = Histogram(
    "minova_rpc_seconds",
    "Time of one RPC: `server` from its arrival, `client` as the caller waits. A cast ends when it is handed over.",
    ["side", "method", "result"],
    buckets=CALL_BUCKETS,
    registry=REGISTRY,
)
RPC_REFUSED = Counter(
    "minova_rpc_refused_total",
    "Messages that were refused because their sender may not make that call, or speaks for another host.",
    ["method"],
    registry=REGISTRY,
)
IMAGE_TOKENS_REFUSED = Counter(
    "minova_image_tokens_refused_total",
    "Downloads of images that were refused because of their token, by reason: invalid, expired, other_request.",
    ["reason"],
    registry=REGISTRY,
)
AUDIT_SECONDS = Histogram(
    "minova_audit_seconds", "Time of one audit of a node.", ["result"], buckets=CALL_BUCKETS, registry=REGISTRY
)
DRIFT = Counter(
    "minova_audit_corrections_total",
    "Figures of a node that an audit found different from those kept since the one before.",
    ["resource"],
    registry=REGISTRY,
)
OUTLIVED = Counter(
    "minova_outlived_domains_total",
    "Domains of deleted instances that a clean-up found here, by what was done: log, shutdown, reap.",
    ["action"],
    registry=REGISTRY,
)
BASES_REMOVED = Counter(
    "minova_base_images_removed_total",
    "Base images removed from the cache because nothing stood on them.",
    registry=REGISTRY,
)
CLAIMS = Counter("minova_claims_total", "Claims on this host's nodes.", ["result", "reason"], registry=REGISTRY)
BUILD_SECONDS = Histogram(
    "minova_build_seconds",
    "Time of one build attempt on this host.",
    ["result"],
    buckets=BUILD_BUCKETS,
    registry=REGISTRY,
)
BUILDS = Counter("minova_builds_total", "Builds that ended, by how.", ["result"], registry=REGISTRY)
TASKS = Gauge("minova_tasks", "Tasks that this conductor owns, by what they do next.", ["step"], registry=REGISTRY)
ACTIONS_WAITING = Gauge(
    "minova_actions_waiting",
    "Server actions of this conductor that wait for their hosts, which are down; counted up to 500.",
    registry=REGISTRY,
)
DECISION_SECONDS = Histogram(
    "minova_select_destinations_seconds",
    "Time of one select_destinations with its claim.",
    ["result"],
    buckets=CALL_BUCKETS,
    registry=REGISTRY,
)
CLAIMS_REFUSED = Counter(
    "minova_scheduler_claims_refused_total", "Claims that another scheduler's made impossible.", registry=REGISTRY
)
DECISIONS_REPEATED = Counter(
    "minova_scheduler_decisions_repeated_total", "Decisions made again because a claim was refused.", registry=REGISTRY
)
PLACEMENT_FINDINGS = Gauge(
    "minova_placement_findings", "What the last audit of Placement found wrong, by kind.", ["kind"], registry=REGISTRY
)
GUESTS_IN_TROUBLE = Gauge(
    "minova_guests_in_trouble",
    "Guests of this host that should run and stand still, or that have crashed, by reason: disk_full, disk_error, watchdog, "
    "panicked, migration_broken, paused_by_other, asleep, crashed.",
    ["reason"],
    registry=REGISTRY,
)
SAFE_MODE = Gauge(
    "minova_safe_mode",
    "1 while the service changes nothing, because its database has lost changes or belongs to another cloud.",
    registry=REGISTRY,
    multiprocess_mode="livemax",
)

UNKNOWN_IMAGES = Gauge(
    "minova_unknown_images",
    "Images whose bytes are in the image store, and of which the database has neither a record nor a deletion.",
    registry=REGISTRY,
    multiprocess_mode="max",
)
DEPENDENCY_UP = Gauge(
    "minova_dependency_up",
    "1 while what this process depends on answers: database, broker, libvirt, neutron, glance, keystone.",
    ["dependency"],
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
CERTIFICATE_DAYS = Gauge(
    "minova_certificate_days",
    "Days until a certificate that the configuration names ends; negative if it has ended.",
    ["option", "file"],
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
STORAGE_SIZE = Gauge(
    "minova_storage_size_bytes",
    "Size of the file system of a folder in which this process keeps files, by option: instances_path, images_path, state_path.",
    ["storage", "path"],
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
STORAGE_FREE = Gauge(
    "minova_storage_free_bytes",
    "Free space of that file system.",
    ["storage", "path"],
    registry=REGISTRY,
    multiprocess_mode="livemin",
)


@contextmanager
def timed(histogram: Histogram, *labels: str) -> Iterator[None]:
    """Observes the run time of the block, with `labels` and a last label: `ok`, or `error` if the block raised."""
    begun, result = time.perf_counter(), "error"
    try:
        yield
        result = "ok"
    finally:
        histogram.labels(*labels, result).observe(time.perf_counter() - begun)


class MetricsPage:
    """Serves `GET /metrics` in a thread of its own. Raises InvalidConfiguration if its address is taken or does not
    belong to this host.
    """

    binary = "metrics"
    registry = REGISTRY

    def __init__(self, listen: str, port: int) -> None:
        self._address = (listen, port)
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        listen, port = self._address
        try:
            self._server, self._thread = start_http_server(port, listen, self.registry)
        except OSError as error:
            raise errors.InvalidConfiguration(
                f"[prometheus] listen, port: {listen} port {port} cannot be listened on: {error.strerror or error}"
            ) from error
        LOG.info("Metrics are at http://%s:%d/metrics", escape_ipv6(listen), self.port)

    @property
    def port(self) -> int:
        """Returns the port that the page listens on, also if the system chose it."""
        return int(self._server.server_port)

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


def show_workers(folder: str) -> None:
    """Add the metrics of this process's workers to its page. The workers were started with this folder in the
    environment (WORKERS).
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    MetricsPage.registry = registry


def page(conf: cfg.ConfigOpts, default_port: int) -> list[MetricsPage]:
    """Returns the page if the configuration enables it. A worker has none, because its parent shows its metrics."""
    options = conf.prometheus
    if not options.enabled or WORKERS in os.environ:
        return []
    return [MetricsPage(options.listen, default_port if options.port is None else options.port)]
