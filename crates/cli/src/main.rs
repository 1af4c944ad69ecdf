//! The `entresol` command.

fn main() {
    println!("{}", entresol_cli::embedded::IMAGE.len());
}
