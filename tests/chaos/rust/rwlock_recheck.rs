// Reader/writer upgrade: what the reader saw is not looked at again by the writer.
use std::sync::RwLock;
use std::thread;

static NAMES: RwLock<Vec<u32>> = RwLock::new(Vec::new());

fn intern(name: u32) {
    if NAMES.read().unwrap().contains(&name) {
        return;
    }
    let mut names = NAMES.write().unwrap();
    if cfg!(bug) || !names.contains(&name) {
        names.push(name);
    }
}

fn main() {
    let other = thread::spawn(|| (1..4).for_each(intern));
    (1..4).for_each(intern);
    other.join().unwrap();
    assert_eq!(NAMES.read().unwrap().len(), 3);
}
