"""Windows of the past that are gathered when they are needed: from files of any size, or memory."""

from sekai.data.windows.panel_windows import PanelWindows
from sekai.data.windows.rolling_windows import RollingWindows
from sekai.data.windows.window_file import Windows

__all__ = ["PanelWindows", "RollingWindows", "Windows"]
