"""Rolling windows over a panel, gathered in batches from memory or from files of any size."""

from sekai.data.windows.panel_windows import PanelWindows, RollingWindows
from sekai.data.windows.window_file import Windows

__all__ = ["PanelWindows", "RollingWindows", "Windows"]
