//! Text on HTML pages.

/// The text as it stands in a page, also inside of an attribute in double quotes.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
