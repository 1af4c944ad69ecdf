//! JSON that knows its lines, so that every complaint can name one. As rt-app's reader (json-c) it takes comments, a
//! comma after the last member, texts in single quotes, and true, false and null in any case. As rt-app's workgen it
//! takes a key twice, and one without a value; where that makes sense is the parser's matter.

use std::fmt;

/// Deeper nesting is a mistake, not a workload.
const DEPTH_MAX: u32 = 32;

/// Something is wrong in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The line, from 1.
    pub line: usize,
    /// The text found, and the one expected.
    pub what: String,
}

impl Wrong {
    pub(super) fn at<T>(line: usize, what: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong { line, what: what.into() })
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Wrong {}

/// A value and the line it begins on.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file: rt-app does events in that order.
    Object(Vec<(String, Node)>),
}

impl Value {
    /// Its kind, for error messages.
    pub fn kind(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Bool(b) => b.to_string(),
            Value::Number(n) => n.to_string(),
            Value::Text(t) => format!("\"{t}\""),
            Value::List(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        }
    }
}

/// The one value of the text.
pub(super) fn parse(text: &str) -> Result<Node, Wrong> {
    let mut p = Parser { rest: text.chars().collect(), at: 0, line: 1 };
    let node = p.value(0)?;
    p.skip()?;
    match p.peek() {
        None => Ok(node),
        Some(c) => p.wrong(&format!("'{c}' after the end: expected nothing more")),
    }
}

struct Parser {
    rest: Vec<char>,
    at: usize,
    line: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn wrong<T>(&self, what: &str) -> Result<T, Wrong> {
        Wrong::at(self.line, what)
    }

    fn found(&self) -> String {
        self.peek().map_or("the end of the file".to_owned(), |c| format!("'{c}'"))
    }

