//! HTML pages, each in one file that needs nothing else.

const PAGE: &str = include_str!("page.html");

/// A whole page. `style` is added to what all pages have; `body` is HTML and `style` CSS, the title is text.
#[must_use]
pub fn page(title: &str, style: &str, body: &str) -> String {
    // One mark after the other, so that none is looked for in what stands there already.
    let split = |text: &'static str, mark| text.split_once(mark).unwrap_or((text, ""));
    let ((head, rest), title) = (split(PAGE, "STYLE"), escape(title));
    let (middle, foot) = split(rest, "BODY");
    [&head.replace("TITLE", &title), style, &middle.replace("TITLE", &title), body, foot].concat()
}

/// The text escaped for a page, also inside an attribute in double quotes.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
