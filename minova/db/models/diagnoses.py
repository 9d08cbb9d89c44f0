"""What the scheduler decided: one record for each request, however many instances it was for."""

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Uuid
from minova.db.models.types import StructType
from minova.objects.diagnosis import Diagnosis


class DiagnosisRow(Base):
    __tablename__ = "diagnoses"
    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[Diagnosis] = mapped_column(StructType(Diagnosis))
    created_at: Mapped[datetime] = mapped_column(index=True)


class InstanceDiagnosis(Base):
    """An instance may have several: the newest tells why it is where it is."""

    __tablename__ = "instance_diagnoses"
    instance_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    diagnosis_id: Mapped[int] = mapped_column(
        ForeignKey("diagnoses.id", ondelete="CASCADE"), primary_key=True, index=True
    )