    /// White space and comments.
    fn skip(&mut self) -> Result<(), Wrong> {
        loop {
            match (self.peek(), self.rest.get(self.at + 1)) {
                (Some(c), _) if c.is_whitespace() => drop(self.next()),
                (Some('/'), Some('/')) => while self.next().is_some_and(|c| c != '\n') {},
                (Some('/'), Some('*')) => {
                    let begun = self.line;
                    self.at += 2;
                    while !(self.peek() == Some('*') && self.rest.get(self.at + 1) == Some(&'/')) {
                        if self.next().is_none() {
                            return Wrong::at(begun, "a comment that does not end: expected */");
                        }
                    }
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn expect(&mut self, c: char, what: &str) -> Result<(), Wrong> {
        self.skip()?;
        if self.peek() != Some(c) {
            return self.wrong(&format!("{}: expected {what}", self.found()));
        }
        self.next();
        Ok(())
    }

    fn value(&mut self, depth: u32) -> Result<Node, Wrong> {
        self.skip()?;
        if depth > DEPTH_MAX {
            return self.wrong(&format!("nested too deeply: expected at most {DEPTH_MAX} levels"));
        }
        let line = self.line;
        let value = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some(quote @ ('"' | '\'')) => Value::Text(self.text(quote)?),
            Some(c) if c == '-' || c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_ascii_alphabetic() => self.word()?,
            _ => return self.wrong(&format!("{}: expected a value", self.found())),
        };
        Ok(Node { line, value })
    }

    fn object(&mut self, depth: u32) -> Result<Value, Wrong> {
        self.next();
        let mut members: Vec<(String, Node)> = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some('}') {
                self.next();
                return Ok(Value::Object(members));
            }
            let Some(quote @ ('"' | '\'')) = self.peek() else {
                return self.wrong(&format!("{}: expected a key in quotes", self.found()));
            };
            let line = self.line;
            let key = self.text(quote)?;
            self.skip()?;
            if matches!(self.peek(), Some(',' | '}')) {
                members.push((key, Node { line, value: Value::Null }));
            } else {
                self.expect(':', "a colon after the key")?;
                members.push((key, self.value(depth + 1)?));
            }
            if self.goes_on('}')? {
                return Ok(Value::Object(members));
            }
        }
    }

    fn list(&mut self, depth: u32) -> Result<Value, Wrong> {
        self.next();
        let mut items = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some(']') {
                self.next();
                return Ok(Value::List(items));
            }
            items.push(self.value(depth + 1)?);
            if self.goes_on(']')? {
                return Ok(Value::List(items));
            }
        }
    }

    /// After a member: true at the end, false at a comma.
    fn goes_on(&mut self, end: char) -> Result<bool, Wrong> {
        self.skip()?;
        match self.peek() {
            Some(c) if c == end || c == ',' => {
                self.next();
                Ok(c == end)
            }
            _ => self.wrong(&format!("{}: expected a comma or '{end}'", self.found())),
        }
    }

    fn text(&mut self, quote: char) -> Result<String, Wrong> {
        let begun = self.line;
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                Some('\\') => match self.next() {
                    Some(c @ ('"' | '\'' | '\\' | '/')) => text.push(c),
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    other => {
                        let what = other.map_or("the end of the file".to_owned(), |c| format!("\\{c}"));
                        return self.wrong(&format!("{what} in a text: expected \\\" \\\\ \\/ \\n or \\t"));
                    }
                },
                Some('\n') | None => return Wrong::at(begun, "a text that does not end: expected a closing quote"),
                Some(c) => text.push(c),
            }
        }
    }

    fn number(&mut self) -> Result<Value, Wrong> {
        let from = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit() || "+-.eE".contains(c)) {
            self.at += 1;
        }
        let text: String = self.rest[from..self.at].iter().collect();
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Value::Number(n)),
            _ => self.wrong(&format!("{text}: expected a number")),
        }
    }

    fn word(&mut self) -> Result<Value, Wrong> {
        let from = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric()) {
            self.at += 1;
        }
        let word: String = self.rest[from..self.at].iter().collect();
        match word.to_ascii_lowercase().as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "null" => Ok(Value::Null),
            _ => self.wrong(&format!("{word}: expected a value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_lines() {
        let node = parse("// a comment\n{ \"a\": 1, /* another\n */ \"b\": [true, -2.5e1, \"x\\\"y\"] }").unwrap();
        let Value::Object(members) = node.value else { panic!("an object") };
        assert_eq!((node.line, members[0].1.line, members[1].1.line), (2, 2, 3));
        let Value::List(list) = &members[1].1.value else { panic!("a list") };
        assert_eq!(list[1].value, Value::Number(-25.0));
        assert_eq!(list[2].value, Value::Text("x\"y".to_owned()));
    }

    #[test]
    fn what_json_c_and_workgen_take_is_taken() {
        let node = parse("{ 'a': [1, 2,], \"a\": True, 'b\\'', \"c\", }").unwrap();
        let Value::Object(members) = node.value else { panic!("an object") };
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "a", "b'", "c"]);
        assert!(matches!(&members[0].1.value, Value::List(items) if items.len() == 2));
        assert_eq!((&members[1].1.value, &members[2].1.value), (&Value::Bool(true), &Value::Null));
    }

    #[test]
    fn every_mistake_names_its_line_and_what_was_expected() {
        for (text, line, expected) in [
            ("", 1, "expected a value"),
            ("{\n\"a\" 1}", 2, "expected a colon"),
            ("{\"a\": 1\n\"b\": 2}", 2, "expected a comma or '}'"),
            ("{\"a\": 1,\n,}", 2, "expected a key"),
            ("{\"a\": [1 2]}", 1, "expected a comma or ']'"),
            ("{\"a\": \"x\n\"}", 1, "closing quote"),
            ("{\"a\": yes}", 1, "expected a value"),
            ("{\"a\": 1e999}", 1, "expected a number"),
            ("{} {}", 1, "expected nothing more"),
            ("\n/* x", 2, "expected */"),
            ("{\"a\": \"\\q\"}", 1, "expected \\\""),
        ] {
            let wrong = parse(text).expect_err(text);
            assert_eq!(wrong.line, line, "{text}: {wrong}");
            assert!(wrong.what.contains(expected), "{text}: {wrong}");
        }
        assert!(parse(&"[".repeat(100)).expect_err("too deep").what.contains("nested"));
    }
}
