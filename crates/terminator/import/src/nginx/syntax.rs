//! Parses nginx's files: words, directives, blocks, and the files they include.

use std::path::{Path, PathBuf};

use crate::convert::glob_fits;
use crate::import::Importer;
use crate::source::{SourceLine, Statement};

/// Directive, with its block if it has one.
#[derive(Clone, Debug)]
pub(super) struct NginxDirective {
    pub(super) written: Statement,
    pub(super) block: Option<Vec<Self>>,
}

/// Maximum depth of included files.
const INCLUDES_MAX: usize = 16;

/// Maximum depth of blocks.
const DEPTH_MAX: usize = 32;

/// Maximum number of directives of all files, more than any real configuration has.
const DIRECTIVES_MAX: usize = 100_000;

/// Element of a file.
#[derive(Debug, PartialEq)]
enum NginxToken {
    Word(String),
    Semicolon,
    Open,
    Close,
}

/// Line and text of an error.
type Misspelling = (usize, String);

/// Tokens of a text.
struct NginxTokens<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    line: usize,
}

impl NginxTokens<'_> {
    fn bump(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn next(&mut self) -> Result<Option<NginxToken>, Misspelling> {
        while let Some(&next) = self.rest.peek() {
            match next {
                '#' => while self.rest.next_if(|one| *one != '\n').is_some() {},
                next if next.is_whitespace() || next == '\u{feff}' => _ = self.bump(),
                _ => break,
            }
        }
        let token = match self.rest.peek() {
            None => return Ok(None),
            Some(';') => NginxToken::Semicolon,
            Some('{') => NginxToken::Open,
            Some('}') => NginxToken::Close,
            Some('"' | '\'') => return self.quoted().map(Some),
            Some(_) => return Ok(Some(self.plain())),
        };
        self.bump();
        Ok(Some(token))
    }

    fn quoted(&mut self) -> Result<NginxToken, Misspelling> {
        let (begin, quote) = (self.line, self.bump());
        let mut word = String::new();
        loop {
            match self.bump() {
                None => return Err((begin, "a quotation mark is not closed".to_owned())),
                next if next == quote => return Ok(NginxToken::Word(word)),
                Some('\\') => self.escaped(&mut word),
                Some(next) => word.push(next),
            }
        }
    }

    fn plain(&mut self) -> NginxToken {
        let mut word = String::new();
        while let Some(next) = self.rest.next_if(|one| !one.is_whitespace() && *one != ';') {
            match next {
                '\\' => self.escaped(&mut word),
                '{' if word.ends_with('$') => {
                    word.push(next);
                    while let Some(inner) = self.rest.next_if(|one| *one != '}' && *one != '\n') {
                        word.push(inner);
                    }
                }
                next => word.push(next),
            }
            if self.rest.peek() == Some(&'{') && !word.ends_with('$') {
                break;
            }
        }
        NginxToken::Word(word)
    }

    fn escaped(&mut self, word: &mut String) {
        match self.bump() {
            Some(quoted @ ('"' | '\'' | '\\')) => word.push(quoted),
            Some(other) => word.extend(['\\', other]),
            None => word.push('\\'),
        }
    }

    /// Skips the program in a block of Lua, up to the end of the block.
    fn pass_program(&mut self) {
        let mut depth = 1;
        while depth > 0 {
            match self.bump() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// Reads files, and those that they include.
pub(super) struct NginxReader {
    /// Folder of the main file, where relative paths begin.
    pub(super) root: PathBuf,
    /// Files that are being read, each included by the one before.
    open: Vec<PathBuf>,
    count: usize,
}

impl NginxReader {
    pub(super) fn new(main: &Path) -> Self {
        let root = main.parent().map(Path::to_owned).unwrap_or_default();
        Self { root, open: Vec::new(), count: 0 }
    }

    /// Reads the directives of a file. Reports a fault if the file is wrong.
    pub(super) fn read(
        &mut self,
        import: &mut Importer<'_>,
        path: &Path,
        from: Option<&SourceLine>,
    ) -> Vec<NginxDirective> {
        if self.open.iter().any(|open| open == path) || self.open.len() >= INCLUDES_MAX {
            let place = from.cloned().unwrap_or_else(|| SourceLine::first_of(path));
            let why = format!("{} includes itself, by others or at once", path.display());
            import.fault(&place, "include", why, "take out one of the includes");
            return Vec::new();
        }
        let Some(text) = import.read(path, from) else { return Vec::new() };
        self.open.push(path.to_owned());
        let first = SourceLine::first_of(path);
        let read = self.parse(import, &text, &first).unwrap_or_else(|(line, why)| {
            let remedy = "`nginx -t` says the same of it, or mend it there";
            import.fault(&first.at(line), "syntax", why, remedy);
            Vec::new()
        });
        self.open.pop();
        read
    }

    fn parse(
        &mut self,
        import: &mut Importer<'_>,
        text: &str,
        first: &SourceLine,
    ) -> Result<Vec<NginxDirective>, Misspelling> {
        let mut tokens = NginxTokens { rest: text.chars().peekable(), line: 1 };
        // Open blocks: the directive of each, and the directives before it.
        let mut outer: Vec<(Statement, Vec<NginxDirective>)> = Vec::new();
        let mut inner = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut begin = 1;
        while let Some(token) = tokens.next()? {
            let line = tokens.line;
            match token {
                NginxToken::Word(word) => {
                    if words.is_empty() {
                        begin = line - word.matches('\n').count();
                    }
                    words.push(word);
                }
                NginxToken::Semicolon => {
                    let written = self.directive(&mut words, first.at(begin));
                    let written = written.ok_or_else(|| (line, unexpected(";")))?;
                    if written.option == "include" && written.words.len() == 1 {
                        inner.append(&mut self.include(import, &written));
                    } else {
                        inner.push(NginxDirective { written, block: None });
                    }
                }
                NginxToken::Open => {
                    let written = self.directive(&mut words, first.at(begin));
                    let written = written.ok_or_else(|| (line, unexpected("{")))?;
                    if written.option.ends_with("_by_lua_block") {
                        tokens.pass_program();
                        inner.push(NginxDirective { written, block: Some(Vec::new()) });
                    } else {
                        outer.push((written, std::mem::take(&mut inner)));
                    }
                }
                NginxToken::Close if !words.is_empty() => return Err(unended(begin, &words)),
                NginxToken::Close => {
                    let (written, before) = outer.pop().ok_or_else(|| (line, unexpected("}")))?;
                    let block = Some(std::mem::replace(&mut inner, before));
                    inner.push(NginxDirective { written, block });
                }
            }
            if outer.len() > DEPTH_MAX {
                return Err((line, "has more than any configuration".to_owned()));
            }
            if self.count > DIRECTIVES_MAX {
                import.fill(&first.at(line), &format!("more than {DIRECTIVES_MAX} directives"));
            }
            // The rest of the including files is skipped too.
            if import.is_full {
                return Ok(Vec::new());
            }
        }
        match outer.pop() {
            Some((written, _)) => {
                Err((tokens.line, format!("`{}` of {} has no `}}`", written.option, written.place)))
            }
            None if !words.is_empty() => Err(unended(begin, &words)),
            None => Ok(inner),
        }
    }

    /// Makes a directive of these words and counts it. `None` if there are no words.
    fn directive(&mut self, words: &mut Vec<String>, place: SourceLine) -> Option<Statement> {
        let mut words = std::mem::take(words).into_iter();
        let option = words.next()?;
        self.count += 1;
        Some(Statement { place, option, words: words.collect() })
    }

    fn include(&mut self, import: &mut Importer<'_>, written: &Statement) -> Vec<NginxDirective> {
        let pattern = self.root.join(written.value());
        let has_signs = written.value().contains(['*', '?', '[']);
        let folder = pattern.parent().map(|folder| folder.to_string_lossy().into_owned());
        let folder = folder.unwrap_or_default();
        if has_signs && (folder.contains(['*', '?']) || pattern.to_string_lossy().contains('[')) {
            let why = "only `*` and `?` are read in a pattern, and not in the name of a folder";
            import.fault(&written.place, "include", why, "an include for each folder or file");
            return Vec::new();
        }
        let paths =
            if has_signs { Self::fitting(import, &pattern) } else { Ok(vec![pattern.clone()]) };
        let paths = paths.unwrap_or_else(|why| {
            let why = format!("{folder} cannot be listed: {why}");
            import.fault(&written.place, "include", why, "import as a user who may read it");
            Vec::new()
        });
        if paths.is_empty() {
            import.mapped(written, "no file has such a name");
        } else {
            import.mapped(written, "the files");
        }
        paths.iter().flat_map(|path| self.read(import, path, Some(&written.place))).collect()
    }

    /// Returns the files whose names match a pattern, which has its wildcards in the last part.
    fn fitting(import: &mut Importer<'_>, pattern: &Path) -> Result<Vec<PathBuf>, String> {
        let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
        let wanted = name(pattern);
        let folder = pattern.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        let listed = match import.files.list(folder) {
            // nginx finds no file there either.
            Err(_) if !import.files.exists(folder) => Vec::new(),
            listed => listed?,
        };
        let listed = listed.into_iter();
        // As in a shell, no wildcard matches a dot at the start.
        let is_seen = |path: &PathBuf| wanted.starts_with('.') || !name(path).starts_with('.');
        Ok(listed.filter(|path| is_seen(path) && glob_fits(&wanted, &name(path))).collect())
    }
}

fn unexpected(sign: &str) -> String {
    format!("`{sign}` without a directive before it")
}

fn unended(line: usize, words: &[String]) -> Misspelling {
    (line, format!("`{}` has no `;` behind it", words.join(" ")))
}
