"""PettingZoo's parallel envs, both ways."""

from sekai.error import MissingExtraError

try:
    # Asked for here once, for all modules below.
    import pettingzoo as _pettingzoo  # type: ignore[import-untyped]  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError.of("pettingzoo", "pettingzoo", "sekai.compat.pettingzoo") from error
