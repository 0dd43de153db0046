"""Adapters to and from gymnasium: spaces, envs, vector envs, and its registry as a namespace."""

from sekai.storage.optional import optional_import

# Checked here once, for all modules below.
optional_import("gymnasium", "gymnasium", "sekai.compat.gymnasium")
