//! `setitimer(2)` and `getitimer(2)` on CPU time. ITIMER_REAL and `alarm(2)` are the host's.

use crate::Kernel;
use crate::machine::{Call, Machine};
use crate::trap::Out;
use abi::{Errno, Itimerval, Timeval};
use ids::{CpuId, ThreadIdx};
use time::cpu::CpuItimerKind;
use time::cpu::itimer::ItimerValue;

fn kind(which: u64) -> Option<CpuItimerKind> {
    match which as i32 {
        1 => Some(CpuItimerKind::Virtual),
        2 => Some(CpuItimerKind::Prof),
        _ => None,
    }
}

impl<M: Machine> Kernel<M> {
    /// `setitimer(2)`. Without a new value it disarms, as Linux does for old programs. The timer is set even if the old
    /// value cannot be written.
    pub(crate) fn sys_setitimer(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Result<Out, Errno> {
        let [which, new, old, ..] = call.args;
        let Some(which) = kind(which) else { return Ok(self.foreign(cpu, t, call)) };
        let mut value = ItimerValue::default();
        if new != 0 {
            let (interval, first) = self.get::<Itimerval>(new)?.to_nanos()?;
            value = ItimerValue { value: first, interval };
        }
        let before = self.set_itimer(cpu, which, value, self.moment_of_reading(cpu, t));
        Ok(if old == 0 { Out::Done(0) } else { self.give_itimer(old, before) })
    }

    pub(crate) fn sys_getitimer(&self, cpu: CpuId, t: ThreadIdx, call: &Call) -> Out {
        let [which, to, ..] = call.args;
        match kind(which) {
            Some(which) => self.give_itimer(to, self.itimer(which, self.moment_of_reading(cpu, t))),
            None => self.foreign(cpu, t, call),
        }
    }

    fn give_itimer(&self, to: u64, it: ItimerValue) -> Out {
        let (value, interval) = (Timeval::from_nanos(it.value), Timeval::from_nanos(it.interval));
        self.put(to, Itimerval { interval, value }).into()
    }
}
