"""What a release's contracts and stored structs look like, as JSON: `python tests/released/describe.py >RELEASE.json`.

Run it with the modules of that release first in PYTHONPATH. Imports nothing of the tests, and of minova what releases have.
"""

import importlib
import json
import sys
from typing import Any

from msgspec import inspect
from sqlalchemy import JSON
from sqlalchemy.types import TypeDecorator

Described = Any
_COLLECTIONS = (inspect.VarTupleType, inspect.ListType, inspect.SetType, inspect.FrozenSetType)


def describe(kind: inspect.Type, structs: dict[str, Any]) -> Described:
    """A type; structs by name in `structs`, which is filled."""
    if isinstance(kind, inspect.StructType):
        name = kind.cls.__name__
        if name not in structs:
            structs[name] = {}
            structs[name] = {
                field.encode_name: {"required": field.required, "type": describe(field.type, structs)}
                for field in kind.fields
            }
        return {"struct": name}
    if isinstance(kind, inspect.UnionType):
        return {"any of": [describe(each, structs) for each in kind.types]}
    if isinstance(kind, _COLLECTIONS):
        return {"each": describe(kind.item_type, structs)}
    if isinstance(kind, inspect.TupleType):
        return {"items": [describe(each, structs) for each in kind.item_types]}
    if isinstance(kind, inspect.DictType):
        return {"keys": describe(kind.key_type, structs), "values": describe(kind.value_type, structs)}
    if isinstance(kind, inspect.EnumType):
        return {"values of": sorted(str(each.value) for each in kind.cls)}
    if isinstance(kind, inspect.LiteralType):
        return {"values of": sorted(map(str, kind.values))}
    return type(kind).__name__.removesuffix("Type").lower()


def contracts() -> dict[str, Any]:
    """By topic: the version, and of each method its arguments and answer; with all structs inside of them and of columns."""
    structs: dict[str, Any] = {}
    contracts_found: dict[str, Any] = {}
    for name in ("Conductor", "Compute", "Scheduler"):
        described = getattr(importlib.import_module(f"minova.contracts.{name.lower()}"), f"{name}Api")
        methods = {}
        for method in _methods(described):
            arguments = inspect.type_info(getattr(method.arguments, "kind", method.arguments))
            assert isinstance(arguments, inspect.StructType)
            methods[method.name] = {
                "kind": method.kind,
                "arguments": {
                    field.encode_name: {"required": field.required, "type": describe(field.type, structs)}
                    for field in arguments.fields
                },
                "answer": describe(inspect.type_info(getattr(method.answer, "kind", method.answer)), structs),
            }
        contracts_found[described.TOPIC] = {"version": described.VERSION, "methods": methods}
    return {"contracts": contracts_found, "columns": _columns(structs), "structs": structs}


def _methods(described: Any) -> list[Any]:
    try:
        methods_of = importlib.import_module("minova.contracts.base").methods_of
    except AttributeError:
        methods_of = importlib.import_module("minova.messaging.rpc").methods_of
    return list(methods_of(described).values())


def _type_name(kind: Any) -> str:
    """Of a JSON column whose type only encodes: JSON, which is what is in the database."""
    return "JSON" if isinstance(kind, TypeDecorator) and isinstance(kind.impl, JSON) else type(kind).__name__


def _columns(structs: dict[str, Any]) -> dict[str, Any]:
    """Of each table: its columns, whether an INSERT must name them, and the struct that is stored there."""
    models = importlib.import_module("minova.db.models")
    tables = {}
    for table in models.Base.metadata.sorted_tables:
        tables[table.name] = {
            column.name: {
                "type": _type_name(column.type),
                "required": not column.nullable and column.server_default is None and not column.primary_key,
                "struct": describe(inspect.type_info(struct), structs)
                if (struct := getattr(column.type, "struct", None)) is not None
                else None,
            }
            for column in table.columns
        }
    return tables


if __name__ == "__main__":
    json.dump(contracts(), sys.stdout, indent=1, sort_keys=True)
