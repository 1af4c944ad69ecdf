//! What Linux's own tools see over the mount, and what `entresol ps` says.

use super::room::{Room, Thread, Threads, Watched, eventually, succeeded};
use std::fs;
use std::process::Command;

/// A thread as a tool shows it.
struct Shown {
    tid: i32,
    name: String,
    state: char,
    /// In hundredths of a second, and so many of them are one unit of what is shown.
    time: u64,
    unit: u64,
}

/// The same threads, names and states; and times between what `entresol ps` has said before and after. To the main thread
/// `ps` and `top` give the time of the whole process, natively, too: it is no less than that of all threads.
fn same(pid: i32, before: &Threads, shown: &[Shown], after: &Threads) -> Result<(), String> {
    let mut tids: Vec<i32> = shown.iter().map(|s| s.tid).collect();
    tids.sort_unstable();
    let expected: Vec<i32> = before.keys().copied().collect();
    if tids != expected {
        return Err(format!("threads {tids:?}, and there are {expected:?}"));
    }
    for s in shown {
        let (old, new) = (&before[&s.tid], after.get(&s.tid).ok_or("a thread has ended")?);
        if s.name != old.name || s.state != old.state {
            return Err(format!("{} is {} {:?}, and it is {old:?}", s.tid, s.state, s.name));
        }
        let all: u64 = before.values().map(Thread::ticks).sum();
        let (least, most) = if s.tid == pid { (all, u64::MAX) } else { (old.ticks(), new.ticks()) };
        let (least, most) = (least / s.unit, most / s.unit);
        if !(least..=most).contains(&(s.time / s.unit)) {
            return Err(format!(
                "{} has consumed {} times {}, and it is {old:?} to {new:?}",
                s.tid,
                s.time / s.unit,
                s.unit
            ));
        }
    }
    Ok(())
}

/// Compares until a look fits: a snapshot may be a moment older than another.
fn compare(room: &Room, program: &Watched, look: impl Fn() -> Result<Vec<Shown>, String>) -> Result<(), String> {
    eventually(|| {
        let before = room.ps(program.pid())?;
        if before.len() != program.threads.len() {
            return Err("not all threads are there".to_owned());
        }
        let shown = look()?;
        // What the tool has seen may be as old as a snapshot may be.
        std::thread::sleep(std::time::Duration::from_millis(30));
        same(program.pid() as i32, &before, &shown, &room.ps(program.pid())?)
    })
}

/// `[hours:]minutes:seconds[.hundredths]` in hundredths.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let seconds = whole.split(':').try_fold(0, |sum, word| Some(sum * 60 + word.parse::<u64>().ok()?))?;
    Some(seconds * 100 + part.parse::<u64>().ok()?)
}

/// `ps`, with the whole list and with chosen columns.
///
/// # Errors
/// What differs.
pub fn ps() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.start(&[])?;
    let pid = program.pid().to_string();
    compare(&room, &program, || {
        let text = room.over_proc(&["ps", "-L", "-p", &pid, "-o", "lwp=,s=,time=,comm="])?;
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let (tid, state) = (words.next()?.parse().ok()?, words.next()?.chars().next()?);
            let time = hundredths(words.next()?)?;
            Some(Shown { tid, name: words.collect::<Vec<_>>().join(" "), state, time, unit: 100 })
        };
        text.lines().map(|line| row(line).ok_or_else(|| line.to_owned())).collect()
    })?;
    // The list of all: UID PID PPID LWP C NLWP STIME TTY TIME CMD.
    let all = room.over_proc(&["ps", "-eLf"])?;
    let rows: Vec<Vec<&str>> = all.lines().map(|line| line.split_whitespace().collect()).collect();
    let mut found: Vec<i32> = vec![];
    for row in rows.iter().filter(|row| row.get(1) == Some(&pid.as_str())) {
        if row.get(5) != Some(&program.threads.len().to_string().as_str()) {
            return Err(format!("number of threads: {row:?}"));
        }
        found.extend(row.get(3).and_then(|tid| tid.parse::<i32>().ok()));
    }
    found.sort_unstable();
    if found != program.threads.keys().copied().collect::<Vec<_>>() {
        return Err(format!("{found:?} are listed, {:?} there are", program.threads));
    }
    // Processes of the host's are what they are: this very one.
    let own = std::process::id().to_string();
    let native = succeeded(&["ps"], Command::new("ps").args(["-p", &own, "-o", "pid=,ppid=,comm=,args="]).output())?;
    let ours = room.over_proc(&["ps", "-p", &own, "-o", "pid=,ppid=,comm=,args="])?;
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    if words(&native) == words(&ours) { Ok(()) } else { Err(format!("natively {native}, over the mount {ours}")) }
}

