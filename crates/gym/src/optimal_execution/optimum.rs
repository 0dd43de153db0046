//! The optimal way to work an order in closed form: Almgren and Chriss's solution.
//!
//! Holdings are hyperbolic sines of the time that is left, `sinh(kappa left) / sinh(kappa all)`,
//! where `cosh(kappa tau) = 1 + risk_aversion volatility² tau² / (2 effective_impact)`. They are
//! written with exponentials of what is not positive, so that nothing overflows.

use super::settings::OptimalExecutionSettings;

/// Decay over the whole horizon below which holdings fall in a straight line: what is left out is
/// its square, which is below rounding.
const STRAIGHT: f64 = 1e-8;

/// How holdings decay.
#[derive(Clone, Debug)]
pub(super) struct Optimum {
    /// `kappa tau`, or `None` for a straight line.
    decay: Option<f64>,
    steps: u32,
}

impl Optimum {
    pub(super) fn new(settings: &OptimalExecutionSettings) -> Self {
        let risk = settings.risk_aversion.sqrt() * settings.volatility;
        let ratio = settings.step_time() * risk / settings.effective_impact().sqrt();
        let (decay, steps) = (2.0 * libm::asinh(ratio / 2.0), settings.episode_steps);
        Self { decay: (decay * f64::from(steps) >= STRAIGHT).then_some(decay), steps }
    }

    /// The share of what is left that is best traded now, with so many decisions left.
    pub(super) fn share_of_rest(&self, steps_left: u32) -> f64 {
        let left = f64::from(steps_left);
        match self.decay {
            _ if steps_left <= 1 => 1.0,
            None => 1.0 / left,
            Some(decay) => {
                let later = 1.0 + libm::exp(-decay * (2.0 * left - 1.0));
                libm::expm1(-decay) * later / libm::expm1(-2.0 * decay * left)
            }
        }
    }

    /// The share of the order that is best left after so many decisions.
    pub(super) fn share_left(&self, steps: u32) -> f64 {
        let (done, left) = (f64::from(steps), f64::from(self.steps - steps));
        match self.decay {
            None => left / f64::from(self.steps),
            Some(decay) => {
                let whole = libm::expm1(-2.0 * decay * f64::from(self.steps));
                libm::exp(-decay * done) * libm::expm1(-2.0 * decay * left) / whole
            }
        }
    }
}
