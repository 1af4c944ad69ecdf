//! Pages for a browser, each in one file that needs nothing else.

use std::fmt::Write;

use tool::html::escape;

const STYLE: &str = include_str!("page.css");

/// The whole page; the body is HTML, the title is not.
pub(crate) fn whole(title: &str, body: &str) -> String {
    tool::html::page(title, STYLE, body)
}

/// A paragraph.
pub(crate) fn paragraph(text: &str, body: &mut String) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(body, "<p>{}</p>", escape(text));
}

/// A heading and paragraphs, if there are any.
pub(crate) fn section(title: &str, paragraphs: &[String], body: &mut String) {
    if !paragraphs.is_empty() {
        let _ = writeln!(body, "<h2>{}</h2>", escape(title));
        paragraphs.iter().for_each(|text| paragraph(text, body));
    }
}

/// A table whose first columns are words and the others numbers.
pub(crate) fn table(
    words: &[&str],
    numbers: &[String],
    rows: impl IntoIterator<Item = Vec<String>>,
    body: &mut String,
) {
    let class = |column: usize| if column < words.len() { "" } else { " class=\"number\"" };
    body.push_str("<div class=\"wide\"><table><tr>");
    for (column, head) in words.iter().copied().chain(numbers.iter().map(String::as_str)).enumerate() {
        let _ = write!(body, "<th{}>{}</th>", class(column), escape(head));
    }
    body.push_str("</tr>\n");
    for row in rows {
        body.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(body, "<td{}>{}</td>", class(column), escape(cell));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_escaped() {
        let mut body = String::new();
        section("none", &[], &mut body);
        section("one", &["1 < 2".to_owned()], &mut body);
        table(&["who"], &["what".to_owned()], [vec!["a & b".to_owned(), "7".to_owned()]], &mut body);
        let page = whole("a <title>", &body);
        for part in ["a &lt;title>", "<h2>one</h2>\n<p>1 &lt; 2</p>", "<td>a &amp; b</td><td class=\"number\">7</td>"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("TITLE") && !page.contains("BODY") && !page.contains("http"), "it loads nothing");
    }
}
