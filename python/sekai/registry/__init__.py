"""Environment registry: register, find and make environments by id."""

from sekai.registry.naming import EnvId
from sekai.registry.registry import (
    all_specs,
    isolated,
    make,
    namespaces,
    register,
    register_namespace,
    spec,
)
from sekai.registry.spec import EnvSpec, WrapperSpec
from sekai.storage.kinds import register_kind

__all__ = [
    "EnvId",
    "EnvSpec",
    "WrapperSpec",
    "all_specs",
    "isolated",
    "make",
    "namespaces",
    "register",
    "register_kind",
    "register_namespace",
    "spec",
]
