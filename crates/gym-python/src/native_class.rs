//! Python class of a native batch: the methods shared by all tasks.

use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::False;

use crate::errors::BusyError;

/// Borrow an object exclusively for a call, or raise an error if it is in use.
pub(crate) fn exclusive<'py, C: PyClass<Frozen = False>>(
    object: &Bound<'py, C>,
) -> PyResult<PyRefMut<'py, C>> {
    object.try_borrow_mut().map_err(|_| {
        BusyError::new_err(
            "another thread is using this batch: give each thread a batch of its own, or take \
             turns with a lock",
        )
    })
}

/// Define the Python class of batches of one task: its name, its task, and methods beside the
/// protocol (its constructor at least).
macro_rules! native_batch {
    ($(#[$meta:meta])* $name:ident, $task:ty, { $($own:tt)* }) => {
        $(#[$meta])*
        #[pyclass(module = "quant_gym_rs")]
        pub(crate) struct $name($crate::batch::NativeBatch<$task>);

        #[pymethods]
        impl $name {
            $($own)*

            /// Number of envs.
            #[getter]
            fn num_envs(slf: &Bound<'_, Self>) -> PyResult<usize> {
                Ok($crate::native_class::exclusive(slf)?.0.batch.num_envs())
            }

            /// Largest number of threads used by a step.
            #[getter]
            fn num_threads(slf: &Bound<'_, Self>) -> PyResult<usize> {
                Ok($crate::native_class::exclusive(slf)?.0.batch.num_threads())
            }

            /// Reset the envs `ids`, with one seed each or with their own seeds.
            fn reset(
                slf: &Bound<'_, Self>,
                ids: &Bound<'_, PyAny>,
                seeds: Option<&Bound<'_, PyAny>>,
                observations: &Bound<'_, PyAny>,
                options: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<()> {
                $crate::native_class::exclusive(slf)?.0.reset(ids, seeds, observations, options)
            }

            /// Step every env once, except where `skip` is true.
            #[allow(clippy::too_many_arguments)] // the protocol has so many
            fn step(
                slf: &Bound<'_, Self>,
                actions: &Bound<'_, PyAny>,
                observations: &Bound<'_, PyAny>,
                rewards: &Bound<'_, PyAny>,
                terminated: &Bound<'_, PyAny>,
                truncated: &Bound<'_, PyAny>,
                final_observations: Option<&Bound<'_, PyAny>>,
                skip: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<()> {
                let arrays = $crate::batch::StepArrays {
                    actions, observations, rewards, terminated, truncated, final_observations, skip,
                };
                $crate::native_class::exclusive(slf)?.0.step(slf.py(), &arrays)
            }

            /// Step every env many times with the actions of a policy.
            #[allow(clippy::too_many_arguments)] // a row of each array for every step
            fn rollout<'py>(
                slf: &Bound<'py, Self>,
                policy: &Bound<'py, $crate::policy::PolicyProgram>,
                head: &Bound<'py, pyo3::types::PyDict>,
                key: (u64, u64),
                observations: &Bound<'py, PyAny>,
                chosen: &Bound<'py, PyAny>,
                rewards: &Bound<'py, PyAny>,
                terminated: &Bound<'py, PyAny>,
                truncated: &Bound<'py, PyAny>,
            ) -> PyResult<$crate::rollout::CutIndices<'py>> {
                let arrays = $crate::rollout::RolloutArrays {
                    observations, chosen, rewards, terminated, truncated,
                };
                $crate::native_class::exclusive(slf)?.0.rollout(policy, head, key, &arrays)
            }

            /// Write the final observations of episodes that the last rollout truncated.
            fn write_cuts(slf: &Bound<'_, Self>, observations: &Bound<'_, PyAny>) -> PyResult<()> {
                $crate::native_class::exclusive(slf)?.0.write_cuts(observations)
            }

            /// Reset a batch of one.
            #[pyo3(signature = (seed=None))]
            fn reset_one(
                slf: &Bound<'_, Self>,
                seed: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<$crate::result::ResetResult> {
                $crate::native_class::exclusive(slf)?.0.reset_one(slf.py(), seed)
            }

            /// Step a batch of one.
            fn step_one(
                slf: &Bound<'_, Self>,
                action: &Bound<'_, PyAny>,
            ) -> PyResult<$crate::result::StepResult> {
                $crate::native_class::exclusive(slf)?.0.step_one(slf.py(), action)
            }

            /// Copy the exact state of env `source` to env `target`, its random streams included.
            fn clone_env(slf: &Bound<'_, Self>, source: i64, target: i64) -> PyResult<()> {
                $crate::native_class::exclusive(slf)?.0.clone_env(source, target)
            }

            /// Current infos of the envs, one array for each key.
            fn infos<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
                $crate::native_class::exclusive(slf)?.0.infos(slf.py())
            }

            /// Final infos of episodes that ended in the last step; other rows are undefined.
            fn final_infos<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
                $crate::native_class::exclusive(slf)?.0.final_infos(slf.py())
            }

            /// State to continue from, bit for bit.
            fn state_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
                $crate::native_class::exclusive(slf)?.0.state_dict(slf.py())
            }

            /// Continue from a saved state; a refused one changes nothing.
            fn load_state_dict(slf: &Bound<'_, Self>, state: &Bound<'_, PyAny>) -> PyResult<()> {
                $crate::native_class::exclusive(slf)?.0.load_state_dict(state)
            }
        }
    };
}

pub(crate) use native_batch;
