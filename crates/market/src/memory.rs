//! Memory checks for sizes chosen by callers, before anything is allocated.

use thiserror::Error;

/// Not enough memory; nothing has been allocated.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "not enough memory for {count} {what} of {each} bytes each; expected as many as memory holds: \
     ask for fewer"
)]
pub struct MemoryError {
    /// Name of the counted items.
    pub what: &'static str,
    /// Requested number of items.
    pub count: usize,
    /// Approximate memory of each item, in bytes.
    pub each: usize,
}

/// Check that `count` times `each` bytes can be allocated.
///
/// Collections abort the process if an allocation fails, so a size chosen by a caller is tried here
/// first, by a fallible allocation that is never touched and freed at once.
///
/// # Errors
/// If there is not enough memory.
pub fn check_memory(what: &'static str, count: usize, each: usize) -> Result<(), MemoryError> {
    let error = MemoryError { what, count, each };
    let bytes = count.checked_mul(each).ok_or(error)?;
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_memory_are_refused() {
        assert_eq!(check_memory("numbers", 1_000, 8), Ok(()));
        for count in [1 << 50, 1 << 62, usize::MAX] {
            let error = check_memory("numbers", count, 8).expect_err("nobody has so much memory");
            assert_eq!((error.count, error.each), (count, 8));
        }
    }
}
