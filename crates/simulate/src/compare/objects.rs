//! The objects that the threads of a workload share. Mutexes, condition variables and semaphores are the C library's, which
//! rt-app uses, too.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Barrier, Condvar, Mutex, PoisonError};

use sim::workload::rtapp::{Objects, Workload};

/// All of them.
pub(super) struct Shared {
    pub mutexes: Vec<RawMutex>,
    pub conds: Vec<RawCond>,
    pub barriers: Vec<Barrier>,
    pub semaphores: Vec<RawSemaphore>,
    pub gates: Vec<Gate>,
}

impl Shared {
    pub fn new(workload: &Workload) -> Shared {
        let Objects { mutexes, pi, conds, barriers, semaphores, gates } = workload.objects();
        Shared {
            mutexes: (0..mutexes).map(|_| RawMutex::new(pi)).collect(),
            conds: (0..conds).map(|_| RawCond::new()).collect(),
            barriers: (0..barriers).map(|b| Barrier::new(workload.parties(b) as usize)).collect(),
            semaphores: (0..semaphores).map(|_| RawSemaphore::new()).collect(),
            gates: (0..gates).map(|_| Gate::default()).collect(),
        }
    }
}

/// A mutex that is taken and released by different calls, which a guard cannot express.
pub(super) struct RawMutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a mutex is made to be used by several threads.
unsafe impl Sync for RawMutex {}
// SAFETY: as above; it is boxed, so it does not move.
unsafe impl Send for RawMutex {}

impl RawMutex {
    /// An error-checking one, so that a file that releases what is not held does no harm.
    pub fn new(pi: bool) -> RawMutex {
        let protocol = if pi { libc::PTHREAD_PRIO_INHERIT } else { libc::PTHREAD_PRIO_NONE };
        let mut attributes = MaybeUninit::uninit();
        let mut mutex = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised before they are set and used; a mutex that nobody has locked may be moved.
        let mutex = unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ERRORCHECK);
            libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), protocol);
            libc::pthread_mutex_init(mutex.as_mut_ptr(), attributes.as_ptr());
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
            mutex.assume_init()
        };
        RawMutex(Box::new(UnsafeCell::new(mutex)))
    }

    pub fn lock(&self) {
        // SAFETY: it is initialised and does not move.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    pub fn unlock(&self) {
        // SAFETY: as above; it checks who holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// A condition variable for these mutexes.
pub(super) struct RawCond(Box<UnsafeCell<libc::pthread_cond_t>>);

// SAFETY: a condition variable is made to be used by several threads.
unsafe impl Sync for RawCond {}
// SAFETY: as above; it is boxed, so it does not move.
unsafe impl Send for RawCond {}

impl RawCond {
    pub fn new() -> RawCond {
        let mut cond = MaybeUninit::uninit();
        // SAFETY: it is initialised here, and one that nobody has waited for may be moved.
        let cond = unsafe {
            libc::pthread_cond_init(cond.as_mut_ptr(), ptr::null());
            cond.assume_init()
        };
        RawCond(Box::new(UnsafeCell::new(cond)))
    }

    pub fn wait(&self, mutex: &RawMutex) {
        // SAFETY: both are initialised and do not move; the mutex checks who holds it.
        unsafe { libc::pthread_cond_wait(self.0.get(), mutex.0.get()) };
    }

    pub fn signal(&self) {
        // SAFETY: it is initialised and does not move.
        unsafe { libc::pthread_cond_signal(self.0.get()) };
    }

    pub fn broadcast(&self) {
        // SAFETY: as above.
        unsafe { libc::pthread_cond_broadcast(self.0.get()) };
    }
}

/// A semaphore.
pub(super) struct RawSemaphore(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: a semaphore is made to be used by several threads.
unsafe impl Sync for RawSemaphore {}
// SAFETY: as above; it is boxed, so it does not move.
unsafe impl Send for RawSemaphore {}

impl RawSemaphore {
    /// One of value zero.
    fn new() -> RawSemaphore {
        let mut semaphore = MaybeUninit::uninit();
        // SAFETY: it is initialised here, and one that nobody has waited for may be moved.
        let semaphore = unsafe {
            libc::sem_init(semaphore.as_mut_ptr(), 0, 0);
            semaphore.assume_init()
        };
        RawSemaphore(Box::new(UnsafeCell::new(semaphore)))
    }

    pub fn wait(&self) {
        // SAFETY: it is initialised and does not move. A signal interrupts it, which is its only error.
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {}
    }

    pub fn post(&self) {
        // SAFETY: it is initialised and does not move.
        unsafe { libc::sem_post(self.0.get()) };
    }
}

/// Suspended threads: each waits until the next time that they are resumed.
#[derive(Default)]
pub(super) struct Gate {
    opened: Mutex<u64>,
    changed: Condvar,
}

impl Gate {
    pub fn wait(&self) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *opened;
        drop(self.changed.wait_while(opened, |now| *now == before).unwrap_or_else(PoisonError::into_inner));
    }

    pub fn open(&self) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }
}
