//! Optimal execution in closed form: the trajectory of Almgren and Chriss (2000).
//!
//! Holdings are hyperbolic sines of the remaining time, `sinh(kappa left) / sinh(kappa all)`, where
//! `cosh(kappa tau) = 1 + risk_aversion volatility² tau² / (2 effective_impact)`. They are computed
//! with exponentials of non-positive numbers, so that nothing overflows.

/// Decay over the horizon below which holdings are linear in time: the neglected term is its
/// square, which is below rounding.
const STRAIGHT: f64 = 1e-8;

/// Optimal holdings of an order over a number of equal steps.
#[derive(Clone, Debug)]
pub struct OptimalTrajectory {
    /// `kappa tau`.
    decay: f64,
    steps: u32,
}

impl OptimalTrajectory {
    /// Trajectory over `steps` steps of `step_time`, for a volatility per unit of time and an
    /// effective impact: temporary less half of the permanent impact of a step.
    #[must_use]
    pub fn new(
        steps: u32,
        step_time: f64,
        volatility: f64,
        risk_aversion: f64,
        effective_impact: f64,
    ) -> Self {
        let risk = risk_aversion.sqrt() * volatility;
        let ratio = step_time * risk / effective_impact.sqrt();
        // Inverse of cosh, accurate next to 1.
        let decay = 2.0 * libm::asinh(ratio / 2.0);
        Self { decay, steps }
    }

    /// Decay of holdings in a step, `kappa tau`.
    #[must_use]
    pub fn decay(&self) -> f64 {
        self.decay
    }

    /// Decay, or `None` where holdings fall in a straight line.
    fn curvature(&self) -> Option<f64> {
        (self.decay * f64::from(self.steps) >= STRAIGHT).then_some(self.decay)
    }

    /// Optimal trade as a share of the remaining holdings, with `steps_left` decisions left.
    #[must_use]
    pub fn share_of_rest(&self, steps_left: u32) -> f64 {
        let left = f64::from(steps_left);
        match self.curvature() {
            _ if steps_left <= 1 => 1.0,
            None => 1.0 / left,
            Some(decay) => {
                let later = 1.0 + libm::exp(-decay * (2.0 * left - 1.0));
                libm::expm1(-decay) * later / libm::expm1(-2.0 * decay * left)
            }
        }
    }

    /// Optimal remaining holdings after `steps` decisions, as a share of the order.
    #[must_use]
    pub fn share_left(&self, steps: u32) -> f64 {
        let (done, left) = (f64::from(steps), f64::from(self.steps - steps));
        match self.curvature() {
            None => left / f64::from(self.steps),
            Some(decay) => {
                let total = libm::expm1(-2.0 * decay * f64::from(self.steps));
                libm::exp(-decay * done) * libm::expm1(-2.0 * decay * left) / total
            }
        }
    }
}
