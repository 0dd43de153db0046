//! What a task shows: a row of numbers, or several parts of different types (see [`parts!`]).
//!
//! [`parts!`]: crate::parts

use crate::batch::BatchError;

/// Memory for what envs show, and how rows of it are cut.
pub trait Observation: Send + Sync {
    /// How much of it belongs to one env.
    type Layout: Clone + Send + Sync;

    /// Rows of envs next to each other, to write into. The rows of one env are what it shows.
    type Rows<'a>: Send;

    /// Memory for `num_envs` envs, all of it zero.
    fn zeros(layout: &Self::Layout, num_envs: usize) -> Self;

    /// All rows of it.
    fn rows(&mut self) -> Self::Rows<'_>;

    /// Whether there are as many rows as envs; `name` is what an error calls them.
    ///
    /// # Errors
    /// When there are more or fewer values.
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

    /// What env `env` shows.
    fn row<'a>(rows: &'a mut Self::Rows<'_>, layout: &Self::Layout, env: usize) -> Self::Rows<'a>;

    /// Copies as many rows as there are.
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
        let (wanted, found) = (num_envs * layout, rows.len());
        if wanted == found { Ok(()) } else { Err(BatchError::Length { name, wanted, found }) }
    }

    fn split<'a>(rows: &'a mut [N], layout: &usize, count: usize) -> (&'a mut [N], &'a mut [N])
    where
        'a: 'a, // says nothing, but lets the compiler see the trait's signature in this one
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
