//! The servers: sources that this command carries, built with the tools that the machine has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::Side;

/// The server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// An echo server.
    Echo,
    /// memcached, with four threads.
    Cache,
}

/// The programs that are there.
pub(super) struct Peers {
    entresol: PathBuf,
    echo: PathBuf,
    go: Option<PathBuf>,
    tokio: Option<PathBuf>,
    cache: Option<PathBuf>,
    remarks: Vec<String>,
}

impl Peers {
    /// Builds what the sides need.
    pub(super) fn build(folder: &Path, sides: &[Side]) -> anyhow::Result<Peers> {
        let mut remarks = Vec::new();
        let mut optional = |side, name: &str, build: fn(&Path) -> anyhow::Result<PathBuf>| {
            let built = sides.contains(&side).then(|| build(folder))?;
            built.inspect_err(|why| remarks.push(format!("{name} is not measured: {why:#}"))).ok()
        };
        let (go, tokio) = (optional(Side::Go, "Go", build_go), optional(Side::Tokio, "tokio", build_tokio));
        let cache = crate::on_path("memcached");
        if cache.is_none() {
            remarks.push("memcached is not measured: it is not installed".to_owned());
        }
        let echo = build_echo(folder).context("the echo server")?;
        Ok(Peers { entresol: crate::own_path()?, echo, go, tokio, cache, remarks })
    }

    /// The missing parts, in words.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    pub(super) fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    pub(super) fn has(&self, program: Program, side: Side) -> bool {
        match side {
            Side::Go => program == Program::Echo && self.go.is_some(),
            Side::Tokio => program == Program::Echo && self.tokio.is_some(),
            _ => true,
        }
    }

    /// The command that starts the server on this side.
    pub(super) fn command(&self, program: Program, side: Side) -> anyhow::Result<Command> {
        let file = match (program, side) {
            (_, Side::Go) => self.go.as_ref(),
            (_, Side::Tokio) => self.tokio.as_ref(),
            (Program::Echo, _) => Some(&self.echo),
            (Program::Cache, _) => self.cache.as_ref(),
        };
        let file = file.context("the server was not built")?;
        let mut command = match side {
            Side::Auto | Side::Epoll | Side::Threads => {
                let mut command = Command::new(&self.entresol);
                command.args(["run", "--io", side.name(), "--"]).arg(file);
                command
            }
            Side::Native | Side::Go | Side::Tokio => Command::new(file),
        };
        if program == Program::Cache {
            command.args(["-t", "4", "-U", "0", "-l", "127.0.0.1", "-u", "nobody"]);
        }
        Ok(command)
    }
}

fn build_echo(folder: &Path) -> anyhow::Result<PathBuf> {
    let (source, file) = (folder.join("echo.c"), folder.join("echo"));
    fs::write(&source, include_str!("peers/echo.c"))?;
    let mut compiler = tool("cc")?;
    compiler.args(["-O2", "-pthread", "-o"]).arg(&file).arg(&source);
    build(compiler).map(|()| file)
}

fn build_go(folder: &Path) -> anyhow::Result<PathBuf> {
    let (source, file) = (folder.join("echo.go"), folder.join("echo-go"));
    fs::write(&source, include_str!("peers/echo.go"))?;
    let mut compiler = tool("go")?;
    compiler.args(["build", "-o"]).arg(&file).arg(&source).current_dir(folder).env("GOPROXY", "off");
    compiler.env("GOFLAGS", "").env("GO111MODULE", "off").env("GOCACHE", folder.join("go-cache"));
    build(compiler).map(|()| file)
}

fn build_tokio(folder: &Path) -> anyhow::Result<PathBuf> {
    let folder = folder.join("tokio");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), include_str!("peers/tokio.toml"))?;
    fs::write(folder.join("src/main.rs"), include_str!("peers/tokio.rs"))?;
    let mut cargo = tool("cargo")?;
    crate::cargo_build::forget_outer_build(&mut cargo);
    cargo.args(["build", "--release", "--quiet"]).current_dir(&folder);
    build(cargo).map(|()| folder.join("target/release/echo"))
}

fn tool(name: &str) -> anyhow::Result<Command> {
    let file = crate::on_path(name).with_context(|| format!("there is no {name}"))?;
    Ok(Command::new(file))
}

fn build(mut command: Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = errors.lines().find(|line| line.contains("error")).or(errors.lines().last()).unwrap_or_default();
        bail!("it could not be built: {}", line.trim());
    }
    Ok(())
}
