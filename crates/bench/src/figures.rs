//! Many runs' values of one figure.

use serde::Serialize;

/// Least, middle and largest of many runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The middle one; of an even number, the mean of the two middle ones.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) };
        Some(Self { min, median, max })
    }
}

/// One line of the table, one element of the file.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The measured figures.
    pub name: String,
    /// In what.
    pub unit: String,
    /// How often on each side.
    pub runs: usize,
    /// Under Entresol; null if that failed, which fails the whole bench unless the machine refuses it to everybody.
    pub entresol: Option<Spread>,
    /// Natively; null where the host refused.
    pub native: Option<Spread>,
    /// Median under Entresol divided by the native one.
    pub ratio: Option<f64>,
    /// Median time that the host took from the carriers during a run, in milliseconds.
    #[serde(skip)]
    pub stolen_ms: Option<f64>,
    /// Both sides gave the same reason for having no figure: it cannot be measured on this machine.
    #[serde(skip)]
    pub refused: bool,
    /// The messages of the sides without a figure.
    #[serde(skip)]
    pub complaints: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn the_file_has_the_promised_form() {
        let mut figure = Figure {
            name: "startup".into(),
            unit: "ms".into(),
            runs: 3,
            entresol: Some(Spread { min: 1.0, median: 2.0, max: 3.0 }),
            native: None,
            ratio: None,
            stolen_ms: Some(1.0),
            refused: false,
            complaints: vec!["no".into()],
        };
        let text = serde_json::to_string(&figure).unwrap();
        let entresol = r#""entresol":{"min":1.0,"median":2.0,"max":3.0}"#;
        let head = r#"{"name":"startup","unit":"ms","runs":3,"#;
        assert_eq!(text, format!(r#"{head}{entresol},"native":null,"ratio":null}}"#));
        figure.native = Some(Spread { min: 0.5, median: 0.5, max: 0.5 });
        figure.ratio = Some(4.0);
        let text = serde_json::to_string(&figure).unwrap();
        assert!(text.ends_with(r#""native":{"min":0.5,"median":0.5,"max":0.5},"ratio":4.0}"#), "{text}");
    }
}
