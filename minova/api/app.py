"""All APIs of `minova-api` behind one port: Compute, Image, Network, and Placement if it is configured."""

from collections.abc import Callable
from typing import Any

import msgspec
from oslo_config import cfg

from minova import errors
from minova.api.access.auth import authenticator
from minova.api.access.failure_table import FailureTable
from minova.api.access.wsgi_keys import CLIENT_PATH
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.definition import ComputeDefinition
from minova.api.compute.servers.networks.neutron import PATIENCE as NEUTRON_PATIENCE
from minova.api.description import PATH as DESCRIPTION
from minova.api.description import DescriptionDefinition
from minova.api.http import app as http
from minova.api.http.call import PROJECT_IN_PATH
from minova.api.http.waiting import WaitingRequests
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.definition import ImageDefinition
from minova.api.image.importing.guard import allowed_networks
from minova.api.image.proxy import BuiltInProxy
from minova.api.image.store import ImageStore, StoreLimits
from minova.api.image.tokens import TokenAuthenticator, TokenDefinition, TokenKeys, has_token
from minova.api.network.collaborators import NetworkApiCollaborators
from minova.api.network.definition import NetworkDefinition
from minova.api.placement.app import make_app as make_placement
from minova.api.policies.enforcer import Policy
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database
from minova.hardware.demands import require_aliases
from minova.safe_mode import SafeMode

PLACEMENT = "/placement"
NETWORK = "/network"
# The header of answers in safe mode.
SAFE_MODE = "X-Minova-Safe-Mode"
# The first segments of the Compute API's paths. Any other segment in this position is a project id.
COMPUTE_RESOURCES = frozenset(
    route.path.split("/")[2] for route in ComputeDefinition.routes if route.path.startswith("/v2.1/")
)


class ResourcePath(msgspec.Struct, frozen=True, kw_only=True):
    """`path`: as in a route table.
    `project_id`: the project id that older clients put into the path.
    """

    path: str
    project_id: str | None = None


class App:
    """The WSGI application.

    `downloads`: the application for computes that have a token for an image.
    `images`: the collaborators of the Image API, for its background work.

    In safe mode each answer has the header SAFE_MODE with the reason.
    """

    def __init__(
        self,
        compute: http.Application,
        image: Callable[..., Any],
        downloads: http.Application,
        network: Callable[..., Any],
        placement: http.Application | None,
        description: http.Application,
        images: ImageApiCollaborators,
    ) -> None:
        self.images = images
        self._compute = compute
        self._image = image
        self._downloads = downloads
        self._network = network
        self._placement = placement
        self._description = description

    def __call__(self, env: dict[str, Any], start_response: Any) -> Any:
        reason = self.images.safe_mode.reason
        if reason is None:
            return self._route(env, start_response)
        return self._route(
            env, lambda status, headers, *more: start_response(status, [*headers, (SAFE_MODE, reason)], *more)
        )

    def _route(self, env: dict[str, Any], start_response: Any) -> Any:
        path = env["PATH_INFO"]
        env[CLIENT_PATH] = f"{env.get('SCRIPT_NAME', '')}{path}"
        if self._placement is not None and (path == PLACEMENT or path.startswith(f"{PLACEMENT}/")):
            env["SCRIPT_NAME"] += PLACEMENT
            env["PATH_INFO"] = path.removeprefix(PLACEMENT)
            return self._placement(env, start_response)
        if path == DESCRIPTION:
            return self._description(env, start_response)
        if path == NETWORK or path.startswith(f"{NETWORK}/"):
            env["SCRIPT_NAME"] += NETWORK
            env["PATH_INFO"] = path.removeprefix(NETWORK).rstrip("/").removesuffix(".json") or "/"
            return self._network(env, start_response)
        # WSGI passes the bytes of a path as Latin-1.
        decoded = path.encode("latin-1").decode(errors="replace")
        # `/image/` is the version document of the Image API; `/image/v2` is below it.
        resource = resource_path(decoded.removesuffix("/"))
        env["PATH_INFO"] = resource.path.encode().decode("latin-1")
        env[PROJECT_IN_PATH] = resource.project_id
        if not _is_image(resource.path):
            # 404, as in Nova: a request for a resource with an empty name must not read, or change, all resources. A
            # route matches one empty segment, but not two.
            if decoded.endswith("/") and resource.path.count("/") > 1:
                env["PATH_INFO"] += "//"
            return self._compute(env, start_response)
        app = self._downloads if has_token(env) else self._image
        return app(env, start_response)


