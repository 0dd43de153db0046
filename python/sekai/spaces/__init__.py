"""Spaces: sets of valid observations and actions."""

from sekai.spaces.batch import batch_space, copy_sample, empty_batch, stack_samples, unstack
from sekai.spaces.box import Box
from sekai.spaces.dict import Dict
from sekai.spaces.discrete import Discrete
from sekai.spaces.masked_box import MaskedBox
from sekai.spaces.multi_binary import MultiBinary
from sekai.spaces.multi_discrete import MultiDiscrete
from sekai.spaces.simplex import Simplex
from sekai.spaces.space import Space
from sekai.spaces.tuple import Tuple
from sekai.spaces.utils import flatdim, flatten, flatten_space, unflatten

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "MaskedBox",
    "MultiBinary",
    "MultiDiscrete",
    "Simplex",
    "Space",
    "Tuple",
    "batch_space",
    "copy_sample",
    "empty_batch",
    "flatdim",
    "flatten",
    "flatten_space",
    "stack_samples",
    "unflatten",
    "unstack",
]
