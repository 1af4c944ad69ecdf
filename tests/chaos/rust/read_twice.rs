// Reader/writer lock taken twice: the second read lock of one thread waits for a writer that waits for the first.
use std::sync::RwLock;
use std::thread;

static SETTINGS: RwLock<(u32, u32)> = RwLock::new((1, 1));

fn area(settings: &(u32, u32)) -> u32 {
    if cfg!(bug) {
        let again = SETTINGS.read().unwrap();
        again.0 * again.1
    } else {
        settings.0 * settings.1
    }
}

fn main() {
    let writer = thread::spawn(|| *SETTINGS.write().unwrap() = (2, 3));
    let settings = SETTINGS.read().unwrap();
    let area = area(&settings);
    drop(settings);
    writer.join().unwrap();
    assert!(area == 1 || area == 6);
}
