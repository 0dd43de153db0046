"""gymnasium, both ways: spaces, envs, vector envs, and the namespace of its registry."""

from sekai.error import MissingExtraError

try:
    # Asked for here once, for all modules below.
    import gymnasium as _gymnasium  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError.of("gymnasium", "gymnasium", "sekai.compat.gymnasium") from error
