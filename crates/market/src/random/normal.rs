//! Normal random draws by the ziggurat algorithm: layers of equal area, most draws decided by one
//! comparison.
//!
//! Tables and tails are computed by a mathematics library written in Rust, so that a seed gives
//! the same bits on every machine.

use std::sync::LazyLock;

use super::{Stream, to_unit};

const LAYERS: usize = 256;
/// Start of the tail beyond the lowest layer, for 256 layers.
const TAIL: f64 = 3.654_152_885_361_009;
/// The area of every layer, the tail in the lowest one.
const AREA: f64 = 0.004_928_673_233_992_336;

struct Layers {
    /// Right edges, from the lowest layer up; the last is 0.
    edges: [f64; LAYERS + 1],
    /// The density at those edges.
    heights: [f64; LAYERS + 1],
}

static ZIGGURAT: LazyLock<Layers> = LazyLock::new(|| {
    let mut edges = [0.0; LAYERS + 1];
    edges[0] = AREA / density(TAIL);
    edges[1] = TAIL;
    for layer in 2..LAYERS {
        let below = edges[layer - 1];
        edges[layer] = libm::sqrt(-2.0 * libm::log(AREA / below + density(below)));
    }
    Layers { edges, heights: edges.map(density) }
});

/// Unnormalized density: 1 at zero.
fn density(at: f64) -> f64 {
    libm::exp(-0.5 * at * at)
}

#[inline]
pub(super) fn draw(stream: &mut Stream) -> f64 {
    let layers = &*ZIGGURAT;
    loop {
        // The lowest 8 bits choose the layer, bit 8 the sign, the upper 53 the point in it.
        let bits = stream.bits();
        let layer = (bits & 0xff) as usize;
        let at = to_unit(bits) * layers.edges[layer];
        let size = if at < layers.edges[layer + 1] {
            Some(at)
        } else if layer == 0 {
            Some(tail(stream))
        } else {
            let (low, high) = (layers.heights[layer], layers.heights[layer + 1]);
            (low + stream.uniform() * (high - low) < density(at)).then_some(at)
        };
        if let Some(size) = size {
            return if bits & 0x100 == 0 { size } else { -size };
        }
    }
}

/// A draw beyond the lowest layer, by Marsaglia's method.
#[cold]
fn tail(stream: &mut Stream) -> f64 {
    loop {
        let beyond = stream.exponential() / TAIL;
        if 2.0 * stream.exponential() > beyond * beyond {
            return TAIL + beyond;
        }
    }
}
