//! Rows of observations in the types of envs, and their conversion.

#![allow(clippy::inline_always)] // compiled for the widest registers, with all that calls them

/// Rows of one leaf, as the env gives them.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Rows<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I64(&'a [i64]),
    I32(&'a [i32]),
    I8(&'a [i8]),
    U8(&'a [u8]),
    Bool(&'a [bool]),
}

/// Repeat an expression for the numbers of every type.
macro_rules! each_type {
    ($rows:expr, $numbers:ident => $result:expr) => {
        match $rows {
            Rows::F32($numbers) => $result,
            Rows::F64($numbers) => $result,
            Rows::I64($numbers) => $result,
            Rows::I32($numbers) => $result,
            Rows::I8($numbers) => $result,
            Rows::U8($numbers) => $result,
            Rows::Bool($numbers) => $result,
        }
    };
}

impl Rows<'_> {
    /// True if a number of a mask is not zero.
    pub(crate) fn is_set(self, index: usize) -> bool {
        each_type!(self, numbers => numbers[index].to_float() != 0.0)
    }

    /// Number of numbers.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> usize {
        each_type!(self, numbers => numbers.len())
    }

    pub(crate) fn part(self, first: usize, end: usize) -> Self {
        match self {
            Self::F32(numbers) => Self::F32(&numbers[first..end]),
            Self::F64(numbers) => Self::F64(&numbers[first..end]),
            Self::I64(numbers) => Self::I64(&numbers[first..end]),
            Self::I32(numbers) => Self::I32(&numbers[first..end]),
            Self::I8(numbers) => Self::I8(&numbers[first..end]),
            Self::U8(numbers) => Self::U8(&numbers[first..end]),
            Self::Bool(numbers) => Self::Bool(&numbers[first..end]),
        }
    }

    /// Convert the numbers to floats.
    pub fn write_floats(self, output: &mut [f32]) {
        each_type!(self, numbers => {
            for (output, number) in output.iter_mut().zip(numbers) {
                *output = number.to_float();
            }
        });
    }

    pub(crate) fn category(self, index: usize) -> i64 {
        each_type!(self, numbers => numbers[index].to_category())
    }
}

/// Conversion of numbers of observations.
trait Number: Copy {
    fn to_float(self) -> f32;
    fn to_category(self) -> i64;
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(
            #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast)]
            impl Number for $kind {
                #[inline(always)]
                fn to_float(self) -> f32 {
                    self as f32
                }
                fn to_category(self) -> i64 {
                    self as i64
                }
            }
        )*
    };
}

numbers!(f32, f64, i64, i32, i8, u8);

impl Number for bool {
    fn to_float(self) -> f32 {
        f32::from(self)
    }
    fn to_category(self) -> i64 {
        i64::from(self)
    }
}
