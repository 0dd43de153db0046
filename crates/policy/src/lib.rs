//! Inference of policy networks: a program of typed operations over rows of `f32`.
//!
//! A [`Network`] is built once from a list of [`Operation`]s, which are validated: sizes come from
//! files, and a mismatch is a [`PolicyError`], never a panic. Scratch memory is allocated when the
//! network is built; [`Network::forward`] allocates nothing. Rows are independent, so that a batch of n
//! rows gives the bits of n batches of one row. Sums have a fixed order and products are fused
//! everywhere, so that the bits are the same on every machine.

mod actions;
mod actor_critic;
mod assets;
mod dense;
mod dispatch;
mod error;
mod functions;
mod gradient;
mod lanes;
mod network;
mod operation;
mod plan;
mod rows;
mod sampling;
mod windows;

pub use actions::{ActionKind, Actions};
pub use actor_critic::{
    ActorCritic, ActorCriticShape, DivergedError, Samples, TrainingState, UpdateMetrics,
    UpdateSettings,
};
pub use error::{InputError, PolicyError};
pub use functions::{exp, sigmoid, silu, tanh};
pub use network::Network;
pub use operation::{Function, Matrix, Operation};
pub use rows::Rows;
pub use sampling::{Head, Memory, Noise, Sampler};
