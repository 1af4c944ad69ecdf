//! Figures as a table for a terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};

use super::figures::{Figure, Spread};

/// The whole table.
pub(super) fn render(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "unit", "Entresol", "min … max", "native", "min … max", "ratio", "host-stolen"]);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for figure in figures {
        let (entresol, native) = (figure.entresol.as_ref(), figure.native.as_ref());
        table.add_row([
            figure.name.clone(),
            figure.unit.clone(),
            entresol.map_or(if figure.refused { "refused" } else { "failed" }.into(), |spread| number(spread.median)),
            entresol.map_or(String::new(), range),
            native.map_or("refused".into(), |spread| number(spread.median)),
            native.map_or(String::new(), range),
            figure.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
            figure.stolen_ms.map_or(String::new(), |stolen| format!("{stolen:.1} ms")),
        ]);
    }
    table
}

/// About four digits, whatever the size.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn range(spread: &Spread) -> String {
    format!("{} … {}", number(spread.min), number(spread.max))
}
