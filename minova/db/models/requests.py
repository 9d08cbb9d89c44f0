"""Requests for servers, and the client-supplied UUIDs that identify repeated requests."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    String,
)
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid
from minova.db.models.types import StructType
from minova.objects.requests.request_spec import RequestSpec


class RequestSpecRow(Base):
    """One row for all the instances of a request (`reservation_id`): they are scheduled together."""

    __tablename__ = "request_specs"
    reservation_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    spec: Mapped[RequestSpec] = mapped_column(StructType(RequestSpec))
    carried: Mapped[dict[str, Any]]  # networks, groups, mappings: stored, then carried to the compute
    created_at: Mapped[datetime]


class RequestSecrets(Base):
    """The secret part of `carried`: files and password. The row is deleted when the request has no tasks left."""

    __tablename__ = "request_secrets"
    reservation_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    value: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class CreateRequest(Base):
    """A client-supplied UUID of a create request. A repeated request returns the same servers."""

    __tablename__ = "create_requests"
    request_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    project_id: Mapped[str] = mapped_column(primary_key=True)
    body_hash: Mapped[str] = mapped_column(String(64))
    reservation_id: Mapped[str] = mapped_column(String(36))
    instance_uuids: Mapped[list[Any]]
    created_at: Mapped[datetime] = mapped_column(index=True)