def resource_path(path: str, resources: frozenset[str] = COMPUTE_RESOURCES) -> ResourcePath:
    """Removes `/compute` or `/image` before the version, and a project id behind it."""
    if path.startswith(("/image/", "/compute/")):
        path = "/" + path.split("/", 2)[2]
    path = path.rstrip("/") or "/"
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == "v2.1" and parts[2] not in resources and parts[3] in resources:
        return ResourcePath(path="/".join([*parts[:2], *parts[3:]]), project_id=parts[2])
    return ResourcePath(path=path)


def _is_image(path: str) -> bool:
    return path == "/v2" or path.startswith(("/v2/", "/image"))


def image_store(conf: cfg.ConfigOpts) -> ImageStore:
    limits = lambda: StoreLimits(size_cap=conf.api.image_size_cap, reserve=conf.free_space_reserve_mb << 20)  # noqa: E731
    return ImageStore(conf.api.images_path, limits)


def with_glance(
    conf: cfg.ConfigOpts, servers: ComputeApiCollaborators, images: ImageApiCollaborators
) -> tuple[ComputeApiCollaborators, ImageApiCollaborators]:
    """Returns the collaborators with Glance in place of the built-in image service.

    Raises InvalidConfiguration if Glance cannot be used.
    """
    if conf.api.auth_strategy != "keystone":
        raise errors.InvalidConfiguration("[glance] backend = glance needs [api] auth_strategy = keystone.")
    # Imported here: importing keystoneauth takes time at the start, which clouds without Glance save.
    from minova.api.image.glance.client import GlanceClient  # noqa: PLC0415
    from minova.api.image.glance.images import GlanceData, GlanceImages  # noqa: PLC0415
    from minova.api.image.glance.proxy import GlanceProxy  # noqa: PLC0415

    client = GlanceClient(conf)
    return (
        msgspec.structs.replace(servers, images=GlanceImages(client), image_proxy=GlanceProxy(client)),
        msgspec.structs.replace(images, remote=GlanceData(client)),
    )


def with_neutron(conf: cfg.ConfigOpts, servers: ComputeApiCollaborators) -> ComputeApiCollaborators:
    """Returns the collaborators with Neutron: new servers are on its networks.

    Raises InvalidConfiguration if Neutron cannot be used.
    """
    # Imported here for the same reason as in `with_glance`.
    from minova.neutron_client import NeutronClient  # noqa: PLC0415

    return msgspec.structs.replace(servers, neutron=NeutronClient(conf, most=NEUTRON_PATIENCE))


def _not_here(env: dict[str, Any], start_response: Any) -> Any:
    """Answers 404. Glance serves images, or Neutron networks; the catalog has their addresses."""
    start_response("404 Not Found", [("Content-Length", "0")])
    return [b""]


def make_app(
    conf: cfg.ConfigOpts,
    db: Database,
    conductor: ConductorApi,
    compute: Callable[[str], ComputeApi],
    placement_writes: Callable[[], Database] | None = None,
    failures: FailureTable | None = None,
    safe_mode: SafeMode | None = None,
) -> App:
    """`placement_writes` opens the database to which Placement writes; None: Placement is not served here.
    `failures`: a table of failed logins that workers share.
    `safe_mode`: of the process.

    Raises InvalidConfiguration if the options for authentication contradict each other, a policy cannot be used, or a
    PCI alias or network is invalid.
    """
    authenticate = authenticator(conf, failures)
    policy = Policy(conf)
    safe_mode = safe_mode or SafeMode()
    placement = None
    if placement_writes is not None:
        placement = make_placement(conf, authenticate, db, placement_writes, policy, safe_mode)
    require_aliases(conf.pci.alias)
    allowed_networks(conf)  # raises now for an invalid network
    # A quarter of the threads may wait; the others serve requests that are answered at once.
    waiting = WaitingRequests(max(1, conf.api.threads // 4))
    images = ImageApiCollaborators(conf=conf, db=db, conductor=conductor, store=image_store(conf), safe_mode=safe_mode)
    servers = ComputeApiCollaborators(
        conf=conf, db=db, conductor=conductor, compute=compute, waiting=waiting, image_proxy=BuiltInProxy(images)
    )
    if conf.glance.backend == "glance":
        servers, images = with_glance(conf, servers, images)
    if conf.neutron.backend == "neutron":
        servers = with_neutron(conf, servers)
    networks = NetworkApiCollaborators(conf=conf, db=db, conductor=conductor, waiting=waiting)
    return App(
        http.make_app(ComputeDefinition(servers), authenticate, policy),
        http.make_app(ImageDefinition(images), authenticate, policy) if images.remote is None else _not_here,
        http.make_app(TokenDefinition(images), TokenAuthenticator(conf, TokenKeys(db)), policy),
        http.make_app(NetworkDefinition(networks), authenticate, policy) if servers.neutron is None else _not_here,
        placement,
        http.make_app(DescriptionDefinition(servers), authenticate, policy),
        images,
    )
