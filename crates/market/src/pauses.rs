//! Long work in slices: now and then it asks whether to go on.

use std::time::{Duration, Instant};

/// How long a slice lasts at least, so that asking costs nothing.
const SLICE: Duration = Duration::from_millis(50);

/// Pieces of work between two looks at the clock.
const PIECES: u32 = 16;

/// Asks, every few hundredths of a second, whether work shall go on. What the work does depends on
/// the answer alone, never on the time.
pub struct Pauses<'a> {
    goes_on: &'a mut (dyn FnMut() -> bool + Send),
    since: Instant,
    pieces: u32,
}

impl<'a> Pauses<'a> {
    /// Work that begins now; `goes_on` is false once it is to stop.
    pub fn new(goes_on: &'a mut (dyn FnMut() -> bool + Send)) -> Self {
        Self { goes_on, since: Instant::now(), pieces: 0 }
    }

    /// Whether to go on after a piece of work that takes less than a microsecond.
    #[inline]
    pub fn go_on(&mut self) -> bool {
        self.pieces += 1;
        self.pieces < PIECES || self.go_on_after_piece()
    }

    /// Whether to go on after a piece of work that may take longer.
    pub fn go_on_after_piece(&mut self) -> bool {
        self.pieces = 0;
        self.since.elapsed() < SLICE || self.go_on_after_slice()
    }

    /// Whether to go on after a piece of work that took long enough to be a slice.
    pub fn go_on_after_slice(&mut self) -> bool {
        self.since = Instant::now();
        (self.goes_on)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_short_is_never_asked_about() {
        let mut refuse = || false;
        let mut pauses = Pauses::new(&mut refuse);

        assert!((0..1_000).all(|_| pauses.go_on()));
    }

    #[test]
    fn work_that_lasts_ends_when_it_is_told_to() {
        let mut asked = 0;
        let mut twice = || {
            asked += 1;
            asked < 2
        };
        let mut pauses = Pauses::new(&mut twice);

        let begun = Instant::now();
        while pauses.go_on() {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody was asked");
        }

        assert!(begun.elapsed() >= SLICE);
        assert_eq!(asked, 2);
    }
}
