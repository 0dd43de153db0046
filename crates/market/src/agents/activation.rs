//! Activation of agents in a tick: each of many with the same probability, 64 of them at a time.

use serde::{Deserialize, Serialize};

use crate::random::Stream;

/// Random selection of the agents, of `count`, that act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Activation {
    count: u32,
    /// The probability in 256ths.
    likely: u16,
}

impl Activation {
    pub(crate) fn new(count: u32, probability: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to 256
        let likely = (probability.clamp(0.0, 1.0) * 256.0 + 0.5) as u16;
        Self { count, likely }
    }

    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// Call `act` with the index of each selected agent.
    pub(crate) fn each(self, stream: &mut Stream, mut act: impl FnMut(usize, &mut Stream)) {
        for first in (0..self.count).step_by(64) {
            let size = (self.count - first).min(64);
            let mut mask = self.mask(stream) & (u64::MAX >> (64 - size));
            while mask != 0 {
                act((first + mask.trailing_zeros()) as usize, stream);
                mask &= mask - 1;
            }
        }
    }

    /// 64 bits, each of them set with the probability: its binary digits choose, from the last
    /// to the first, whether a random word is joined or intersected.
    fn mask(self, stream: &mut Stream) -> u64 {
        match self.likely {
            0 => 0,
            256.. => u64::MAX,
            likely => (likely.trailing_zeros()..8).fold(0, |mask, digit| {
                let word = stream.bits();
                if likely >> digit & 1 == 1 { mask | word } else { mask & word }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::EpisodeKey;

    fn share(count: u32, probability: f64) -> f64 {
        let mut stream = EpisodeKey::default().stream(0);
        let mut acted = 0u32;
        for _ in 0..2_000 {
            Activation::new(count, probability).each(&mut stream, |_, _| acted += 1);
        }
        f64::from(acted) / f64::from(count) / 2_000.0
    }

    #[test]
    fn traders_act_as_often_as_asked() {
        for probability in [0.0, 0.1, 0.25, 0.5, 0.7, 1.0] {
            let got = share(150, probability);

            assert!((got - probability).abs() < 0.005, "{got} for {probability}");
        }
    }

    #[test]
    fn every_trader_gets_a_turn() {
        let mut view = [false; 130];
        let mut stream = EpisodeKey::default().stream(0);

        for _ in 0..200 {
            Activation::new(130, 0.1).each(&mut stream, |agent, _| view[agent] = true);
        }

        assert!(view.iter().all(|acted| *acted));
    }
}
