//! A server's process, and what it consumes by the host's count.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(10);

/// The same command, which joins the control group before it begins.
pub(super) fn in_group(command: &Command, group: &Path) -> Command {
    let mut joining = Command::new("sh");
    joining.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""]).arg(group);
    joining.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => joining.env(name, value),
            None => joining.env_remove(name),
        };
    }
    joining
}

/// A server that listens; it ends with this value.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

/// The CPU time it has consumed.
pub(super) struct Consumed {
    /// CPU time.
    pub(super) cpu: Duration,
    /// Resident memory, in bytes.
    pub(super) resident: u64,
    /// Threads of the host.
    pub(super) host_threads: u64,
}

impl Server {
    /// Starts the server. It prints its port, unless it must be given one (`told`).
    pub(super) fn start(mut command: Command, told: bool) -> anyhow::Result<Server> {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        if told {
            // Free a moment ago; nothing else asks for ports of this machine so quickly.
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let child = command.args(["-p", &port.to_string()]).stdout(Stdio::null()).spawn()?;
            let mut server = Server { child, port };
            server.await_listener()?;
            return Ok(server);
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().context("standard output is a pipe")?;
        let mut server = Server { child, port: 0 };
        BufReader::new(output).read_line(&mut line)?;
        server.port = line.trim().parse().context("the server did not start")?;
        Ok(server)
    }

    fn await_listener(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            ensure!(self.child.try_wait()?.is_none(), "the server has ended");
            ensure!(Instant::now() < deadline, "the server does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub(super) fn consumed(&mut self) -> anyhow::Result<Consumed> {
        ensure!(self.child.try_wait()?.is_none(), "the server has ended");
        let folder = format!("/proc/{}", self.child.id());
        let stat = fs::read_to_string(format!("{folder}/stat"))?;
        // The name, in brackets, is the only field that may have spaces; the one after it is the third, see proc(5).
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        // SAFETY: no memory is involved.
        let (tick, page) = unsafe { (libc::sysconf(libc::_SC_CLK_TCK), libc::sysconf(libc::_SC_PAGESIZE)) };
        Ok(Consumed {
            cpu: Duration::from_secs_f64((field(14) + field(15)) as f64 / tick as f64),
            resident: field(24) * page as u64,
            host_threads: field(20),
        })
    }

    /// Ends the server.
    ///
    /// # Errors
    /// It had ended before.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        ensure!(self.child.try_wait()?.is_none(), "the server has ended");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// As many open files as the host allows, for this process and its children: how many.
pub(super) fn raise_file_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls use the structure only while they run.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    usize::try_from(limit.rlim_max).unwrap_or(usize::MAX)
}
