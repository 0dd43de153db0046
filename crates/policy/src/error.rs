//! Errors of network construction and of inputs.

use thiserror::Error;

/// A program that cannot be built.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PolicyError {
    /// An operation reads a value that is not computed before it.
    #[error("operation {operation} reads value {value}; expected one of the {available} before it")]
    UnknownValue {
        /// Index of the operation.
        operation: usize,
        /// Value that it reads.
        value: usize,
        /// Number of values before it.
        available: usize,
    },
    /// An operation reads a leaf that the inputs do not have.
    #[error("operation {operation} reads leaf {leaf}; expected one of {available}")]
    UnknownLeaf {
        /// Index of the operation.
        operation: usize,
        /// Leaf that it reads.
        leaf: usize,
        /// Number of leaves.
        available: usize,
    },
    /// Sizes of an operation do not fit each other.
    #[error("operation {operation}: {part} has {got} numbers, expected {expected}")]
    Shape {
        /// Index of the operation.
        operation: usize,
        /// Part of the operation.
        part: &'static str,
        /// Its size.
        got: usize,
        /// Size that fits.
        expected: usize,
    },
    /// A size that must be positive is zero.
    #[error("operation {operation}: {part} must be at least 1")]
    Empty {
        /// Index of the operation.
        operation: usize,
        /// Part of the operation.
        part: &'static str,
    },
    /// A row of the network does not fit memory.
    #[error("a row of the network has more than {limit} numbers")]
    TooLarge {
        /// Largest size of a row.
        limit: usize,
    },
    /// The outputs of a network do not fit the distribution of its actions.
    #[error("the outputs of a policy that is sampled must be {expected} numbers, got {got}")]
    Outputs {
        /// Numbers that the distribution has.
        expected: usize,
        /// Numbers of all outputs.
        got: usize,
    },
    /// The program has no operations.
    #[error("a network needs at least one operation")]
    NoOperations,
}

/// Inputs that do not fit the network; nothing was computed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InputError {
    /// Another number of leaves.
    #[error("the network reads {expected} leaves, got {got}")]
    Leaves {
        /// Number of leaves of the network.
        expected: usize,
        /// Number of arrays passed.
        got: usize,
    },
    /// An array of another size.
    #[error("{part} needs {expected} numbers, got {got}")]
    Size {
        /// Name of the array.
        part: &'static str,
        /// Size that fits.
        expected: usize,
        /// Size of the array.
        got: usize,
    },
    /// A category outside its range.
    #[error("leaf {leaf} has the category {value}; expected one from {first} to {last}")]
    Category {
        /// Index of the leaf.
        leaf: usize,
        /// Category.
        value: i64,
        /// First category.
        first: i64,
        /// Last category.
        last: i64,
    },
}
