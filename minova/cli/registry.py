"""The table of commands and their classes. It replaces entry points, because looking those up takes longer than most
commands.
"""

import importlib
from typing import Any

from cliff.commandmanager import CommandManager

COMMANDS = {
    "address group create": "minova.cli.commands.network.address_group:AddressGroupCreate",
    "address group delete": "minova.cli.commands.network.address_group:AddressGroupDelete",
    "address group list": "minova.cli.commands.network.address_group:AddressGroupList",
    "address group set": "minova.cli.commands.network.address_group:AddressGroupSet",
    "address group show": "minova.cli.commands.network.address_group:AddressGroupShow",
    "address group unset": "minova.cli.commands.network.address_group:AddressGroupUnset",
    "aggregate add host": "minova.cli.commands.aggregate:AggregateAddHost",
    "aggregate cache image": "minova.cli.commands.aggregate:AggregateCacheImage",
    "aggregate create": "minova.cli.commands.aggregate:AggregateCreate",
    "aggregate delete": "minova.cli.commands.aggregate:AggregateDelete",
    "aggregate list": "minova.cli.commands.aggregate:AggregateList",
    "aggregate remove host": "minova.cli.commands.aggregate:AggregateRemoveHost",
    "aggregate set": "minova.cli.commands.aggregate:AggregateSet",
    "aggregate show": "minova.cli.commands.aggregate:AggregateShow",
    "aggregate unset": "minova.cli.commands.aggregate:AggregateUnset",
    "availability zone list": "minova.cli.commands.aggregate:ZoneList",
    "compute service delete": "minova.cli.commands.service:ServiceDelete",
    "compute service list": "minova.cli.commands.service:ServiceList",
    "compute service set": "minova.cli.commands.service:ServiceSet",
    "console log show": "minova.cli.commands.server.console:ServerConsoleLog",
    "console url show": "minova.cli.commands.server.terminal:ServerConsoleUrlShow",
    "capacity": "minova.cli.commands.server.capacity:CapacityReport",
    "flavor create": "minova.cli.commands.flavor:FlavorCreate",
    "flavor delete": "minova.cli.commands.flavor:FlavorDelete",
    "flavor list": "minova.cli.commands.flavor:FlavorList",
    "flavor set": "minova.cli.commands.flavor:FlavorSet",
    "flavor show": "minova.cli.commands.flavor:FlavorShow",
    "flavor unset": "minova.cli.commands.flavor:FlavorUnset",
    "host evacuate": "minova.cli.commands.server.hosts:HostEvacuate",
    "host evacuate live": "minova.cli.commands.server.hosts:HostEvacuateLive",
    "host servers migrate": "minova.cli.commands.server.hosts:HostServersMigrate",
    "hypervisor audit": "minova.cli.commands.hypervisor:HypervisorAudit",
    "hypervisor list": "minova.cli.commands.hypervisor:HypervisorList",
    "hypervisor show": "minova.cli.commands.hypervisor:HypervisorShow",
    "hypervisor stats": "minova.cli.commands.hypervisor:HypervisorStats",
    "hypervisor stats show": "minova.cli.commands.hypervisor:HypervisorStats",
    "image add project": "minova.cli.commands.image_changes:ImageAddProject",
    "image create": "minova.cli.commands.image:ImageCreate",
    "image delete": "minova.cli.commands.image:ImageDelete",
    "image import": "minova.cli.commands.image_import:ImageImport",
    "image import info": "minova.cli.commands.image_import:ImageImportInfo",
    "image list": "minova.cli.commands.image:ImageList",
    "image member get": "minova.cli.commands.image_changes:ImageMemberGet",
    "image member list": "minova.cli.commands.image_changes:ImageMemberList",
    "image remove project": "minova.cli.commands.image_changes:ImageRemoveProject",
    "image save": "minova.cli.commands.image:ImageSave",
    "image set": "minova.cli.commands.image_changes:ImageSet",
    "image show": "minova.cli.commands.image:ImageShow",
    "image stage": "minova.cli.commands.image_import:ImageStage",
    "image unset": "minova.cli.commands.image_changes:ImageUnset",
    "keypair create": "minova.cli.commands.keypair:KeypairCreate",
    "keypair delete": "minova.cli.commands.keypair:KeypairDelete",
    "keypair list": "minova.cli.commands.keypair:KeypairList",
    "keypair show": "minova.cli.commands.keypair:KeypairShow",
    "limits show": "minova.cli.commands.quota:LimitsShow",
    "network create": "minova.cli.commands.network.network:NetworkCreate",
    "network delete": "minova.cli.commands.network.network:NetworkDelete",
    "network list": "minova.cli.commands.network.network:NetworkList",
    "network set": "minova.cli.commands.network.network:NetworkSet",
    "network show": "minova.cli.commands.network.network:NetworkShow",
    "network unset": "minova.cli.commands.network.network:NetworkUnset",
    "port create": "minova.cli.commands.network.port:PortCreate",
    "port delete": "minova.cli.commands.network.port:PortDelete",
    "port list": "minova.cli.commands.network.port:PortList",
    "port set": "minova.cli.commands.network.port:PortSet",
    "port show": "minova.cli.commands.network.port:PortShow",
    "port unset": "minova.cli.commands.network.port:PortUnset",
    "quota delete": "minova.cli.commands.quota:QuotaDelete",
    "quota list": "minova.cli.commands.quota:QuotaList",
    "quota set": "minova.cli.commands.quota:QuotaSet",
    "quota show": "minova.cli.commands.quota:QuotaShow",
    "security group create": "minova.cli.commands.network.security_group:SecurityGroupCreate",
    "security group delete": "minova.cli.commands.network.security_group:SecurityGroupDelete",
    "security group list": "minova.cli.commands.network.security_group:SecurityGroupList",
    "security group rule create": "minova.cli.commands.network.security_group:SecurityGroupRuleCreate",
    "security group rule delete": "minova.cli.commands.network.security_group:SecurityGroupRuleDelete",
    "security group rule list": "minova.cli.commands.network.security_group:SecurityGroupRuleList",
    "security group rule show": "minova.cli.commands.network.security_group:SecurityGroupRuleShow",
    "security group set": "minova.cli.commands.network.security_group:SecurityGroupSet",
    "security group show": "minova.cli.commands.network.security_group:SecurityGroupShow",
    "security group unset": "minova.cli.commands.network.security_group:SecurityGroupUnset",
    "server add fixed ip": "minova.cli.commands.server.actions.interfaces:ServerAddFixedIp",
    "server add network": "minova.cli.commands.server.actions.interfaces:ServerAddNetwork",
    "server add port": "minova.cli.commands.server.actions.interfaces:ServerAddPort",
    "server add security group": "minova.cli.commands.network.security_group:ServerAddSecurityGroup",
    "server remove fixed ip": "minova.cli.commands.server.actions.interfaces:ServerRemoveFixedIp",
    "server remove network": "minova.cli.commands.server.actions.interfaces:ServerRemoveNetwork",
    "server remove port": "minova.cli.commands.server.actions.interfaces:ServerRemovePort",
    "server remove security group": "minova.cli.commands.network.security_group:ServerRemoveSecurityGroup",
    "server backup create": "minova.cli.commands.server.actions.images:ServerBackupCreate",
    "server console log": "minova.cli.commands.server.console:ServerConsoleLog",
    "server console log show": "minova.cli.commands.server.console:ServerConsoleLog",
    "server console connect": "minova.cli.commands.server.terminal:ServerConsoleConnect",
    "server console url show": "minova.cli.commands.server.terminal:ServerConsoleUrlShow",
    "server create": "minova.cli.commands.server.create.command:ServerCreate",
    "server delete": "minova.cli.commands.server.actions.deletion:ServerDelete",
    "server dump create": "minova.cli.commands.server.actions.power:ServerDumpCreate",
    "server evacuate": "minova.cli.commands.server.actions.evacuate:ServerEvacuate",
    "server event list": "minova.cli.commands.server.event:ServerEventList",
    "server event show": "minova.cli.commands.server.event:ServerEventShow",
    "server explain": "minova.cli.commands.server.explain:ServerExplain",
    "server group create": "minova.cli.commands.server_group:ServerGroupCreate",
    "server group delete": "minova.cli.commands.server_group:ServerGroupDelete",
    "server group list": "minova.cli.commands.server_group:ServerGroupList",
    "server group show": "minova.cli.commands.server_group:ServerGroupShow",
    "server image create": "minova.cli.commands.server.actions.images:ServerImageCreate",
    "server list": "minova.cli.commands.server.show:ServerList",
    "server lock": "minova.cli.commands.server.attributes:ServerLock",
    "server migrate": "minova.cli.commands.server.actions.moves:ServerMigrate",
    "server migration abort": "minova.cli.commands.server.migration:MigrationAbort",
    "server migration confirm": "minova.cli.commands.server.actions.moves:ServerResizeConfirm",
    "server migration force complete": "minova.cli.commands.server.migration:MigrationForceComplete",
    "server migration list": "minova.cli.commands.server.migration:MigrationList",
    "server migration revert": "minova.cli.commands.server.actions.moves:ServerResizeRevert",
    "server migration show": "minova.cli.commands.server.migration:MigrationShow",
    "server pause": "minova.cli.commands.server.actions.power:ServerPause",
    "server reboot": "minova.cli.commands.server.actions.power:ServerReboot",
    "server rebuild": "minova.cli.commands.server.actions.rebuild:ServerRebuild",
    "server rescue": "minova.cli.commands.server.actions.rescue:ServerRescue",
    "server rename": "minova.cli.commands.server.attributes:ServerRename",
    "server restore": "minova.cli.commands.server.actions.deletion:ServerRestore",
    "server resize": "minova.cli.commands.server.actions.moves:ServerResize",
    "server resize confirm": "minova.cli.commands.server.actions.moves:ServerResizeConfirm",
    "server resize revert": "minova.cli.commands.server.actions.moves:ServerResizeRevert",
    "server resume": "minova.cli.commands.server.actions.power:ServerResume",
    "server set": "minova.cli.commands.server.attributes:ServerSet",
    "server shelve": "minova.cli.commands.server.actions.shelving:ServerShelve",
    "server show": "minova.cli.commands.server.show:ServerShow",
    "server ssh": "minova.cli.commands.server.ssh:ServerSsh",
    "server start": "minova.cli.commands.server.actions.power:ServerStart",
    "server stop": "minova.cli.commands.server.actions.power:ServerStop",
    "server suspend": "minova.cli.commands.server.actions.power:ServerSuspend",
    "server unlock": "minova.cli.commands.server.attributes:ServerUnlock",
    "server unpause": "minova.cli.commands.server.actions.power:ServerUnpause",
    "server unrescue": "minova.cli.commands.server.actions.rescue:ServerUnrescue",
    "server unset": "minova.cli.commands.server.attributes:ServerUnset",
    "server unshelve": "minova.cli.commands.server.actions.shelving:ServerUnshelve",
    "service delete": "minova.cli.commands.service:ServiceDelete",
    "service list": "minova.cli.commands.service:ServiceList",
    "service set": "minova.cli.commands.service:ServiceSet",
    "subnet create": "minova.cli.commands.network.subnet:SubnetCreate",
    "subnet delete": "minova.cli.commands.network.subnet:SubnetDelete",
    "subnet list": "minova.cli.commands.network.subnet:SubnetList",
    "subnet pool create": "minova.cli.commands.network.subnet_pool:SubnetPoolCreate",
    "subnet pool delete": "minova.cli.commands.network.subnet_pool:SubnetPoolDelete",
    "subnet pool list": "minova.cli.commands.network.subnet_pool:SubnetPoolList",
    "subnet pool set": "minova.cli.commands.network.subnet_pool:SubnetPoolSet",
    "subnet pool show": "minova.cli.commands.network.subnet_pool:SubnetPoolShow",
    "subnet pool unset": "minova.cli.commands.network.subnet_pool:SubnetPoolUnset",
    "subnet set": "minova.cli.commands.network.subnet:SubnetSet",
    "subnet show": "minova.cli.commands.network.subnet:SubnetShow",
    "subnet unset": "minova.cli.commands.network.subnet:SubnetUnset",
    "usage list": "minova.cli.commands.usage:UsageList",
    "usage show": "minova.cli.commands.usage:UsageShow",
    "help": "minova.cli.help:Help",
    "complete": "minova.cli.completion:Complete",
}

