//! Text on HTML pages.

/// The text escaped for a page, also inside an attribute in double quotes.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
