//! Actions of trading: sell, hold or buy a fixed size, or a target share to hold.

use market::{Agent, Lots, Market, Side};

use crate::task::ActionError;

/// The agent that is trained.
pub(crate) const LEARNER: Agent = Agent(0);

/// Kind of action, one number for each symbol.
pub trait Decision: Clone + Copy + Send + Sync + 'static {
    /// Type of the number.
    type Number: Copy + Send + Sync;

    /// Name that distinguishes the states of envs with this kind of action.
    const NAME: &'static str;

    /// Validate a number of an action.
    ///
    /// # Errors
    /// If the number is invalid: the expected and the actual value.
    fn check(number: Self::Number) -> Result<(), ActionError>;

    /// Side and lots of the order; `order_size` is the size of one order.
    fn order(number: Self::Number, market: &Market, symbol: usize, order_size: u32)
    -> (Side, Lots);
}

/// 0 sells, 1 holds, 2 buys.
#[derive(Clone, Copy, Debug)]
pub struct SellHoldBuy;

impl Decision for SellHoldBuy {
    type Number = i64;
    const NAME: &'static str = "Trading-v0";

    fn check(number: i64) -> Result<(), ActionError> {
        if (0..=2).contains(&number) {
            return Ok(());
        }
        let expected = "0 (sell), 1 (hold), or 2 (buy)".to_string();
        Err(ActionError { expected, got: number.to_string() })
    }

    fn order(number: i64, _: &Market, _: usize, order_size: u32) -> (Side, Lots) {
        match number {
            0 => (Side::Sell, Lots(order_size)),
            2 => (Side::Buy, Lots(order_size)),
            _ => (Side::Buy, Lots(0)),
        }
    }
}

/// Target weight of a symbol, from -1 (short) to 1.
#[derive(Clone, Copy, Debug)]
pub struct TargetWeight;

impl Decision for TargetWeight {
    type Number = f64;
    const NAME: &'static str = "Trading-v0 by weights";

    fn check(number: f64) -> Result<(), ActionError> {
        if (-1.0..=1.0).contains(&number) {
            return Ok(());
        }
        let expected = "a share of equity from -1 to 1".to_string();
        Err(ActionError { expected, got: number.to_string() })
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the lots of 32 bits
    #[allow(clippy::cast_precision_loss)] // positions are small
    fn order(number: f64, market: &Market, symbol: usize, _: u32) -> (Side, Lots) {
        let held = market.symbols()[symbol].holding(LEARNER).lots as f64;
        let equity = market.equity(LEARNER).max(0.0);
        // Toward zero: the weight never exceeds the target.
        let target = libm::trunc(number * equity / market.symbols()[symbol].mid());
        let missing = target - held;
        let side = if missing > 0.0 { Side::Buy } else { Side::Sell };
        (side, Lots(libm::fabs(missing).min(f64::from(u32::MAX)) as u32))
    }
}
