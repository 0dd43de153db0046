//! Arguments of book calls from Python: integers that are prices, sizes, sides, accounts and ids.

use market::{AccountId, Lots, OrderId, SelfTrade, Side, Ticks, TimeInForce};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBool;

use crate::order_error::{OrderError, refusal};

/// A price in ticks.
#[derive(Clone, Copy)]
pub(crate) struct Price(pub(crate) Ticks);

/// A size in lots.
#[derive(Clone, Copy)]
pub(crate) struct Size(pub(crate) Lots);

/// The number of an account.
#[derive(Clone, Copy)]
pub(crate) struct Account(pub(crate) AccountId);

/// The id of a resting order; any integer is one.
#[derive(Clone, Copy)]
pub(crate) struct Id(pub(crate) OrderId);

/// A side: `sekai.market.Side` or its number in, `sekai.market.Side` out.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Direction(pub(crate) Side);

/// The number of a time in force.
#[derive(Clone, Copy)]
pub(crate) struct Force(pub(crate) TimeInForce);

/// Number of a self-trade prevention rule.
#[derive(Clone, Copy)]
pub(crate) struct Rule(pub(crate) SelfTrade);

/// Number of levels.
#[derive(Clone, Copy)]
pub(crate) struct Levels(pub(crate) usize);

/// A fee for one lot, in ticks.
#[derive(Clone, Copy)]
pub(crate) struct Fee(pub(crate) i64);

/// A rate in millionths.
#[derive(Clone, Copy)]
pub(crate) struct Millionths(pub(crate) i32);

impl FromPyObject<'_, '_> for Price {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(value, "a price in whole ticks")?;
        Ticks::try_from(number).map(Self).map_err(refusal)
    }
}

impl FromPyObject<'_, '_> for Size {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(value, "a size in whole lots")?;
        Lots::try_from(number).map(Self).map_err(refusal)
    }
}

impl FromPyObject<'_, '_> for Account {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(value, "the number of an account")?;
        AccountId::try_from(number).map(Self).map_err(refusal)
    }
}

impl FromPyObject<'_, '_> for Id {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(value, "the id of an order")?;
        Ok(Self(OrderId::from_bits(number.cast_unsigned())))
    }
}

impl FromPyObject<'_, '_> for Levels {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let expected = "a number of levels from 0 to 16,777,216";
        let number = usize::try_from(integer(value, expected)?).ok();
        // At most as many levels as a book can hold orders.
        let levels = number.filter(|number| *number <= 1 << 24);
        levels.map(Self).ok_or_else(|| invalid(value, expected))
    }
}

impl FromPyObject<'_, '_> for Fee {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        integer(value, "a fee in whole ticks for one lot").map(Self)
    }
}

impl FromPyObject<'_, '_> for Millionths {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let expected = "a rate of at most 1,000,000 whole millionths";
        let number = i32::try_from(integer(value, expected)?);
        number.map(Self).map_err(|_| invalid(value, expected))
    }
}

impl FromPyObject<'_, '_> for Direction {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(value, "Side.BUY or Side.SELL")?;
        Side::try_from(number).map(Self).map_err(refusal)
    }
}

impl FromPyObject<'_, '_> for Force {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let forces = [
            TimeInForce::GoodTillCancelled,
            TimeInForce::PostOnly,
            TimeInForce::ImmediateOrCancel,
            TimeInForce::FillOrKill,
        ];
        numbered(value, &forces, "a TimeInForce from 0 to 3").map(Self)
    }
}

impl FromPyObject<'_, '_> for Rule {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        numbered(value, &SelfTrade::ALL, "a SelfTrade from 0 to 3").map(Self)
    }
}

impl<'py> IntoPyObject<'py> for Direction {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        static SIDES: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();
        let sides = SIDES.get_or_try_init(py, || -> PyResult<_> {
            let side = py.import("quant_gym_rs.codes")?.getattr("Side")?;
            Ok([side.getattr("BUY")?.unbind(), side.getattr("SELL")?.unbind()])
        })?;
        Ok(sides[self.0 as usize].bind(py).clone())
    }
}

/// An integer of 64 bits from Python or `NumPy`; a bool is refused.
fn integer(value: Borrowed<'_, '_, PyAny>, expected: &str) -> PyResult<i64> {
    if !value.is_instance_of::<PyBool>()
        && let Ok(number) = value.extract()
    {
        return Ok(number);
    }
    Err(invalid(value, expected))
}

fn numbered<T: Copy>(value: Borrowed<'_, '_, PyAny>, all: &[T], expected: &str) -> PyResult<T> {
    let index = usize::try_from(integer(value, expected)?).ok();
    index.and_then(|index| all.get(index)).copied().ok_or_else(|| invalid(value, expected))
}

fn invalid(value: Borrowed<'_, '_, PyAny>, expected: &str) -> PyErr {
    let shown = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    OrderError::new_err(format!("expected {expected}, got {shown} of type {kind}"))
}
