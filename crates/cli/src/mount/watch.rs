//! Snapshots for the tree, from state pages.

use mount::{Seen, Watch};
use std::time::Duration;
use watch::fetch::{self, FetchError, clock};
use watch::find;

/// The state pages of this user.
#[derive(Debug)]
pub struct Pages;

/// The pause before a silent process is asked again: each request may take [`fetch::PATIENCE`].
const SILENT: Duration = Duration::from_secs(1);

impl Watch for Pages {
    fn look(&self, pid: i32) -> Seen {
        let Some(place) = find::one(pid) else { return Seen::default() };
        match fetch::of(&place) {
            Ok(watched) => {
                let next = watched.snapshot.process.next.since(clock(libc::CLOCK_MONOTONIC));
                let lasts = if watched.stale.is_some() { SILENT } else { Duration::from_nanos(next.0) };
                Seen { snapshot: Some(watched.snapshot), lasts }
            }
            Err(FetchError::Silent(_)) => Seen { snapshot: None, lasts: SILENT },
            Err(_) => Seen::default(),
        }
    }

    fn pids(&self) -> Vec<i32> {
        find::all().into_iter().map(|place| place.pid).collect()
    }
}
