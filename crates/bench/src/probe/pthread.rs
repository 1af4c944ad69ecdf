//! The parts of the C library's thread interface that Rust's does not offer.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::{io, mem, ptr};

/// A thread that runs a C function; it must be joined.
pub(super) struct Thread(libc::pthread_t);

/// The start routine of a thread.
type Body = extern "C" fn(*mut c_void) -> *mut c_void;

/// A thread's work on a word that it shares with others.
pub(super) type Task = fn(&AtomicU32);

/// A thread's work on a word, known when the program is built.
pub(super) trait Work {
    /// Does it.
    fn run(word: &AtomicU32);
}

/// Attributes with a stack size.
pub(super) struct Attributes(libc::pthread_attr_t);

impl Attributes {
    pub(super) fn with_stack(bytes: usize) -> Self {
        // SAFETY: the attributes are initialised before their size is set; the size is more than the least allowed.
        unsafe {
            let mut attributes = mem::zeroed();
            libc::pthread_attr_init(&mut attributes);
            libc::pthread_attr_setstacksize(&mut attributes, bytes);
            Self(attributes)
        }
    }
}

impl Thread {
    /// Creates a thread.
    ///
    /// # Safety
    /// `body` may be called with `argument` in another thread until that is joined.
    unsafe fn create(attributes: Option<&Attributes>, body: Body, argument: *mut c_void) -> io::Result<Self> {
        let mut thread = 0;
        let attributes = attributes.map_or(ptr::null(), |attributes| &raw const attributes.0);
        // SAFETY: the attributes are initialised; the caller answers for the body.
        match unsafe { libc::pthread_create(&mut thread, attributes, body, argument) } {
            0 => Ok(Self(thread)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Creates a thread that runs `task`.
    pub(super) fn running(task: fn()) -> io::Result<Self> {
        // SAFETY: `run_task` is for functions like this.
        unsafe { Self::create(None, run_task, task as *mut c_void) }
    }

    /// Creates a thread that does `W` with `word`. It needs no memory of ours.
    pub(super) fn on_static_word<W: Work>(attributes: &Attributes, word: &'static AtomicU32) -> io::Result<Self> {
        // SAFETY: the word lives for ever.
        unsafe { Self::create(Some(attributes), work_on_static_word::<W>, word.as_ptr().cast()) }
    }

    /// Creates a thread that runs `task` with `word`.
    pub(super) fn on_word(attributes: &Attributes, task: Task, word: &Arc<AtomicU32>) -> io::Result<Self> {
        let argument = Box::into_raw(Box::new((task, Arc::clone(word))));
        // SAFETY: the argument is the new thread's.
        let created = unsafe { Self::create(Some(attributes), work_on_word, argument.cast()) };
        if created.is_err() {
            // SAFETY: no thread has got it.
            drop(unsafe { Box::from_raw(argument) });
        }
        created
    }

    pub(super) fn join(self) {
        // SAFETY: it was created joinable, and `self` is gone afterwards.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
    }
}

extern "C" fn run_task(task: *mut c_void) -> *mut c_void {
    // SAFETY: `Thread::running` passes such a function.
    let task = unsafe { mem::transmute::<*mut c_void, fn()>(task) };
    task();
    ptr::null_mut()
}

extern "C" fn work_on_static_word<W: Work>(word: *mut c_void) -> *mut c_void {
    // SAFETY: `Thread::on_static_word` passes a word that lives for ever.
    W::run(unsafe { &*word.cast() });
    ptr::null_mut()
}

extern "C" fn work_on_word(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `Thread::on_word` has made it for this thread.
    let (task, word) = *unsafe { Box::from_raw(argument.cast::<(Task, Arc<AtomicU32>)>()) };
    task(&word);
    ptr::null_mut()
}

/// A value under the C library's own mutex and condition variable (Rust's use futexes directly).
pub(super) struct Monitor {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    changed: UnsafeCell<libc::pthread_cond_t>,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is touched only under the mutex, and the other two are made for threads.
unsafe impl Sync for Monitor {}

impl Monitor {
    pub(super) fn new(value: u32) -> Self {
        Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            changed: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the value is `from`, makes it `to` and wakes one that waits.
    pub(super) fn exchange(&self, from: u32, to: u32) {
        // SAFETY: both objects are initialised and do not move while `self` is borrowed; `value` is read and
        // written between lock and unlock only.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            while *self.value.get() != from {
                libc::pthread_cond_wait(self.changed.get(), self.mutex.get());
            }
            *self.value.get() = to;
            libc::pthread_cond_signal(self.changed.get());
            libc::pthread_mutex_unlock(self.mutex.get());
        }
    }
}

/// The CPUs that this thread may use.
pub fn cpus() -> Vec<usize> {
    // SAFETY: all-zero bytes are an empty set, of the size that is passed.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Allows this thread one CPU only.
pub fn pin(cpu: usize) -> Result<(), String> {
    // SAFETY: all-zero bytes are an empty set, of the size that is passed.
    let answer = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &set)
    };
    refusal_of("sched_setaffinity", answer)
}

/// Makes this thread a real-time one of SCHED_FIFO.
pub(super) fn become_fifo(priority: i32) -> Result<(), String> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameter is readable.
    refusal_of("sched_setscheduler(SCHED_FIFO)", unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) })
}

fn refusal_of(call: &str, answer: i32) -> Result<(), String> {
    if answer == 0 { Ok(()) } else { Err(format!("{call}: {}", io::Error::last_os_error())) }
}
