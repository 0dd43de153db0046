//! Interruptible long work: regular checks for an interrupt.

use std::time::{Duration, Instant};

/// Shortest time between two checks, so that checking costs nothing.
const SLICE: Duration = Duration::from_millis(50);

/// Pieces of work between two clock reads.
const PIECES: u32 = 16;

/// Interrupt check, called every few hundredths of a second. Results depend on its answer alone,
/// never on the time.
pub struct InterruptCheck<'a> {
    check: &'a mut (dyn FnMut() -> bool + Send),
    since: Instant,
    pieces: u32,
}

impl<'a> InterruptCheck<'a> {
    /// Start of work; `check` returns false to stop it.
    pub fn new(check: &'a mut (dyn FnMut() -> bool + Send)) -> Self {
        Self { check, since: Instant::now(), pieces: 0 }
    }

    /// Return true to continue after a piece of work that takes less than a microsecond.
    #[inline]
    pub fn should_continue(&mut self) -> bool {
        self.pieces += 1;
        self.pieces < PIECES || self.should_continue_after_piece()
    }

    /// Return true to continue after a piece of work that may take longer.
    pub fn should_continue_after_piece(&mut self) -> bool {
        self.pieces = 0;
        self.since.elapsed() < SLICE || self.should_continue_after_slice()
    }

    /// Return true to continue after a piece of work that took long enough to be a slice.
    pub fn should_continue_after_slice(&mut self) -> bool {
        self.since = Instant::now();
        (self.check)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_short_is_never_asked_about() {
        let mut refuse = || false;
        let mut interrupt = InterruptCheck::new(&mut refuse);

        assert!((0..1_000).all(|_| interrupt.should_continue()));
    }

    #[test]
    fn long_work_ends_when_interrupted() {
        let mut asked = 0;
        let mut twice = || {
            asked += 1;
            asked < 2
        };
        let mut interrupt = InterruptCheck::new(&mut twice);

        let begun = Instant::now();
        while interrupt.should_continue() {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody was asked");
        }

        assert!(begun.elapsed() >= SLICE);
        assert_eq!(asked, 2);
    }
}
