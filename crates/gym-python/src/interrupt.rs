//! Interruptible long calls without the GIL.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use market::InterruptCheck;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// First and longest sleep between two attempts to take a lock.
const NAP: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(10)];

thread_local! {
    /// Address of the lock that this thread holds during a long call; 0 for none.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Execute `work` without the GIL. If a signal handler raises, work that checks its `InterruptCheck` ends
/// after the current slice, and the call raises the handler's error.
pub(crate) fn interruptible<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut InterruptCheck<'_>) -> R + Send,
) -> PyResult<R> {
    let mut raised = None;
    let result = py.detach(|| {
        let mut check = || {
            #[allow(clippy::redundant_closure_for_method_calls)] // a method is not general enough
            let answer = Python::attach(|py| py.check_signals());
            raised = answer.err();
            raised.is_none()
        };
        work(&mut InterruptCheck::new(&mut check))
    });
    raised.map_or(Ok(result), Err)
}

/// Execute `work` on the value of a lock without the GIL. Signal handlers run meanwhile, and must
/// not wait for the lock.
pub(crate) fn interruptible_in<T: Send, R: Send>(
    py: Python<'_>,
    mutex: &Mutex<T>,
    guarded: &mut T,
    work: impl FnOnce(&mut T, &mut InterruptCheck<'_>) -> R + Send,
) -> PyResult<R> {
    let before = HELD.replace(address_of(mutex));
    let result = interruptible(py, |interrupt| work(guarded, interrupt));
    HELD.set(before);
    result
}

fn address_of<T>(mutex: &Mutex<T>) -> usize {
    std::ptr::from_ref(mutex).addr()
}

/// Wait for a lock without the GIL, handling signals; `None` if its holder panicked.
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
