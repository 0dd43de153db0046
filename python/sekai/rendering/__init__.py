"""Drawing environments from outside, and keeping what was drawn."""

from sekai.rendering.composite import CompositeRenderer
from sekai.rendering.episode_renderer import EpisodeRenderer
from sekai.rendering.gif import save_gif
from sekai.rendering.market_making_renderer import MarketMakingRenderer
from sekai.rendering.matplotlib_renderer import MatplotlibRenderer
from sekai.rendering.multi_portfolio_renderer import MultiPortfolioRenderer
from sekai.rendering.optimal_execution_renderer import OptimalExecutionRenderer
from sekai.rendering.png import save_png
from sekai.rendering.portfolio_renderer import PortfolioRenderer
from sekai.rendering.record_frames import RecordFrames
from sekai.rendering.renderer import Frame, Renderer, Renders, Watches
from sekai.rendering.renderer_for import renderer_for
from sekai.rendering.trading_renderer import TradingRenderer
from sekai.rendering.trigger import Moment, Trigger, every_episode, every_step, first_steps
from sekai.rendering.video import save_video

__all__ = [
    "CompositeRenderer",
    "EpisodeRenderer",
    "Frame",
    "MarketMakingRenderer",
    "MatplotlibRenderer",
    "Moment",
    "MultiPortfolioRenderer",
    "OptimalExecutionRenderer",
    "PortfolioRenderer",
    "RecordFrames",
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
