use super::*;

fn parse(text: &str) -> anyhow::Result<Experiment> {
    Experiment::parse(text, Path::new("/no/such/folder"))
}

/// Why it is refused.
#[track_caller]
fn refused(text: &str) -> String {
    format!("{:#}", parse(text).expect_err(text))
}

const MIGRATE: &str = r#"
name = "migrate"
seeds = "10..13"

[[runs]]
scenario = "rt-migrate"
cpus = [2, 4]
policy = ["entresol", "2007-passive"]
rounds = 3

[[runs]]
scenario = ["swarm"]
seeds = "0..5"
"#;

#[test]
fn the_product_has_one_order() {
    let experiment = parse(MIGRATE).unwrap();
    assert_eq!(experiment.runs(), 2 * 2 * 3 + 5);
    let said = |number| {
        let (configuration, seed) = experiment.run(number);
        (configuration.choice.words().join(" "), seed)
    };
    assert_eq!(said(0), ("--cpus 2 --rounds 3 --policy entresol".to_owned(), 10));
    assert_eq!(said(2).1, 12);
    assert_eq!(said(3), ("--cpus 2 --rounds 3 --policy 2007-passive".to_owned(), 10));
    assert_eq!(said(11), ("--cpus 4 --rounds 3 --policy 2007-passive".to_owned(), 12));
    assert_eq!(said(12), (String::new(), 0));
    assert_eq!(said(16), (String::new(), 4));
}

#[test]
fn machines_come_after_cpus() {
    let text = "name = \"m\"\nseeds = \"0..1\"\n[[runs]]\nscenario = \"schbench\"\ncosts = [\"host\", \"smp2007\"]\n\
                cpus = 8\nmachine = [\"flat\", \"2x4\", \"1x4x2\"]";
    let experiment = parse(text).unwrap();
    let said: Vec<String> = experiment.configurations.iter().map(|c| c.choice.words().join(" ")).collect();
    assert_eq!(said.len(), 6);
    assert_eq!(said[1], "--cpus 8 --machine flat --costs smp2007");
    assert_eq!(said[2], "--cpus 8 --machine 2x4 --costs host");
    // A flat machine is no other than none.
    let hash = |text: &str| parse(text).unwrap().configurations[0].hash.clone();
    assert_eq!(hash(text), hash(&text.replace("\"flat\", ", "").replace("machine", "#")));
    assert_ne!(hash(text), experiment.configurations[2].hash);
    assert_ne!(experiment.configurations[2].hash, experiment.configurations[4].hash);
}

#[test]
fn a_hash_changes_with_what_the_results_depend_on() {
    let hash = |text: &str| parse(text).unwrap().hash;
    assert_eq!(hash(MIGRATE), hash(&format!("# a comment\n{MIGRATE}")));
    for (from, to) in [("rounds = 3", "rounds = 4"), ("0..5", "0..6"), ("[2, 4]", "[4, 2]"), ("migrate\"\ns", "m\"\ns")]
    {
        assert_ne!(hash(MIGRATE), hash(&MIGRATE.replacen(from, to, 1)), "{to}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (from, to, words) in [
        ("cpus = [2, 4]", "cpu = [2, 4]", &["line 7", "unknown field `cpu`", "`cpus`"][..]),
        ("cpus = [2, 4]", "cpus = []", &["line 5", "cpus = []: nothing would be run"]),
        ("cpus = [2, 4]", "cpus = [2, -4]", &["line 7", "invalid value", "-4", "u32"]),
        ("cpus = [2, 4]", "cpus = [2, 5000]", &["line 5", "cpus: 5000: expected 1 to 4096"]),
        ("cpus = [2, 4]", "cpus = [2, 2]", &["line 5", "cpus: 2 is there twice"]),
        ("cpus = [2, 4]", "cpus = \"many\"", &["line 7", "invalid type: string \"many\", expected u32"]),
        ("\"10..13\"", "\"13..10\"", &["line 3", "expected A < B"]),
        ("\"10..13\"", "\"-5..10\"", &["line 3", "'-5' is not a seed"]),
        ("seeds = \"10..13\"", "", &["line 5", "no seeds"]),
        ("\"rt-migrate\"", "\"rt-emigrate\"", &["line 5", "there is no scenario 'rt-emigrate'", "expected one of"]),
        ("\"rt-migrate\"", "\"app.json\"", &["cannot read /no/such/folder/app.json"]),
        ("\"2007-passive\"", "\"2006\"", &["line 5", "there is no policy '2006'", "2007-passive"]),
        ("rounds = 3", "costs = \"x.toml\"", &["expected one of host, smp2007", "cannot read /no/such/folder/x.toml"]),
        ("rounds = 3", "machine = \"2x8\"", &["line 5", "--cpus 2 contradicts --machine 2x8, which has 16"]),
        ("rounds = 3", "machine = \"x.toml\"", &["SOCKETSxCORES", "cannot read /no/such/folder/x.toml"]),
        ("[\"swarm\"]", "[\"swarm\"]\ncpus = 3", &["line 11", "swarm", "--cpus contradicts"]),
        ("\"migrate\"", "\"a b\"", &["expected letters, digits"]),
        ("name", "fails = [\"limit\"]\nname", &["'limit' always fails"]),
        ("[[runs]]", "[[limits]]\nmetric = \"speed\"\nabove = 1\n[[runs]]", &["line 5", "no metric 'speed'"]),
    ] {
        let why = refused(&MIGRATE.replacen(from, to, 1));
        for word in words {
            assert!(why.contains(word), "{to}: '{word}' is not in: {why}");
        }
    }
    assert!(refused("name = \"none\"").contains("missing field `runs`"));
    assert!(refused("name = \"none\"\nruns = []").contains("nothing to run"));
}

#[test]
fn a_product_without_bound_is_refused() {
    let many: Vec<String> = (1..=1_000).map(|n| n.to_string()).collect();
    let text = MIGRATE.replace("cpus = [2, 4]", &format!("cpus = [{0}]\nthreads = [{0}]", many.join(",")));
    assert!(refused(&text).contains("more than 100000 combinations"));
}
