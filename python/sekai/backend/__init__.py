"""Array backends: NumPy or torch arrays in spaces and vector envs."""

from sekai.backend.numpy_ops import NumpyOps
from sekai.backend.ops import Backend, BackendOps, as_numpy, get_backend
from sekai.backend.torch_ops import TorchOps

__all__ = ["Backend", "BackendOps", "NumpyOps", "TorchOps", "as_numpy", "get_backend"]
