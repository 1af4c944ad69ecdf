//! How walks go: ours, and how they went on Linux.

/// How a walk makes sure of what it stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Nodes are protected by sequence counts, under RCU.
    Rcu,
    /// Nodes are protected by references.
    Reference,
}

/// The steps allowed in RCU mode: ours, and Linux's before and after 2021.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How a walk begins.
    pub begins: Mode,
    /// Whether a thread can be asked for its life in RCU mode: what the seed changed.
    pub revalidates: bool,
    /// Whether a name can be known to be missing in RCU mode.
    pub misses: bool,
    /// Whether the machine's files, which never go away, stay in RCU mode.
    pub permanent: bool,
    /// Leaving RCU mode is not allowed (`RESOLVE_CACHED`): EAGAIN.
    pub cached: bool,
}

impl Policy {
    /// Ours.
    pub const ENTRESOL: Policy =
        Policy { begins: Mode::Rcu, revalidates: true, misses: true, permanent: true, cached: false };
    /// Linux with the seed's patch, to this day.
    pub const LINUX: Policy = Policy { misses: false, permanent: false, ..Policy::ENTRESOL };
    /// Linux before it.
    pub const BEFORE: Policy = Policy { revalidates: false, ..Policy::LINUX };
    /// References throughout.
    pub const REFERENCES: Policy = Policy { begins: Mode::Reference, ..Policy::BEFORE };
}
