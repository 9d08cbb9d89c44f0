"""The broker, and what waits in its queues."""

from collections.abc import Iterator, Sequence

from oslo_config import cfg

from minova import errors
from minova.health.doctor.findings import Finding, Severity
from minova.messaging import broker_connection
from minova.messaging.queue_depths import Depth, depths
from minova.messaging.rpc import Rpc

AREA = "queues"
# Messages that wait in a queue whose readers keep up.
MANY = 1000
_OWN_LINE = "let /etc/minova/minova-manage.conf have the transport_url of this host's minova-conductor (docs/operators/broker.md)"


def check(conf: cfg.ConfigOpts, queues: Sequence[str]) -> Iterator[Finding]:
    """Checks nothing if no broker is configured: minova-standalone has none."""
    try:
        rpc = Rpc(conf)
    except errors.InvalidConfiguration as error:
        mend = _OWN_LINE if conf.broker.per_host_users else "correct it"
        yield Finding(area="broker", subject="transport_url", problem="cannot be used", detail=str(error), mend=mend)
        return
    try:
        if broker_connection.is_configured(conf):
            yield from judge(queues, depths(rpc, queues))
    except errors.MinovaError as error:
        yield Finding(
            area="broker",
            subject="the message broker",
            problem="does not answer",
            detail=errors.explained(error),
            mend="start RabbitMQ, or correct [DEFAULT] transport_url (docs/operators/broker.md)",
        )
    finally:
        rpc.close()


def judge(queues: Sequence[str], depth_by_queue: dict[str, Depth]) -> Iterator[Finding]:
    for name in queues:
        depth = depth_by_queue.get(name, Depth(0, 0))
        service = f"minova-{name.partition('.')[0].partition('_')[0]}"
        if depth.consumers == 0:
            yield Finding(
                area=AREA,
                subject=name,
                problem="is read by no service",
                detail=f"{depth.messages} messages wait",
                mend=f"systemctl start {service}",
            )
        elif depth.messages > MANY:
            yield Finding(
                area=AREA,
                subject=name,
                problem="grows",
                detail=f"{depth.messages} messages wait for {depth.consumers} readers",
                mend=f"start more of {service}, or look at its log",
                severity=Severity.WARNING,
            )
