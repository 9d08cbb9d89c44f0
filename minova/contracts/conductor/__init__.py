"""The conductor's contract, composed of one part for each audience and subject.

Topic `conductor_api` serves the calls of the API. Topic `conductor` serves the calls of all other services and of
computes.

Releases before 1.7 send all calls to the topic `conductor`, which serves them unless services have users of their own.
"""

from typing import ClassVar, Protocol

from minova.contracts.base import contract
from minova.contracts.conductor.api.catalogue import (
    AggregatesApi,
    FlavorsApi,
    ImageCachingApi,
    KeyPairsApi,
    ServerGroupsApi,
)
from minova.contracts.conductor.api.evacuation import EvacuationsApi
from minova.contracts.conductor.api.images import ImageReportsApi, ImagesApi
from minova.contracts.conductor.api.moves import MoveOrdersApi, MovePreviewsApi
from minova.contracts.conductor.api.networks import (
    AddressGroupsApi,
    DeletePortsApi,
    NetworksApi,
    NetworkTagsApi,
    PortsApi,
    SecurityGroupsApi,
    SubnetPoolsApi,
    SubnetsApi,
)
from minova.contracts.conductor.api.neutron import NeutronEventsApi
from minova.contracts.conductor.api.quotas import QuotasApi
from minova.contracts.conductor.api.servers import (
    ConsoleTokensApi,
    CreateServersApi,
    DeleteServersApi,
    DryRunsApi,
    ServerAttributesApi,
    ServerPasswordsApi,
    StartActionsApi,
)
from minova.contracts.conductor.api.services import SeenByApisApi, ServiceSettingsApi
from minova.contracts.conductor.computes.actions import ActionReportsApi
from minova.contracts.conductor.computes.audits import AuditsApi
from minova.contracts.conductor.computes.builds import BuildReportsApi, RemovalReportsApi
from minova.contracts.conductor.computes.evacuation import EvacuationReportsApi
from minova.contracts.conductor.computes.guests import GuestReportsApi
from minova.contracts.conductor.computes.images import ImageTokensApi
from minova.contracts.conductor.computes.interfaces import BindInterfacesApi, DetachedInterfacesApi, HostInterfacesApi
from minova.contracts.conductor.computes.moves import MovePhasesApi, MoveReportsApi
from minova.contracts.conductor.computes.secrets import GuestSecretsApi
from minova.contracts.conductor.consoleproxies import ConsoleGrantsApi
from minova.contracts.conductor.metadata import MetadataOfHostsApi, MetadataOfProjectsApi
from minova.contracts.conductor.services import ServicesApi


@contract
class ConductorApi(
    CreateServersApi,
    DryRunsApi,
    DeleteServersApi,
    StartActionsApi,
    EvacuationsApi,
    ServerAttributesApi,
    ServerPasswordsApi,
    ConsoleTokensApi,
    FlavorsApi,
    AggregatesApi,
    ImageCachingApi,
    ServerGroupsApi,
    KeyPairsApi,
    QuotasApi,
    NetworksApi,
    SubnetsApi,
    PortsApi,
    DeletePortsApi,
    SecurityGroupsApi,
    SubnetPoolsApi,
    AddressGroupsApi,
    NetworkTagsApi,
    NeutronEventsApi,
    ImagesApi,
    ImageReportsApi,
    ServiceSettingsApi,
    SeenByApisApi,
    AuditsApi,
    BuildReportsApi,
    RemovalReportsApi,
    MoveReportsApi,
    EvacuationReportsApi,
    MovePhasesApi,
    MoveOrdersApi,
    MovePreviewsApi,
    ActionReportsApi,
    HostInterfacesApi,
    BindInterfacesApi,
    DetachedInterfacesApi,
    ImageTokensApi,
    GuestSecretsApi,
    GuestReportsApi,
    ConsoleGrantsApi,
    MetadataOfHostsApi,
    MetadataOfProjectsApi,
    ServicesApi,
    Protocol,
):
    TOPIC: ClassVar[str] = "conductor"
    VERSION: ClassVar[str] = "1.9"
    HISTORY: ClassVar[dict[str, str]] = {
        "1.0": "first",
        "1.1": "aggregates, server groups, extra specs of flavors",
        "1.2": "NUMA and PCI in claims, moves",
        "1.3": "what an audit found, which domains are of deleted instances",
        "1.4": "previews and capacity",
        "1.5": "how often to audit",
        "1.6": "versions of services; hosts of instances; the end of a process; failed removals; several claims; removing services",
        "1.7": "server actions; changes of servers and flavors; kinds of failures; the topic conductor_api; quotas; key pairs; tokens, changes and members of images; networks, subnets, ports and security groups; consoles; config drives; metadata of guests; what services have seen of their cloud",
        "1.8": "reports of all guests and images that hosts and image stores hold; reasons of power states",
        "1.9": "evacuations; phases of moves; live migrations; several networks, subnets, ports, security groups or rules in one call; tags of these; guests that were forced, reasons of their agents; address groups; subnet pools; deletion of one revision; secrets of guests; images that hosts cache in advance; hardware that a rebuild has chosen; IDs of new server groups; the action after which a power state was read; the begin of removals; requests of the actions that hosts report on",
    }
