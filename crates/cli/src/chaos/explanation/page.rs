//! The explanation as a page, in one file that needs nothing else.

use std::fmt::Write;

use super::{Explained, Explanation, picture, text};
use crate::chaos::frames::{Frame, own};
use crate::chaos::report;
use crate::chaos::source::{Sources, near};
use crate::chaos::stacks::Stack;
use tool::html::{escape, page};

const STYLE: &str = include_str!("page.css");
/// The number of source lines that are shown before and after one.
const MARGIN: u32 = 4;
/// The most of the program's output that is shown.
const OUTPUT_MAX: usize = 16 << 10;

/// The whole page. Writing to a string cannot fail.
pub fn render(told: &Explanation) -> String {
    let (outcome, mut sources, mut body) = (&told.outcome, Sources::default(), String::new());
    let _ = writeln!(
        body,
        "<p class=\"bad\">{}</p>\n<p>{} threads, {} choices, {} of them not plain; seed {}.</p>\n\
         <p class=\"soft\">One thread runs at a time. At each choice the running thread could be stopped and another one run; a \
         plain choice lets it go on until it waits. The others are the switches: numbered here, and red is what they let run.</p>\n\
         <div class=\"wide\">{}</div>",
        escape(&sentence(&report::name(&outcome.end))),
        outcome.threads,
        outcome.points,
        outcome.switches.len(),
        told.seed,
        picture::timeline(told)
    );
    for (at, one) in told.switches.iter().enumerate() {
        switch(told, at, one, &mut sources, &mut body);
    }
    if let Some(missing) = text::missing(told) {
        let _ = writeln!(body, "<p class=\"soft\">{}</p>", escape(&sentence(&missing)));
    }
    end(told, &mut sources, &mut body);
    page(&told.command, STYLE, &body)
}

/// With a capital letter and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// The thread that was stopped on the left, the one that ran on the right.
fn switch(told: &Explanation, at: usize, one: &Explained, sources: &mut Sources, body: &mut String) {
    let number = at + 1;
    let heading = |words: &str, body: &mut String| {
        let _ = writeln!(body, "<h3>{}</h3>", escape(words));
    };
    let _ = writeln!(body, "<section id=\"switch-{number}\"><h2>Switch {number}</h2>\n<div class=\"sides\"><div>");
    heading(&text::stopped(told, one), body);
    match &one.stopped {
        Some(stack) => frames(&stack.frames, sources, body),
        None => {
            let _ = writeln!(body, "<p>{:#x}</p>", one.switch.place);
        }
    }
    body.push_str("</div><div>\n");
    heading(&text::runs(told, one), body);
    one.from.iter().for_each(|stack| frames(&stack.frames, sources, body));
    let way = told.way(one);
    if !way.is_empty() {
        heading("by way of", body);
        body.push_str("<ul>\n");
        for frame in way {
            let _ = writeln!(body, "<li>{}</li>", escape(&frame.line(sources)));
        }
        body.push_str("</ul>\n");
    }
    let until = text::until(told, one);
    match &one.to {
        Some(stack) if told.shows_end(one) => {
            heading(&format!("to {until}"), body);
            frames(&stack.frames, sources, body);
        }
        _ => heading(&until, body),
    }
    body.push_str("</div></div></section>\n");
}

/// A stack without what is the same everywhere. The source around the innermost place in the program is open; the others can be
/// opened.
fn frames(frames: &[Frame], sources: &mut Sources, body: &mut String) {
    let (frames, mut open) = (own(frames), " open");
    if frames.is_empty() {
        return;
    }
    body.push_str("<ul>\n");
    for frame in frames {
        let around = frame.source.iter().flat_map(|(file, line)| sources.around(file, *line, MARGIN));
        let around: Vec<(u32, String)> = around.collect();
        let Some((file, line)) = frame.source.as_ref().filter(|_| !around.is_empty()) else {
            let _ = writeln!(body, "<li>{}</li>", escape(&frame.line(sources)));
            continue;
        };
        let (name, file) = (escape(frame.name()), escape(near(file)));
        let _ = writeln!(body, "<li><details{open}><summary>{name} at {file}:{line}</summary><pre>");
        for (number, text) in &around {
            let text = format!("{number:5}  {}", escape(text));
            let _ = if number == line { writeln!(body, "<b>{text}</b>") } else { writeln!(body, "{text}") };
        }
        body.push_str("</pre></details></li>\n");
        open = "";
    }
    body.push_str("</ul>\n");
}

/// How the run ended, where its threads are, and what it wrote.
fn end(told: &Explanation, sources: &mut Sources, body: &mut String) {
    let outcome = &told.outcome;
    let _ = writeln!(
        body,
        "<section id=\"end\"><h2>The end</h2>\n<p>{}</p>",
        escape(&sentence(&report::name(&outcome.end)))
    );
    if let Some(circle) = report::circle(outcome) {
        let _ = writeln!(body, "<p class=\"bad\">{}</p>", escape(&circle));
    }
    let race = report::race(outcome);
    if !race.is_empty() {
        let _ = writeln!(body, "<pre>{}</pre>", escape(&race.join("\n")));
    }
    body.push_str("<div class=\"sides\">\n");
    for stack in &outcome.stacks {
        let _ = writeln!(
            body,
            "<div><h3>{}</h3>",
            escape(&format!("{}{}", Stack::title(stack), report::waits(outcome, stack)))
        );
        frames(&stack.frames, sources, body);
        body.push_str("</div>\n");
    }
    body.push_str("</div></section>\n");
    if !outcome.output.is_empty() {
        let shown = &outcome.output[..outcome.output.len().min(OUTPUT_MAX)];
        let _ = writeln!(
            body,
            "<section id=\"output\"><h2>What it wrote</h2>\n<pre>{}</pre></section>",
            escape(&String::from_utf8_lossy(shown))
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::explanation::tests::told;

    #[test]
    fn the_page_is_whole_and_escaped() {
        let page = render(&told());
        for part in [
            "<title>./a&lt;b</title>",
            "<p class=\"bad\">It ended with exit status 3.</p>",
            "<section id=\"switch-1\">",
            "<h3>thread 1 (x &amp; y) is stopped at</h3>",
            "<li>f at /not/there.c:7</li>",
            "<h3>and thread 2 (b) runs from its beginning</h3>",
            "<h3>by way of</h3>\n<ul>\n<li>g at /not/there.c:9</li>",
            "<h3>to its end, after 4 choices</h3>",
            "<pre>1 &lt; 2</pre>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        for element in ["section", "div", "ul", "li", "h3"] {
            let (opened, closed) = (format!("<{element}"), format!("</{element}>"));
            let opened =
                page.matches(&opened).count() - if element == "li" { page.matches("<line").count() } else { 0 };
            assert_eq!(opened, page.matches(&closed).count(), "{element}: {page}");
        }
        assert!(!page.contains("BODY") && !page.contains("http"), "it loads nothing");
    }
}