/// `top` in batch mode, by threads.
///
/// # Errors
/// What differs.
pub fn top() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.start(&[])?;
    let pid = program.pid().to_string();
    compare(&room, &program, || {
        let text = room.over_proc(&["top", "-b", "-H", "-n1", "-w", "200", "-p", &pid])?;
        // PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (state, time) = (words.get(7)?.chars().next()?, hundredths(words.get(10)?)?);
            Some(Shown { tid: words.first()?.parse().ok()?, name: words.get(11..)?.join(" "), state, time, unit: 1 })
        };
        let rows = text.lines().skip_while(|line| !line.trim_start().starts_with("PID "));
        rows.skip(1).map(|line| row(line).ok_or_else(|| line.to_owned())).collect()
    })
}

/// `pgrep`, by processes and by threads.
///
/// # Errors
/// What differs.
pub fn pgrep() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.start(&["quiet"])?;
    let parent = std::process::id().to_string();
    let pid = program.pid().to_string();
    let found = room.over_proc(&["pgrep", "-l", "-P", &parent, "-x", "watched"])?;
    if found.trim() != format!("{pid} watched") {
        return Err(format!("pgrep found {found:?}, and the process is {pid}"));
    }
    let threads = room.over_proc(&["pgrep", "-w", "-P", &parent, "-x", "watched|burnt|fifo|brief|odd.*"])?;
    let mut tids: Vec<i32> = threads.lines().filter_map(|line| line.trim().parse().ok()).collect();
    tids.sort_unstable();
    tids.dedup();
    let expected: Vec<i32> = program.threads.keys().copied().collect();
    if tids == expected { Ok(()) } else { Err(format!("pgrep -w found {tids:?}, and there are {expected:?}")) }
}

/// `htop`, on a terminal.
///
/// # Errors
/// What differs, with the screen.
pub fn htop() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.start(&["quiet"])?;
    let settings = "htop_version=3.2.2\nconfig_reader_min_version=3\nfields=0 2 49 1\nhide_userland_threads=0\n\
        show_thread_names=1\ndelay=3\nscreen:Main=PID STATE TIME Command\n.sort_key=PID\n.tree_view=0\n";
    let file = room.file("htoprc");
    fs::write(&file, settings).map_err(|e| e.to_string())?;
    let socket = room.file("tmux");
    let tmux = |arguments: &[&str]| {
        let output = Command::new("tmux").arg("-S").arg(&socket).args(arguments).env_remove("TMUX").output();
        succeeded(arguments, output)
    };
    let mut shell = format!("HTOPRC={} ", file.display());
    let command = room.entresol()?;
    for (key, value) in command.get_envs().filter_map(|(key, value)| Some((key, value?))) {
        shell += &format!("{}={} ", key.display(), value.display());
    }
    shell += &format!("{} proc -- htop -p {}", command.get_program().display(), program.pid());
    tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", &shell])?;
    let result = eventually(|| {
        let screen = tmux(&["capture-pane", "-p"])?;
        let threads = room.ps(program.pid())?;
        for (tid, thread) in &threads {
            // PID S TIME+ Command
            let row = screen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let mut row = row.filter(|row| row.first() == Some(&tid.to_string().as_str()));
            let Some(row) = row.next() else { return Err(format!("{tid} is not on the screen:\n{screen}")) };
            let [_, state, time, ..] = row[..] else { return Err(format!("{row:?}")) };
            let state_fits = state.starts_with(thread.state);
            let name_fits = row[3..].join(" ").contains(thread.name.as_str());
            // To the main thread it gives the time of the whole process, natively, too.
            let time_fits = *tid == program.pid() as i32 || hundredths(time) == Some(thread.ticks());
            if !state_fits || !name_fits || !time_fits {
                return Err(format!("{row:?}, and {tid} is {thread:?}"));
            }
        }
        Ok(())
    });
    let _ = tmux(&["kill-server"]);
    result
}
