"""Configuration: TOML files and plain values to checked dataclasses.

Errors name the file, the line and the key, the expected value and the closest known name.
"""

from __future__ import annotations

from sekai.config.convert import ConversionError, build, convert
from sekai.config.toml_file import ConfigError, ConfigSource, dump_toml, load_toml

__all__ = [
    "ConfigError",
    "ConfigSource",
    "ConversionError",
    "build",
    "convert",
    "dump_toml",
    "load_toml",
]
