//! Features of a symbol, for Python.

use gym::features::{
    BAR_COLUMNS, Bar, FeatureOptions, Features, VIEW_COLUMNS, View, registry, series_slices,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{owned, zeros};
use crate::interrupt::interruptible;

/// Index, name, group, neutral, low, high, privileged, price level.
type SpecRow = (usize, &'static str, &'static str, f64, f64, f64, bool, bool);

/// Descriptions of the features, in the order of a row.
#[pyfunction]
#[pyo3(signature = (full55=false))]
pub(crate) fn feature_registry(full55: bool) -> Vec<SpecRow> {
    let row = |spec: &gym::features::FeatureSpec| {
        let (group, shown) = (spec.group.name(), (spec.privileged, spec.price_level));
        (spec.index, spec.name, group, spec.neutral, spec.low, spec.high, shown.0, shown.1)
    };
    registry(full55).iter().map(row).collect()
}

/// The names of the columns of bars, and of views.
#[pyfunction]
pub(crate) fn feature_columns() -> (Vec<&'static str>, Vec<&'static str>) {
    (BAR_COLUMNS.to_vec(), VIEW_COLUMNS.to_vec())
}

/// Feature set of one symbol, updated bar by bar.
#[pyclass(module = "quant_gym_rs")]
pub(crate) struct FeatureState(Features);

#[pymethods]
impl FeatureState {
    #[new]
    #[pyo3(signature = (normalize=false, privileged=true, full55=false))]
    fn new(normalize: bool, privileged: bool, full55: bool) -> Self {
        Self(Features::new(FeatureOptions { normalize, privileged, full55 }))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Push the next bar: the values of its columns.
    fn push(&mut self, bar: [f64; BAR_COLUMNS.len()]) -> PyResult<()> {
        self.0.push(&Bar::read(&bar).map_err(to_python)?);
        Ok(())
    }

    /// Feature row after the last bar; `view` has the values of a view's columns, NaN where
    /// unknown.
    #[pyo3(signature = (view, raw=false))]
    fn row<'py>(
        &self,
        py: Python<'py>,
        view: [f64; VIEW_COLUMNS.len()],
        raw: bool,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let view = View::read(&view, self.0.last_close()).map_err(to_python)?;
        let mut row = vec![0.0; self.0.len()];
        if raw {
            self.0.write_raw(&view, &mut row);
        } else {
            self.0.write(&view, &mut row);
        }
        Ok(PyArray1::from_vec(py, row))
    }

    /// Push every bar, and return the feature row after each.
    #[pyo3(signature = (bars, views=None, raw=false))]
    fn series<'py>(
        &mut self,
        py: Python<'py>,
        bars: PyReadonlyArray2<'py, f64>,
        views: Option<PyReadonlyArray2<'py, f64>>,
        raw: bool,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let count = bars.shape()[0];
        let bars = owned(&bars.as_array())?;
        let views = views.map(|views| owned(&views.as_array())).transpose()?;
        let out = zeros(py, [count, self.0.len()])?;
        {
            let mut target = out.try_readwrite()?;
            let target = target.as_slice_mut()?;
            let (features, views) = (&mut self.0, views.as_deref());
            interruptible(py, |interrupt| {
                series_slices(features, &bars, views, raw, target, interrupt)
            })?
            .map_err(to_python)?;
        }
        Ok(out)
    }

    /// Clear the history.
    fn reset(&mut self) {
        self.0.reset();
    }

    /// Full state as bytes.
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.encode())
    }

    /// Continue from a saved state; a refused one changes nothing.
    fn decode(&mut self, state: &[u8]) -> PyResult<()> {
        let expected = self.0.options();
        let loaded = Features::decode(state).map_err(to_python)?;
        if loaded.options() != expected {
            return Err(PyValueError::new_err(format!(
                "expected features with {}, got {}",
                in_words(expected),
                in_words(loaded.options())
            )));
        }
        self.0 = loaded;
        Ok(())
    }
}

fn in_words(options: FeatureOptions) -> String {
    let FeatureOptions { normalize, privileged, full55 } = options;
    format!("normalize={normalize}, privileged={privileged}, full55={full55}")
}

fn to_python(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}
