"""Safe mode lasted up to a minute longer than needed, and another minute for each report that met an outage: an image store
reported once a minute.
"""

import threading

from sqlalchemy import delete, select

from minova.api.image.storage import store_reports
from minova.db.models import Image, UnexpectedImage
from minova.objects.hosts.cloud import LOST
from tests.functional.api.conftest import Cloud
from tests.waiting import wait_for

# Seconds: less than a minute.
SOON = 40.0


def test_a_store_reports_soon_after_safe_mode_has_begun(cloud: Cloud) -> None:
    image, stopping = cloud.make_image(data=b"\0" * 512), threading.Event()
    store_reports.start(cloud.app.images, stopping)
    try:
        wait_for("the first report", lambda: cloud.app.images.store.record(image["id"]), SOON)
        with cloud.db.write() as session:
            session.execute(delete(Image))
        cloud.app.images.safe_mode.hold("database", LOST)
        wait_for("the image is reported", lambda: image["id"] in reported(cloud), SOON)
    finally:
        stopping.set()


def reported(cloud: Cloud) -> list[str]:
    with cloud.db.read() as session:
        return list(session.scalars(select(UnexpectedImage.id)))
