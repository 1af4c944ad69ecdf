//! `entresol export`: figures of all processes in the OpenMetrics format, once or by HTTP.

mod http;

use crate::args::ExportArguments;
use anyhow::Context;
use ids::Nanos;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use state::Place;
use std::io::Write;
use std::net::TcpListener;
use tool::style;
use watch::{Watched, fetch, printable};

/// The media type of OpenMetrics.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes the figures, or serves them for ever.
///
/// # Errors
/// Those of the output or the address.
pub fn export(request: &ExportArguments) -> anyhow::Result<i32> {
    let Some(address) = request.listen else {
        std::io::stdout().write_all(metrics(request.processes)?.as_bytes())?;
        return Ok(0);
    };
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    style::detail(&format!("entresol: http://{}/metrics\n", listener.local_addr()?));
    http::serve(&listener, &request.host, CONTENT_TYPE, || metrics(request.processes))
}

/// All figures as text.
///
/// # Errors
/// None that is expected: writing to memory.
pub fn metrics(processes: bool) -> anyhow::Result<String> {
    text(fetch::all().0, processes)
}

/// The figures of these processes as text.
///
/// # Errors
/// As of [`metrics`].
pub fn text(watched: Vec<Watched>, processes: bool) -> anyhow::Result<String> {
    let mut registry = Registry::with_prefix("entresol");
    registry.register_collector(Box::new(Figures { watched, processes }));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// All figures at one moment.
#[derive(Debug)]
struct Figures {
    watched: Vec<Watched>,
    processes: bool,
}

type Labels = Vec<(String, String)>;
type Series<T> = Vec<(Labels, T)>;

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.encode_processes(&mut encoder)?;
        self.encode_cpus(&mut encoder)?;
        if self.processes { Ok(()) } else { self.encode_threads(&mut encoder) }
    }
}

impl Figures {
    fn encode_processes(&self, to: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let places = [(Place::Running, "running"), (Place::Queued, "queued"), (Place::Waiting, "waiting")];
        let threads = self.each(|p, labels| {
            let labels = &labels;
            let count = |place| p.snapshot.threads.iter().filter(|t| t.place == place).count() as i64;
            places.map(|(place, name)| (with(labels, "state", name), count(place))).into_iter().collect()
        });
        gauges(to, "threads", "Living threads by what they do", threads)?;
        let started = self.each(|p, labels| vec![(labels, p.snapshot.process.started)]);
        counters(to, "threads_started", "Threads started", started)?;
        let time = self.each(|p, labels| {
            let process = &p.snapshot.process;
            let mode = |name, time| (with(&labels, "mode", name), in_seconds(time));
            vec![mode("user", process.user), mode("system", process.system)]
        });
        counters(to, "process_cpu_seconds", "CPU time of the process, seconds", time)?;
        let age = self.each(|p, labels| vec![(labels, p.stale.map_or(0.0, |age| age.as_secs_f64()))]);
        gauges(to, "stale_seconds", "How old the figures are of a process that does not answer, seconds", age)
    }

    fn encode_cpus(&self, to: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let each = |figure: fn(&state::Cpu) -> u64| {
            self.each(|p, labels| {
                let cpus = p.snapshot.cpus.iter().enumerate();
                cpus.map(|(i, cpu)| (with(&labels, "cpu", &i.to_string()), figure(cpu))).collect()
            })
        };
        let busy = each(|cpu| cpu.busy.0).into_iter().map(|(labels, n)| (labels, in_seconds(Nanos(n)))).collect();
        counters(to, "cpu_busy_seconds", "Time in which a CPU ran threads, seconds", busy)?;
        let queued = each(|cpu| u64::from(cpu.queued)).into_iter().map(|(labels, n)| (labels, n as i64)).collect();
        gauges(to, "cpu_queued_threads", "Threads that wait for a CPU", queued)?;
        counters(to, "cpu_switches", "Changes of the running thread", each(|cpu| cpu.switches))?;
        counters(
            to,
            "cpu_preemptions",
            "Changes that the running thread did not ask for",
            each(|cpu| cpu.preemptions),
        )?;
        counters(to, "cpu_wakeups", "Threads that became runnable", each(|cpu| cpu.wakeups))?;
        counters(to, "cpu_migrations", "Threads that came from another CPU", each(|cpu| cpu.migrations))?;
        counters(to, "cpu_ticks", "Ticks", each(|cpu| cpu.ticks))?;
        counters(to, "cpu_kicks", "Kicks received", each(|cpu| cpu.kicks))?;
        counters(to, "cpu_host_calls", "System calls passed on to the host", each(|cpu| cpu.passed))?;
        counters(to, "cpu_host_calls_waited", "Host calls that had to wait", each(|cpu| cpu.waited))
    }

    fn encode_threads(&self, to: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let each = |figure: fn(&state::Thread) -> u64| {
            self.each(|p, labels| {
                let threads = p.snapshot.threads.iter();
                threads.map(|t| (of_thread(&labels, t), figure(t))).collect()
            })
        };
        let time = self.each(|p, labels| {
            let both = |t: &state::Thread| {
                let labels = of_thread(&labels, t);
                [
                    (with(&labels, "mode", "user"), in_seconds(t.user)),
                    (with(&labels, "mode", "system"), in_seconds(t.system)),
                ]
            };
            p.snapshot.threads.iter().flat_map(both).collect()
        });
        counters(to, "thread_cpu_seconds", "CPU time of a thread, seconds", time)?;
        let queued = each(|t| t.queued.0).into_iter().map(|(labels, n)| (labels, in_seconds(Nanos(n)))).collect();
        counters(to, "thread_queued_seconds", "Time in which a thread waited for a CPU, seconds", queued)?;
        counters(to, "thread_waits", "How often a thread began to wait", each(|t| t.voluntary))?;
        counters(to, "thread_preemptions", "How often a thread was preempted or yielded", each(|t| t.involuntary))?;
        counters(to, "thread_migrations", "How often a thread went to another CPU", each(|t| t.migrations))
    }

    /// A series for each process, with its labels.
    fn each<T>(&self, figures: impl Fn(&Watched, Labels) -> Series<T>) -> Series<T> {
        let labels = |p: &Watched| vec![("pid".to_owned(), p.pid.to_string()), ("process".to_owned(), p.name())];
        self.watched.iter().flat_map(|p| figures(p, labels(p))).collect()
    }
}

fn with(labels: &Labels, name: &str, value: &str) -> Labels {
    labels.iter().cloned().chain([(name.to_owned(), value.to_owned())]).collect()
}

fn of_thread(labels: &Labels, thread: &state::Thread) -> Labels {
    with(&with(labels, "tid", &thread.tid.to_string()), "thread", &printable(thread.name()))
}

fn in_seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

fn counters<T>(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, series: Series<T>) -> std::fmt::Result
where
    ConstCounter<T>: EncodeMetric,
{
    encode(to, name, help, series.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value))))
}

fn gauges<T>(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, series: Series<T>) -> std::fmt::Result
where
    ConstGauge<T>: EncodeMetric,
{
    encode(to, name, help, series.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value))))
}

fn encode<M: EncodeMetric>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl Iterator<Item = (Labels, M)>,
) -> std::fmt::Result {
    let mut series = series.peekable();
    let Some((_, first)) = series.peek() else { return Ok(()) };
    let mut family = to.encode_descriptor(name, help, None, first.metric_type())?;
    series.try_for_each(|(labels, metric)| metric.encode(family.encode_family(&labels)?))
}
