//! Memory that a caller asks for by a number: checked before anything is built in it.

use thiserror::Error;

/// More memory is needed than there is. Nothing has been built.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "not enough memory for {count} {what} of {each} bytes each; expected as many as memory holds: \
     ask for fewer"
)]
pub struct MemoryError {
    /// What there would be many of.
    pub what: &'static str,
    /// How many were asked for.
    pub count: usize,
    /// What each of them occupies, roughly.
    pub each: usize,
}

/// Refuses `count` times `each` bytes that the system does not give.
///
/// Collections abort the process where an allocation fails, so that a size that a caller chose is
/// tried here first, by an allocation that may fail, is never touched, and is given back at once.
///
/// # Errors
/// When there is not so much memory.
pub fn check_memory(what: &'static str, count: usize, each: usize) -> Result<(), MemoryError> {
    let error = MemoryError { what, count, each };
    let bytes = count.checked_mul(each).ok_or(error)?;
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_cannot_hold_is_refused() {
        assert_eq!(check_memory("numbers", 1_000, 8), Ok(()));
        for count in [1 << 50, 1 << 62, usize::MAX] {
            let error = check_memory("numbers", count, 8).expect_err("nobody has so much memory");
            assert_eq!((error.count, error.each), (count, 8));
        }
    }
}
