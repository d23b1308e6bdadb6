//! The page that shows what is in a folder: HTML of a few lines, without script or style, that
//! asks for nothing. Which entries are shown is decided elsewhere.

use wire::text::is_control;

use crate::dates;
use crate::percent;
use crate::questions::{Entry, LISTING_ENTRIES_MAX};

/// A page does not grow much longer than this, however long names are; it says so.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Writes the page of the folder with that path, which is empty for the root.
pub(crate) fn page(folder: &[u8], mut entries: Vec<Entry>, is_whole: bool) -> Vec<u8> {
    entries.sort_unstable_by(|one, other| {
        let folders_first = other.folder.cmp(&one.folder);
        folders_first.then_with(|| one.name.cmp(&other.name))
    });
    let mut page = String::new();
    write_head(&mut page, folder);
    let mut shown = 0;
    for entry in entries.iter().take(LISTING_ENTRIES_MAX) {
        if page.len() >= PAGE_BYTES_MAX {
            break;
        }
        write_entry(&mut page, entry);
        shown += 1;
    }
    page.push_str("</table>\n");
    if shown < entries.len() || !is_whole {
        page.push_str("<p>There is more, which is not shown.</p>\n");
    }
    page.push_str("</body>\n</html>\n");
    page.into_bytes()
}

fn write_head(page: &mut String, folder: &[u8]) {
    page.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n<title>Index of /");
    let slash = if folder.is_empty() { "" } else { "/" };
    let mut title = String::new();
    escape(&mut title, folder);
    page.push_str(&title);
    page.push_str(slash);
    page.push_str("</title>\n</head>\n<body>\n<h1>Index of /");
    page.push_str(&title);
    page.push_str(slash);
    page.push_str("</h1>\n<table>\n");
    page.push_str("<tr><th>Name</th><th>Size</th><th>Modified (UTC)</th></tr>\n");
    if !folder.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
}

fn write_entry(page: &mut String, entry: &Entry) {
    let slash = if entry.folder { "/" } else { "" };
    // With `./` before it no name can be read as the scheme of another address.
    page.push_str("<tr><td><a href=\"./");
    let mut address = Vec::new();
    percent::encode(&entry.name, &mut address);
    page.extend(address.into_iter().map(char::from));
    page.push_str(slash);
    page.push_str("\">");
    escape(page, &entry.name);
    page.push_str(slash);
    page.push_str("</a></td><td align=\"right\">");
    if !entry.folder {
        page.push_str(&entry.bytes.to_string());
    }
    page.push_str("</td><td>");
    page.push_str(minute(&dates::written(entry.modified).to_string()));
    page.push_str("</td></tr>\n");
}

/// `06 Nov 1994 08:49` of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn minute(date: &str) -> &str {
    date.get(5..22).unwrap_or(date)
}

/// Appends a name as text of HTML. What is no UTF-8, or does not stand in a line, becomes U+FFFD.
fn escape(page: &mut String, name: &[u8]) {
    for character in String::from_utf8_lossy(name).chars() {
        match character {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            character if is_control(character) => page.push('\u{fffd}'),
            character => page.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn entry(name: &[u8], folder: bool) -> Entry {
        Entry {
            name: name.to_vec(),
            folder,
            bytes: 1234,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
        }
    }

    fn page_of(folder: &[u8], entries: Vec<Entry>) -> String {
        String::from_utf8(page(folder, entries, true)).expect("a page is text")
    }

    #[test]
    fn folders_come_first_and_names_in_order() {
        let entries = vec![
            entry(b"b", false),
            entry(b"a", false),
            entry(b"z", true),
            entry(b"y", true),
        ];
        let page = page_of(b"some/folder", entries);
        let places: Vec<_> = ["../", "./y/", "./z/", "./a", "./b"]
            .iter()
            .map(|address| page.find(&format!("href=\"{address}\"")).expect("an entry"))
            .collect();
        assert!(places.is_sorted(), "{page}");
        assert!(page.contains("<title>Index of /some/folder/</title>"));
        assert!(page.contains("1234</td><td>06 Nov 1994 08:49</td>"));
    }

    #[test]
    fn the_root_has_no_parent() {
        let page = page_of(b"", Vec::new());
        assert!(page.contains("<h1>Index of /</h1>") && !page.contains("../"));
    }

    #[test]
    fn names_are_text() {
        let name = b"<script>alert('1')</script>&\"\n\xff";
        let page = page_of(
            name,
            vec![entry(name, false), entry(b"javascript:alert(1)", false)],
        );
        let safe = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;\u{fffd}\u{fffd}";
        assert_eq!(page.matches(safe).count(), 3, "{page}");
        assert!(!page.contains("<script") && !page.contains("='"));
        assert!(
            page.contains("href=\"./%3Cscript%3Ealert%28%271%27%29%3C%2Fscript%3E%26%22%0A%FF\"")
        );
        assert!(page.contains("href=\"./javascript%3Aalert%281%29\""));
    }

    #[test]
    fn pages_are_bounded_and_say_so() {
        let many = |count: usize, name: &[u8]| page_of(b"", vec![entry(name, false); count]);
        let rows = |page: &str| page.matches("<a href").count();
        let full = many(LISTING_ENTRIES_MAX, b"a");
        assert_eq!(rows(&full), LISTING_ENTRIES_MAX);
        assert!(!full.contains("not shown"));
        let over = many(LISTING_ENTRIES_MAX + 1, b"a");
        assert_eq!(rows(&over), LISTING_ENTRIES_MAX);
        assert!(over.contains("not shown"));
        let long = many(LISTING_ENTRIES_MAX, &[b'&'; 255]);
        assert!(long.len() < PAGE_BYTES_MAX + 4096 && long.contains("not shown"));
    }
}
