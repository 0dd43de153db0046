"""The renderer that an env names as its own."""

from __future__ import annotations

from typing import Any

from sekai.registry import spec
from sekai.registry.entry_point import loaded
from sekai.rendering.renderer import Renders

__all__ = ["renderer_for"]


def renderer_for(env: Any, **settings: Any) -> Renders:
    """Make the renderer that draws `env`.

    All tasks that come with sekai have one. An env of one's own names its renderer in
    `metadata["renderer"]`: a class, or where to import it from as `"module:Class"`.

    Args:
        env: an env, wrapped or not; or the id of a registered one.
        settings: what the renderer is made with, such as `width` and `height`.

    Raises:
        TypeError: the env names no renderer.
    """
    kind = loaded(spec(env).entry_point) if isinstance(env, str) else env
    named = getattr(kind, "metadata", {}).get("renderer")
    if named is None:
        raise TypeError(
            f"an env whose metadata name a renderer was wanted, found {env!r}: write one on "
            "MatplotlibRenderer, and name it in metadata['renderer']"
        )
    renderer: Renders = loaded(named)(**settings)
    return renderer
