//! Tolerance of caps: what drifted above a cap need not be traded back.
//!
//! A cap becomes the smaller of what is held and the cap plus the tolerance, never less than the
//! cap: nothing can be added above a cap, and nothing has to be sold within the tolerance.

use super::{Constraints, Input, Projection, Workspace};

impl Constraints {
    /// Project with caps relaxed to the held weights, up to the tolerance.
    pub(super) fn project_after_drift(
        &self,
        input: Input<'_>,
        workspace: &mut Workspace,
        allowed: &mut [f64],
    ) -> Projection {
        let mut drifted = workspace.drifted.take().unwrap_or_default();
        drifted.copy_from(self);
        drifted.relax_to(input.held);
        let projection = drifted.project_positions(input, workspace, allowed);
        workspace.drifted = Some(drifted);
        projection
    }

    fn relax_to(&mut self, held: &[f64]) {
        let tolerance = std::mem::take(&mut self.tolerance);
        let held = &held[..self.assets()];
        let most = |cap: f64, held: f64| cap.max(held.min(cap + tolerance));
        for ((lower, upper), &held) in self.lower.iter_mut().zip(&mut self.upper).zip(held) {
            *upper = most(*upper, held);
            *lower = -most(-*lower, -held);
        }
        if let Some(cap) = &mut self.leverage {
            *cap = most(*cap, held.iter().map(|weight| weight.abs()).sum());
        }
        for (sector, cap) in self.sector_caps.iter_mut().enumerate() {
            if let Some(cap) = cap {
                let inside = self.sectors.iter().zip(held).filter(|(of, _)| **of == Some(sector));
                *cap = most(*cap, inside.map(|(_, weight)| weight.abs()).sum());
            }
        }
    }
}
