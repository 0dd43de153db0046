"""Rendering: renderers of environments, and recording and saving of frames."""

from sekai.rendering.episode_renderer import EpisodeRenderer
from sekai.rendering.market_making_renderer import MarketMakingRenderer
from sekai.rendering.matplotlib_renderer import MatplotlibRenderer
from sekai.rendering.multi_portfolio_renderer import MultiPortfolioRenderer
from sekai.rendering.optimal_execution_renderer import OptimalExecutionRenderer
from sekai.rendering.portfolio_renderer import PortfolioRenderer
from sekai.rendering.record_frames import (
    RecordFrames,
    RecordingStep,
    Trigger,
    every_episode,
    every_step,
    first_steps,
)
from sekai.rendering.renderer import (
    CompositeRenderer,
    Frame,
    Renderer,
    Renders,
    Watches,
    renderer_for,
)
from sekai.rendering.saving import save_gif, save_png, save_video
from sekai.rendering.trading_renderer import TradingRenderer

__all__ = [
    "CompositeRenderer",
    "EpisodeRenderer",
    "Frame",
    "MarketMakingRenderer",
    "MatplotlibRenderer",
    "MultiPortfolioRenderer",
    "OptimalExecutionRenderer",
    "PortfolioRenderer",
    "RecordFrames",
    "RecordingStep",
    "Renderer",
    "Renders",
    "TradingRenderer",
    "Trigger",
    "Watches",
    "every_episode",
    "every_step",
    "first_steps",
    "renderer_for",
    "save_gif",
    "save_png",
    "save_video",
]
