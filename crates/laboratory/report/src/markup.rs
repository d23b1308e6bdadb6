//! Writes a tree of elements as HTML or SVG; everything that is not ours is escaped.

use crate::words::{sanitized, with_units_held};

#[derive(Clone, Debug)]
pub(crate) struct MarkupElement {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<MarkupNode>,
}

#[derive(Clone, Debug)]
enum MarkupNode {
    Element(MarkupElement),
    Text(String),
    /// Style sheets, which are not escaped like text.
    Ours(&'static str),
}

/// HTML elements without an end tag.
const VOID: [&str; 4] = ["br", "input", "link", "meta"];

/// SVG elements that may be self-closing.
const SHAPES: [&str; 4] = ["circle", "line", "path", "rect"];

pub(crate) fn element(name: &'static str) -> MarkupElement {
    MarkupElement { name, attributes: Vec::new(), children: Vec::new() }
}

impl MarkupElement {
    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    pub(crate) fn text(mut self, text: impl ToString) -> Self {
        self.children.push(MarkupNode::Text(text.to_string()));
        self
    }

    /// Adds text whose parts between backticks are code, and keeps units with their numbers.
    pub(crate) fn prose(mut self, text: &str) -> Self {
        for (index, piece) in text.split('`').enumerate() {
            self = match index % 2 {
                0 => self.text(with_units_held(piece)),
                _ => self.child(element("code").text(piece)),
            };
        }
        self
    }

    /// Adds text without escaping, since it is ours.
    pub(crate) fn ours(mut self, text: &'static str) -> Self {
        self.children.push(MarkupNode::Ours(text));
        self
    }

    pub(crate) fn child(mut self, child: Self) -> Self {
        self.children.push(MarkupNode::Element(child));
        self
    }

    pub(crate) fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children.into_iter().map(MarkupNode::Element));
        self
    }

    pub(crate) fn write(&self, out: &mut String) {
        out.push('<');
        out.push_str(self.name);
        for (name, value) in &self.attributes {
            *out += " ";
            *out += name;
            *out += "=\"";
            escape(value, out);
            out.push('"');
        }
        if self.children.is_empty() && SHAPES.contains(&self.name) {
            return out.push_str("/>");
        }
        out.push('>');
        if VOID.contains(&self.name) {
            return;
        }
        for child in &self.children {
            match child {
                MarkupNode::Element(element) => element.write(out),
                MarkupNode::Text(text) => escape(text, out),
                MarkupNode::Ours(text) => out.push_str(text),
            }
        }
        *out += "</";
        *out += self.name;
        out.push('>');
    }
}

impl std::fmt::Display for MarkupElement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

fn escape(text: &str, out: &mut String) {
    for character in sanitized(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_between_backticks() {
        let text = element("p").prose("more `--threads`, or <less>").to_string();
        assert_eq!(text, "<p>more <code>--threads</code>, or &lt;less&gt;</p>");
    }

    #[test]
    fn foreign_text_stays_text() {
        let link = element("a").with("title", "\" onclick='x'").text("</a><script>");
        let wanted = "<a title=\"&quot; onclick=&#39;x&#39;\">&lt;/a&gt;&lt;script&gt;</a>";
        assert_eq!(link.to_string(), wanted);
    }

    #[test]
    fn each_element_ends_as_it_must() {
        let inner = [element("br"), element("td"), element("path").with("d", "M0 0")];
        let row = element("tr").children(inner);
        assert_eq!(row.to_string(), "<tr><br><td></td><path d=\"M0 0\"/></tr>");
    }
}
