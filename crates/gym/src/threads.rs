//! Thread pools for batches: one for each number of threads, recreated after a fork.

use std::mem;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Least work worth sharing: below, waking other threads takes longer.
const WORTH_SHARING_NANOSECONDS: u64 = 50_000;

/// Smallest number of envs per share of work.
const SMALLEST_SHARE: usize = 16;

/// Shares for each thread: more than one, so that a late thread is helped by the others.
const SHARES_PER_THREAD: usize = 4;

/// Largest number of threads of a batch.
pub const MOST_THREADS: usize = 1_024;

/// The pools of this process, which batches share.
static POOLS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// Thread pool of the process `process`.
#[derive(Clone, Debug)]
struct Pool {
    process: u32,
    threads: usize,
    workers: Arc<ThreadPool>,
}

/// Thread limit of a batch, and its thread pool.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    pool: Option<Pool>,
}

/// Work that can be cut in two.
pub(crate) trait Divisible: Sized + Send {
    /// Number of parts.
    fn len(&self) -> usize;

    /// The first `count` parts, and the rest.
    fn split(self, count: usize) -> (Self, Self);

    /// Execute the work.
    fn run(self);
}

impl Threads {
    /// At most `count` threads, from 1 to [`MOST_THREADS`]; `None` for one per core.
    #[must_use]
    pub fn new(count: Option<usize>) -> Self {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        Self { count: count.unwrap_or_else(cores).clamp(1, MOST_THREADS), pool: None }
    }

    /// Largest number of threads.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Execute `work`, whose every part costs about `nanoseconds`, on as many threads as pay off.
    pub(crate) fn run(&mut self, work: impl Divisible, nanoseconds: u32) {
        let total = work.len() as u64 * u64::from(nanoseconds);
        let share = work.len().div_ceil(self.count * SHARES_PER_THREAD).max(SMALLEST_SHARE);
        if self.count == 1 || total < WORTH_SHARING_NANOSECONDS || work.len() <= share {
            return work.run();
        }
        let helpers = self.count - 1;
        match self.workers() {
            Some(workers) => share_out(work, share, helpers, workers),
            // No threads available: the caller does the work.
            None => work.run(),
        }
    }

    fn workers(&mut self) -> Option<&ThreadPool> {
        let process = process::id();
        if self.pool.as_ref().is_none_or(|pool| pool.process != process) {
            forget(self.pool.take());
            self.pool = shared_pool(process, self.count);
        }
        self.pool.as_ref().map(|pool| &*pool.workers)
    }
}

impl Clone for Threads {
    fn clone(&self) -> Self {
        Self { count: self.count, pool: None }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if self.pool.as_ref().is_some_and(|pool| pool.process != process::id()) {
            forget(self.pool.take());
        }
    }
}

/// Leak a pool of the parent process after a fork. Its threads do not exist here, and dropping it
/// would wait for locks that one of them may have held.
fn forget(pool: Option<Pool>) {
    mem::forget(pool);
}

fn shared_pool(process: u32, threads: usize) -> Option<Pool> {
    // Not `lock`: after a fork while another thread held it, it would never be released.
    let Ok(mut pools) = POOLS.try_lock() else { return new_pool(process, threads) };
    if pools.iter().any(|pool| pool.process != process) {
        mem::forget(mem::take(&mut *pools));
    }
    if let Some(pool) = pools.iter().find(|pool| pool.threads == threads) {
        return Some(pool.clone());
    }
    let pool = new_pool(process, threads)?;
    pools.push(pool.clone());
    Some(pool)
}

fn new_pool(process: u32, threads: usize) -> Option<Pool> {
    let name = |index| format!("sekai-{index}");
    // The calling thread works too.
    let helpers = threads - 1;
    let workers = ThreadPoolBuilder::new().num_threads(helpers).thread_name(name).build().ok()?;
    Some(Pool { process, threads, workers: Arc::new(workers) })
}

/// Distribute shares among the calling thread and its helpers. The caller begins at once: sleeping
/// helpers take a while to wake.
fn share_out(work: impl Divisible, share: usize, helpers: usize, workers: &ThreadPool) {
    let shares = Mutex::new(cut(work, share));
    let take_shares = || {
        while let Some(part) = next_of(&shares) {
            part.run();
        }
    };
    workers.in_place_scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|_| take_shares());
        }
        take_shares();
    });
}

/// The lock is not held while a share is done; a share that panics ends the call, not the lock.
fn next_of<W>(shares: &Mutex<Vec<W>>) -> Option<W> {
    shares.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

/// Split work into equal shares, the last one possibly smaller.
fn cut<W: Divisible>(mut work: W, share: usize) -> Vec<W> {
    let mut shares = Vec::with_capacity(work.len().div_ceil(share));
    while work.len() > share {
        let (first, rest) = work.split(share);
        shares.push(first);
        work = rest;
    }
    shares.push(work);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Doubling<'a>(&'a mut [u64]);

    impl Divisible for Doubling<'_> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn split(self, count: usize) -> (Self, Self) {
            let (left, right) = self.0.split_at_mut(count);
            (Self(left), Self(right))
        }

        fn run(self) {
            assert!(!self.0.is_empty(), "nobody is sent to do nothing");
            self.0.iter_mut().for_each(|number| *number *= 2);
        }
    }

    #[test]
    fn every_part_is_done_once_whatever_the_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            for count in [1, 15, 16, 17, 33, 1000] {
                let mut numbers: Vec<u64> = (0..count).collect();

                Threads::new(Some(threads)).run(Doubling(&mut numbers), 1_000_000);

                assert!(numbers.iter().zip(0..).all(|(number, index)| *number == 2 * index));
            }
        }
    }

    #[test]
    fn batches_with_as_many_threads_share_them() {
        let are_shared = || {
            let (mut first, mut second) = (Threads::new(Some(5)), Threads::new(Some(5)));
            std::ptr::eq(
                first.workers().expect("threads can be had"),
                second.workers().expect("threads can be had"),
            )
        };

        // A locked list of pools, as other tests may cause, leads to a separate pool.
        assert!((0..100).any(|_| are_shared()));
    }

    #[test]
    fn a_pool_of_another_process_is_not_used() {
        let mut threads = Threads::new(Some(6));
        let stale = new_pool(process::id() + 1, 6).expect("threads can be had");
        threads.pool = Some(stale.clone());

        let got = threads.workers().expect("threads can be had");

        assert!(!std::ptr::eq(got, Arc::as_ptr(&stale.workers)));
    }
}
