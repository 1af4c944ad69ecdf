//! Arguments of a task that are declared only when that task is requested.
//!
//! clap's derive declares every option of every task before it parses the command line, which took a tenth of the start
//! of `run`: about a thousand small allocations for tasks that are not requested. [`Command::defer`] avoids them.

use std::cell::Cell;
use std::ops::Deref;

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Id};

thread_local! {
    static AT_ONCE: Cell<bool> = const { Cell::new(false) };
}

/// The command that `make` makes, with everything in it: what is generated from a command knows of nothing deferred.
pub fn at_once(make: impl FnOnce() -> Command) -> Command {
    AT_ONCE.set(true);
    let command = make();
    AT_ONCE.set(false);
    command
}

/// The arguments of one task.
#[derive(Debug)]
pub struct Later<T>(T);

impl<T> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Later<T> {
    fn group_id() -> Option<Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        if AT_ONCE.get() {
            return T::augment_args(command);
        }
        command.defer(|command| keep_about(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| keep_about(command, T::augment_args_for_update))
    }
}

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Keeps the task's description, which its arguments' documentation would replace.
fn keep_about(command: Command, augment: impl FnOnce(Command) -> Command) -> Command {
    let (about, long) = (command.get_about().cloned(), command.get_long_about().cloned());
    augment(command).about(Resettable::from(about)).long_about(Resettable::from(long))
}
