//! Observations: a row of numbers, or several parts of different types (see [`parts!`]).
//!
//! [`parts!`]: crate::parts!

use crate::batch::BatchError;

/// Observation buffers, and their division into rows.
pub trait Observation: Send + Sync {
    /// Shape of one env's observation.
    type Layout: Clone + Send + Sync;

    /// Rows of envs next to each other, to write into. The rows of one env are its observation.
    type Rows<'a>: Send;

    /// Zeroed buffers for `num_envs` envs.
    fn zeros(layout: &Self::Layout, num_envs: usize) -> Self;

    /// All rows.
    fn rows(&mut self) -> Self::Rows<'_>;

    /// Check that there are as many rows as envs; `name` is the name used in errors.
    ///
    /// # Errors
    /// If there are more or fewer values.
    fn check(
        rows: &Self::Rows<'_>,
        name: &'static str,
        layout: &Self::Layout,
        num_envs: usize,
    ) -> Result<(), BatchError>;

    /// The rows of the first `count` envs, and those of the rest.
    fn split<'a>(
        rows: Self::Rows<'a>,
        layout: &Self::Layout,
        count: usize,
    ) -> (Self::Rows<'a>, Self::Rows<'a>);

    /// Observation row of env `env`.
    fn row<'a>(rows: &'a mut Self::Rows<'_>, layout: &Self::Layout, env: usize) -> Self::Rows<'a>;

    /// Copy as many rows as there are.
    fn copy(from: &Self::Rows<'_>, into: &mut Self::Rows<'_>);
}

/// A row of numbers of one type for each env; the layout is how many.
#[allow(clippy::mut_mut)] // the rows are references themselves
impl<N: Copy + Default + Send + Sync + 'static> Observation for Vec<N> {
    type Layout = usize;
    type Rows<'a> = &'a mut [N];

    fn zeros(layout: &usize, num_envs: usize) -> Self {
        vec![N::default(); num_envs * layout]
    }

    fn rows(&mut self) -> &mut [N] {
        self
    }

    fn check(
        rows: &&mut [N],
        name: &'static str,
        layout: &usize,
        num_envs: usize,
    ) -> Result<(), BatchError> {
        let (expected, got) = (num_envs * layout, rows.len());
        if expected == got { Ok(()) } else { Err(BatchError::Length { name, expected, got }) }
    }

    fn split<'a>(rows: &'a mut [N], layout: &usize, count: usize) -> (&'a mut [N], &'a mut [N])
    where
        'a: 'a, // redundant, but needed to match the trait's signature
    {
        rows.split_at_mut(count * layout)
    }

    #[inline]
    fn row<'a>(rows: &'a mut &mut [N], layout: &usize, env: usize) -> &'a mut [N] {
        &mut rows[env * layout..][..*layout]
    }

    #[inline]
    fn copy(from: &&mut [N], into: &mut &mut [N]) {
        into.copy_from_slice(from);
    }
}
