//! Projection of target weights, for Python.

use gym::portfolio::projection::{Constraints, Untradable, Workspace};
use market::InterruptCheck;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{flags, owned, readable, zeros};
use crate::interrupt::interruptible;

/// Weights, and for each row the relaxed constraints, as bits.
type Projected<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<u8>>);

/// Project each row of `wanted` to the nearest allowed weights; the relaxed constraints are bits: 1
/// bounds, 2 sectors, 4 leverage, 8 cash, 16 cut short by turnover, 32 net exposure, 64 beta
/// exposure, 128 positions.
#[pyfunction]
#[pyo3(signature = (wanted, held, movable, *, lower, upper, cash_lower, cash_upper, leverage=None,
    sectors=None, sector_caps=None, turnover=None, net_exposure=None, betas=None,
    beta_exposure=None, untradable="cash", min_weight=0.0, max_names=None, tolerance=0.0))]
#[allow(clippy::too_many_arguments)] // keywords in Python
pub(crate) fn project_weights<'py>(
    py: Python<'py>,
    wanted: &Bound<'py, PyAny>,
    held: &Bound<'py, PyAny>,
    movable: &Bound<'py, PyAny>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    cash_lower: f64,
    cash_upper: f64,
    leverage: Option<f64>,
    sectors: Option<Vec<Option<usize>>>,
    sector_caps: Option<Vec<Option<f64>>>,
    turnover: Option<f64>,
    net_exposure: Option<(f64, f64)>,
    betas: Option<Vec<f64>>,
    beta_exposure: Option<(f64, f64)>,
    untradable: &str,
    min_weight: f64,
    max_names: Option<usize>,
    tolerance: f64,
) -> PyResult<Projected<'py>> {
    let (sectors, sector_caps) = (sectors.unwrap_or_default(), sector_caps.unwrap_or_default());
    let constraints = Constraints {
        lower,
        upper,
        cash_lower,
        cash_upper,
        leverage,
        sectors,
        sector_caps,
        turnover,
        net: net_exposure,
        betas: betas.unwrap_or_default(),
        beta: beta_exposure,
        untradable: untradable_of(untradable)?,
        min_weight,
        max_names,
        tolerance,
    };
    constraints.check().map_err(|error| PyValueError::new_err(error.to_string()))?;
    let (rows, assets) = (wanted.len()?, constraints.assets());
    let wanted = owned(&readable::<f64>("wanted", wanted, &[rows, assets + 1])?.as_array())?;
    let held = owned(&readable::<f64>("held", held, &[rows, assets + 1])?.as_array())?;
    let movable = flags("movable", movable, &[rows, assets])?;
    all_finite("wanted", &wanted)?;
    all_finite("held", &held)?;
    let weights = zeros(py, [rows, assets + 1])?;
    let compromises = {
        let mut target = weights.try_readwrite()?;
        let target = target.as_slice_mut()?;
        let inputs = (&wanted[..], &held[..], &movable[..]);
        interruptible(py, |interrupt| project_rows(&constraints, inputs, target, interrupt))?
    };
    Ok((weights, PyArray1::from_vec(py, compromises)))
}

fn project_rows(
    constraints: &Constraints,
    (wanted, held, movable): (&[f64], &[f64], &[bool]),
    weights: &mut [f64],
    interrupt: &mut InterruptCheck<'_>,
) -> Vec<u8> {
    let assets = constraints.assets();
    let mut workspace = Workspace::new(assets, constraints.sector_caps.len());
    let rows = wanted.chunks_exact(assets + 1).zip(held.chunks_exact(assets + 1));
    let rows = rows.zip(movable.chunks_exact(assets)).zip(weights.chunks_exact_mut(assets + 1));
    let mut compromises = Vec::new();
    for (((wanted, held), movable), allowed) in rows {
        let projection = constraints.project(wanted, held, movable, &mut workspace, allowed);
        compromises.push(projection.bits());
        if !interrupt.should_continue_after_piece() {
            break;
        }
    }
    compromises
}

fn untradable_of(name: &str) -> PyResult<Untradable> {
    match name {
        "cash" => Ok(Untradable::Cash),
        "assets" => Ok(Untradable::Assets),
        _ => {
            let message = format!("untradable must be 'cash' or 'assets', got '{name}'");
            Err(PyValueError::new_err(message))
        }
    }
}

fn all_finite(name: &str, values: &[f64]) -> PyResult<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(PyValueError::new_err(format!(
            "{name} needs finite weights, got {} at index {index}",
            values[index]
        ))),
    }
}
