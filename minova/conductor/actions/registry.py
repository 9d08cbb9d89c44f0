"""The hooks of every kind of action."""

from collections.abc import Mapping

from oslo_config import cfg

from minova.conductor.actions.engine.kind import ActionKind, EveryKind
from minova.conductor.actions.kinds import (
    deletion,
    images,
    interfaces,
    moves,
    password,
    power,
    rebuild,
    rescue,
    shelving,
)
from minova.conductor.catalogue.images import Images
from minova.conductor.moves.start import StartMoves
from minova.conductor.network.attachments import Attachments
from minova.conductor.quotas import Quotas
from minova.conductor.servers.build import BuildInstances
from minova.conductor.tasks.worker import TaskWorker
from minova.contracts.scheduler import SchedulerApi
from minova.objects.actions.table import BY_KIND


def of_every_kind(worker: TaskWorker, attachments: Attachments) -> tuple[EveryKind, ...]:
    """Returns what the families do after the success of actions of any kind."""
    return (
        shelving.ShelvedImages(),
        interfaces.PendingInterfaces(attachments),
        moves.ProvenDisks(worker),
    )


def action_kinds(
    conf: cfg.ConfigOpts,
    worker: TaskWorker,
    quotas: Quotas,
    catalogue: Images,
    attachments: Attachments,
    builds: BuildInstances,
    start_moves: StartMoves,
    scheduler: SchedulerApi,
) -> Mapping[str, ActionKind]:
    """Returns them by kind. A kind whose family is not named here needs none. `scheduler`: a client with a short
    time-out.
    """
    return {
        **dict.fromkeys(BY_KIND, ActionKind()),
        **power.kinds(),
        **images.kinds(catalogue),
        **rescue.kinds(),
        **password.kinds(),
        **rebuild.kinds(worker, quotas, scheduler),
        **interfaces.kinds(worker, attachments),
        **shelving.kinds(conf, worker, catalogue, builds),
        **moves.kinds(worker, start_moves, quotas, scheduler),
        **deletion.kinds(worker, quotas),
    }
