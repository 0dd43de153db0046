//! What Python calls give to a book: integers that are prices, sizes, sides, accounts and ids.

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

/// The number of a rule for accounts that meet themselves.
#[derive(Clone, Copy)]
pub(crate) struct Rule(pub(crate) SelfTrade);

/// How many levels are asked for.
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

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(given, "a price in whole ticks")?;
        Ticks::try_from(number).map(Self).map_err(refusal)
    }
}

impl FromPyObject<'_, '_> for Size {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(given, "a size in whole lots")?;
        Lots::try_from(number).map(Self).map_err(refusal)
    }
}

impl FromPyObject<'_, '_> for Account {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(given, "the number of an account")?;
        AccountId::try_from(number).map(Self).map_err(refusal)
    }
}

impl FromPyObject<'_, '_> for Id {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(given, "the id of an order")?;
        Ok(Self(OrderId::from_bits(number.cast_unsigned())))
    }
}

impl FromPyObject<'_, '_> for Levels {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let wanted = "a number of levels from 0 to 16,777,216";
        let number = usize::try_from(integer(given, wanted)?).ok();
        // As many orders as a book can hold; more would only be zeros without end.
        let levels = number.filter(|number| *number <= 1 << 24);
        levels.map(Self).ok_or_else(|| unusable(given, wanted))
    }
}

impl FromPyObject<'_, '_> for Fee {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        integer(given, "a fee in whole ticks for one lot").map(Self)
    }
}

impl FromPyObject<'_, '_> for Millionths {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let wanted = "a rate of at most 1,000,000 whole millionths";
        let number = i32::try_from(integer(given, wanted)?);
        number.map(Self).map_err(|_| unusable(given, wanted))
    }
}

impl FromPyObject<'_, '_> for Direction {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let number = integer(given, "Side.BUY or Side.SELL")?;
        Side::try_from(number).map(Self).map_err(refusal)
    }
}

impl FromPyObject<'_, '_> for Force {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let forces = [
            TimeInForce::GoodTillCancelled,
            TimeInForce::PostOnly,
            TimeInForce::ImmediateOrCancel,
            TimeInForce::FillOrKill,
        ];
        numbered(given, &forces, "a TimeInForce from 0 to 3").map(Self)
    }
}

impl FromPyObject<'_, '_> for Rule {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        numbered(given, &SelfTrade::ALL, "a SelfTrade from 0 to 3").map(Self)
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

/// An integer of 64 bits, whoever made it; a bool is none, for a side `True` says nothing.
fn integer(given: Borrowed<'_, '_, PyAny>, wanted: &str) -> PyResult<i64> {
    if !given.is_instance_of::<PyBool>()
        && let Ok(number) = given.extract()
    {
        return Ok(number);
    }
    Err(unusable(given, wanted))
}

fn numbered<T: Copy>(given: Borrowed<'_, '_, PyAny>, all: &[T], wanted: &str) -> PyResult<T> {
    let place = usize::try_from(integer(given, wanted)?).ok();
    place.and_then(|place| all.get(place)).copied().ok_or_else(|| unusable(given, wanted))
}

fn unusable(given: Borrowed<'_, '_, PyAny>, wanted: &str) -> PyErr {
    let shown = given.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    let kind = given.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    OrderError::new_err(format!("{wanted} was wanted, found {shown} of type {kind}"))
}
