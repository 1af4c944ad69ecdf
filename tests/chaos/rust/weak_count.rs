// Check then act: the last strong reference may go between the look at its count and the upgrade.
use std::sync::{Arc, Weak};
use std::thread;

fn name(session: &Weak<String>) -> Option<String> {
    if cfg!(bug) {
        if session.strong_count() == 0 {
            return None;
        }
        Some(session.upgrade().unwrap().to_string())
    } else {
        session.upgrade().map(|session| session.to_string())
    }
}

fn main() {
    let session = Arc::new(String::from("ada"));
    let weak = Arc::downgrade(&session);
    let client = thread::spawn(move || name(&weak));
    drop(session);
    assert!(client.join().unwrap().is_none_or(|name| name == "ada"));
}
