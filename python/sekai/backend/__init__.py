"""Array backends: who makes the arrays that spaces and vector envs hand out."""

from sekai.backend.choose import Backend, get_backend
from sekai.backend.numpy_ops import NumpyOps
from sekai.backend.ops import BackendOps, as_numpy
from sekai.backend.torch_ops import TorchOps

__all__ = ["Backend", "BackendOps", "NumpyOps", "TorchOps", "as_numpy", "get_backend"]