# Alternative names of commands, as in OpenStack's client; the list of all commands leaves them out.
SPELLINGS = {
    "compute service delete",
    "compute service list",
    "compute service set",
    "console log show",
    "console url show",
    "hypervisor stats show",
    "server console log show",
}


def is_longer_spelling(name: str) -> bool:
    """Whether the first words of this spelling alone already name a command."""
    words = name.split()
    return name in SPELLINGS and any(" ".join(words[:length]) in COMMANDS for length in range(1, len(words)))


class LazyCommand:
    """A command that is imported when it runs, with the interface of an entry point that cliff's manager expects."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.value = value

    def load(self) -> Any:
        module, _, attribute = self.value.partition(":")
        return getattr(importlib.import_module(module), attribute)


class Commands(CommandManager):
    """Finds a command by its full words first, then by abbreviations, such as `ser li`."""

    def _load_commands(self) -> None:
        for name, value in COMMANDS.items():
            self.commands[name] = LazyCommand(name, value)  # type: ignore[assignment]

    def add_command(self, name: str, command_class: Any) -> None:
        """Ignores cliff's own `help` and `complete`: the ones in the table are better and faster."""

    def find_command(self, argv: list[str]) -> tuple[Any, str, list[str]]:
        """Returns the class, the words that named it, and the rest. Raises ValueError if there is no such command."""
        # Try full words before abbreviations; otherwise a server called "s" would be read as the `show` of `console log
        # show`.
        for length in range(self._get_last_possible_command_index(argv), 0, -1):
            name = " ".join(argv[:length])
            if name in self.commands:
                return self.commands[name].load(), name, argv[length:]
        return super().find_command(argv)
