// Check then act on a container: contains_key and the index lock the map once each.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;

type Users = Arc<Mutex<HashMap<u32, &'static str>>>;

fn greet(users: &Users) -> String {
    if cfg!(bug) {
        if users.lock().unwrap().contains_key(&1) {
            return format!("hello {}", users.lock().unwrap()[&1]);
        }
    } else if let Some(name) = users.lock().unwrap().get(&1) {
        return format!("hello {name}");
    }
    String::from("who?")
}

fn main() {
    let users: Users = Arc::new(Mutex::new(HashMap::from([(1, "ada"), (2, "bob")])));
    let theirs = Arc::clone(&users);
    let greeter = thread::spawn(move || greet(&theirs));
    users.lock().unwrap().remove(&1);
    let said = greeter.join().unwrap();
    assert!(said == "hello ada" || said == "who?");
}
