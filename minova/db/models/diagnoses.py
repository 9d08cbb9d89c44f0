"""Decisions of the scheduler: one record for each request, which may be for several instances."""

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid
from minova.db.models.types import StructType
from minova.objects.requests.diagnosis import Diagnosis


class DiagnosisRow(Base):
    __tablename__ = "diagnoses"
    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[Diagnosis] = mapped_column(StructType(Diagnosis))
    created_at: Mapped[datetime] = mapped_column(index=True)


class InstanceDiagnosis(Base):
    """Links an instance to a decision. An instance may have several; the newest explains its current host."""

    __tablename__ = "instance_diagnoses"
    instance_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    diagnosis_id: Mapped[int] = mapped_column(
        ForeignKey("diagnoses.id", ondelete="CASCADE"), primary_key=True, index=True
    )
