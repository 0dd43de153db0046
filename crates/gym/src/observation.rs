//! Observations: a row of numbers, or several parts of different types (see [`parts!`]).
//!
//! [`parts!`]: crate::parts!

use crate::batch::BatchError;

/// Name of an observation that is a row of numbers.
pub const SINGLE: &str = "observation";

/// Numbers of rows of observations, of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Numbers<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I64(&'a [i64]),
    I32(&'a [i32]),
    I8(&'a [i8]),
    Bool(&'a [bool]),
}

/// Number of an observation.
pub trait Number: Copy + Default + Send + Sync + 'static {
    /// Numbers of this type.
    fn numbers(numbers: &[Self]) -> Numbers<'_>;
}

macro_rules! numbers {
    ($($variant:ident: $number:ty),+) => {
        $(impl Number for $number {
            fn numbers(numbers: &[Self]) -> Numbers<'_> {
                Numbers::$variant(numbers)
            }
        })+
    };
}

numbers!(F32: f32, F64: f64, I64: i64, I32: i32, I8: i8, Bool: bool);

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

    /// The same rows, for a shorter time.
    fn reborrow<'a>(rows: &'a mut Self::Rows<'_>) -> Self::Rows<'a>;

    /// Names of the parts; [`SINGLE`] for a row of numbers.
    fn names() -> &'static [&'static str];

    /// Numbers of all rows, of each part in the order of `names`; an absent part has none.
    fn numbers<'a>(rows: &'a Self::Rows<'_>) -> Vec<Numbers<'a>>;

    /// Copy as many rows as there are.
    fn copy(from: &Self::Rows<'_>, into: &mut Self::Rows<'_>);
}

/// A row of numbers of one type for each env; the layout is how many.
#[allow(clippy::mut_mut)] // the rows are references themselves
impl<N: Number> Observation for Vec<N> {
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

    fn reborrow<'a>(rows: &'a mut &mut [N]) -> &'a mut [N] {
        rows
    }

    fn names() -> &'static [&'static str] {
        &[SINGLE]
    }

    fn numbers<'a>(rows: &'a &mut [N]) -> Vec<Numbers<'a>> {
        vec![N::numbers(rows)]
    }

    #[inline]
    fn copy(from: &&mut [N], into: &mut &mut [N]) {
        into.copy_from_slice(from);
    }
}
