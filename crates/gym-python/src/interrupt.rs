//! Long calls without the GIL that Ctrl-C can end.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use market::Pauses;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long a call sleeps at first, and at most, before it looks again for a lock.
const NAP: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(10)];

thread_local! {
    /// The address of what this thread has locked for a long call; 0 for nothing.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Does `work` while other Python threads run. Where a signal handler raises, work that asks its
/// `Pauses` ends after the slice it is in, and the error of the handler is that of the call.
pub(crate) fn interruptible<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut Pauses<'_>) -> R + Send,
) -> PyResult<R> {
    let mut raised = None;
    let result = py.detach(|| {
        let mut goes_on = || {
            #[allow(clippy::redundant_closure_for_method_calls)] // a method is not general enough
            let answer = Python::attach(|py| py.check_signals());
            raised = answer.err();
            raised.is_none()
        };
        work(&mut Pauses::new(&mut goes_on))
    });
    raised.map_or(Ok(result), Err)
}

/// The same on what a lock guards. Signal handlers run in the middle of it, and must not wait for it.
pub(crate) fn interruptible_in<T: Send, R: Send>(
    py: Python<'_>,
    mutex: &Mutex<T>,
    guarded: &mut T,
    work: impl FnOnce(&mut T, &mut Pauses<'_>) -> R + Send,
) -> PyResult<R> {
    let before = HELD.replace(address_of(mutex));
    let result = interruptible(py, |pauses| work(guarded, pauses));
    HELD.set(before);
    result
}

fn address_of<T>(mutex: &Mutex<T>) -> usize {
    std::ptr::from_ref(mutex).addr()
}

/// Waits for a lock while other Python threads run and signals are heard; `None` if whoever held it
/// panicked.
pub(crate) fn lock<'a, T: Send>(
    py: Python<'_>,
    mutex: &'a Mutex<T>,
) -> PyResult<Option<MutexGuard<'a, T>>> {
    let [mut nap, longest] = NAP;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(Some(guard)),
            Err(TryLockError::Poisoned(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) if HELD.get() == address_of(mutex) => {
                return Err(PyRuntimeError::new_err(
                    "a signal handler called an object in the middle of a call of its own: \
                     raise from the handler, and call the object afterwards",
                ));
            }
            Err(TryLockError::WouldBlock) => py.detach(|| thread::sleep(nap)),
        }
        nap = (2 * nap).min(longest);
        py.check_signals()?;
    }
}
