//! Operations of a program. Each computes one value, of a fixed number of numbers per row.

/// A matrix in row-major order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Numbers, row by row.
    pub numbers: Vec<f32>,
}

/// Activation functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Hyperbolic tangent.
    Tanh,
    /// Positive part.
    Relu,
    /// Number times its logistic function.
    Silu,
    /// Logistic function.
    Sigmoid,
}

/// An operation. `input`, `mask` and the like are indices of earlier operations; a mask has one number
/// for each item (an asset slot), which is in use unless the number is zero.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Numbers of a leaf.
    Input {
        /// Index of the leaf.
        leaf: usize,
    },
    /// One-hot encoded integers of a leaf.
    OneHot {
        /// Index of the leaf.
        leaf: usize,
        /// Number of categories of each integer.
        counts: Vec<usize>,
        /// First category of each integer.
        starts: Vec<i64>,
    },
    /// One where a leaf is not zero.
    NonZero {
        /// Index of the leaf.
        leaf: usize,
    },
    /// Numbers times a factor.
    Scale {
        /// Value.
        input: usize,
        /// Factor.
        factor: f32,
    },
    /// `(input - mean) * scale`, clipped; moments are repeated over the row.
    Normalize {
        /// Value.
        input: usize,
        /// Means.
        mean: Vec<f32>,
        /// Inverse standard deviations.
        scale: Vec<f32>,
        /// Largest magnitude.
        clip: f32,
    },
    /// Values side by side, item by item.
    Concatenate {
        /// Values.
        inputs: Vec<usize>,
        /// Number of items.
        items: usize,
    },
    /// Part of each item.
    Slice {
        /// Value.
        input: usize,
        /// Number of items.
        items: usize,
        /// First number of the part.
        start: usize,
        /// Size of the part.
        width: usize,
    },
    /// From rows by columns by width to columns by rows by width.
    Transpose {
        /// Value.
        input: usize,
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        columns: usize,
    },
    /// Linear layer of each item.
    Linear {
        /// Value.
        input: usize,
        /// Outputs by inputs.
        weight: Matrix,
        /// Bias of each output; empty for none.
        bias: Vec<f32>,
    },
    /// Activation function.
    Activate {
        /// Value.
        input: usize,
        /// Function.
        function: Function,
    },
    /// Sum of two values; the second is repeated over the items of the first.
    Add {
        /// Value.
        input: usize,
        /// Second value.
        other: usize,
    },
    /// Layer normalization of each item.
    LayerNorm {
        /// Value.
        input: usize,
        /// Weights.
        weight: Vec<f32>,
        /// Biases.
        bias: Vec<f32>,
        /// Added to variances.
        epsilon: f32,
    },
    /// Zero in unused items.
    ZeroUnused {
        /// Value.
        input: usize,
        /// Items in use.
        mask: usize,
    },
    /// Numbers times the root of the number of items in use, one number for each item.
    ScaleByRootCount {
        /// Value.
        input: usize,
        /// Items in use; None for all.
        mask: Option<usize>,
    },
    /// Mean over the items in use; zero without any.
    Mean {
        /// Value.
        input: usize,
        /// Number of items.
        items: usize,
        /// Items in use; None for all.
        mask: Option<usize>,
    },
    /// Maximum over the items in use; zero without any.
    Max {
        /// Value.
        input: usize,
        /// Number of items.
        items: usize,
        /// Items in use; None for all.
        mask: Option<usize>,
    },
    /// Multi-head self-attention over items, from queries, keys and values side by side.
    Attention {
        /// Value.
        input: usize,
        /// Number of items.
        items: usize,
        /// Number of heads.
        heads: usize,
        /// Items in use; None for all.
        mask: Option<usize>,
    },
    /// Edge weights of fixed neighbours.
    Neighbours {
        /// Weights between items before masking.
        near: Matrix,
        /// Items in use; None for all.
        mask: Option<usize>,
    },
    /// Edge weights by correlations of one channel over time.
    Correlations {
        /// Items by times by channels.
        input: usize,
        /// Number of items.
        items: usize,
        /// Number of times.
        times: usize,
        /// Index of the channel.
        channel: usize,
        /// Factor of the correlation.
        slope: f32,
        /// Added to it, before the logistic function.
        offset: f32,
        /// Items in use; None for all.
        mask: Option<usize>,
    },
    /// Weighted sum of the neighbours of each item.
    Mix {
        /// Edge weights: items by items.
        near: usize,
        /// Value.
        input: usize,
        /// Number of items.
        items: usize,
    },
    /// Last hidden state of a GRU over the times of each item.
    Gru {
        /// Items by times by channels.
        input: usize,
        /// Number of items.
        items: usize,
        /// Weights of inputs for the reset, update and new gates.
        input_weight: Matrix,
        /// Weights of the hidden state.
        hidden_weight: Matrix,
        /// Bias of inputs.
        input_bias: Vec<f32>,
        /// Bias of the hidden state.
        hidden_bias: Vec<f32>,
    },
    /// Overlapping pieces of `kernel` times, each `stride` after the last; the last ends with the last
    /// time, and zeros are before the first. Numbers of a piece are ordered by channel.
    Pieces {
        /// Items by times by channels.
        input: usize,
        /// Number of items.
        items: usize,
        /// Number of times.
        times: usize,
        /// Times of a piece.
        kernel: usize,
        /// Distance of pieces.
        stride: usize,
    },
    /// Convolution over an image of height by width by channels.
    Convolution {
        /// Image.
        input: usize,
        /// Height, width.
        sides: [usize; 2],
        /// Side of the kernel.
        kernel: usize,
        /// Distance of kernels.
        stride: usize,
        /// Output channels by kernel rows by kernel columns by input channels.
        weight: Matrix,
        /// Bias of each output channel.
        bias: Vec<f32>,
    },
    /// Logits with forbidden actions set to `masked`.
    MaskLogits {
        /// Logits.
        input: usize,
        /// Items in use: an unused item takes its middle action, unless it is forbidden. None for all.
        mask: Option<usize>,
        /// Logit of forbidden actions.
        masked: f32,
    },
    /// `exp(input + shift)` with the exponent clipped.
    Exponent {
        /// Value.
        input: usize,
        /// Added numbers.
        shift: Vec<f32>,
        /// Smallest exponent.
        low: f32,
        /// Largest exponent.
        high: f32,
    },
}
