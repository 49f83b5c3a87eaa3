//! Rust source as tokens, and the paths that are written in it.

use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Path,
    /// Any other single character that is not white space.
    Sign(char),
}

/// Words and signs of Rust source, with the line of each. Comments, strings and characters are left out.
fn tokens(source: &str) -> Vec<(usize, Token)> {
    let chars: Vec<char> = source.chars().collect();
    let (mut at, mut line, mut out) = (0, 1, Vec::new());
    let word = |c: char| c.is_alphanumeric() || c == '_';
    while at < chars.len() {
        let start = at;
        match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => {
                at = find(&chars, at, &['\n']);
            }
            '/' if chars.get(at + 1) == Some(&'*') => at = end_of_comment(&chars, at),
            '"' => at = end_of_string(&chars, at + 1, '"'),
            'r' | 'b' | 'c' if let Some(end) = end_of_prefixed(&chars, at) => at = end,
            '\'' => at = end_of_char_or_lifetime(&chars, at),
            ':' if chars.get(at + 1) == Some(&':') => {
                out.push((line, Token::Path));
                at += 2;
            }
            c if word(c) => {
                while at < chars.len() && word(chars[at]) {
                    at += 1;
                }
                out.push((line, Token::Word(chars[start..at].iter().collect())));
            }
            c => {
                if !c.is_whitespace() {
                    out.push((line, Token::Sign(c)));
                }
                at += 1;
            }
        }
        line += chars[start..at.min(chars.len())].iter().filter(|&&c| c == '\n').count();
    }
    out
}

/// Where `what` begins at or behind `at`, or the end.
fn find(chars: &[char], at: usize, what: &[char]) -> usize {
    let found = chars[at..].windows(what.len()).position(|window| window == what);
    found.map_or(chars.len(), |found| at + found)
}

/// Behind the block comment that begins at `at`; they nest.
fn end_of_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Behind the string whose content begins at `at`.
fn end_of_string(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// Behind a literal such as `b"…"`, `r#"…"#` or `b'…'` that begins at `at`; `None` if none does.
fn end_of_prefixed(chars: &[char], mut at: usize) -> Option<usize> {
    if at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_') {
        return None;
    }
    let prefix = chars[at..].iter().take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let raw = chars[at..at + prefix].contains(&'r');
    at += prefix;
    let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
    match chars.get(at + hashes)? {
        '"' if raw => {
            let end: Vec<char> = std::iter::once('"').chain(vec!['#'; hashes]).collect();
            Some((find(chars, at + hashes + 1, &end) + end.len()).min(chars.len()))
        }
        '"' if hashes == 0 => Some(end_of_string(chars, at + 1, '"')),
        '\'' if hashes == 0 && !raw => Some(end_of_string(chars, at + 1, '\'')),
        _ => None,
    }
}

/// Behind the character literal at `at`, or behind the quote of a lifetime.
fn end_of_char_or_lifetime(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => end_of_string(chars, at + 1, '\''),
        (_, Some('\'')) => at + 3,
        _ => at + 1,
    }
}

/// One source file, taken apart.
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    /// Module path below the crate, e.g. `["log", "commit"]`; empty for `lib.rs`.
    pub(crate) module: Vec<String>,
    tokens: Vec<(usize, Token)>,
    pub(crate) lines: usize,
}

impl Source {
    pub(crate) fn new(file: &Path, text: &str) -> Self {
        let mut module: Vec<String> =
            file.with_extension("").iter().map(|part| part.to_string_lossy().into()).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
            module.pop();
        }
        Self { file: file.into(), module, tokens: tokens(text), lines: text.lines().count() }
    }

    fn word(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at) {
            Some((_, Token::Word(word))) => Some(word),
            _ => None,
        }
    }

    fn is(&self, at: usize, sign: char) -> bool {
        self.tokens.get(at).is_some_and(|(_, token)| *token == Token::Sign(sign))
    }

    fn is_path(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|(_, token)| *token == Token::Path)
    }

    /// Whether the item's attributes that begin at `at` have `cfg(test)` or
    /// `cfg(all(test, …))`, and where the item itself begins.
    fn attributes(&self, mut at: usize) -> (bool, usize) {
        let mut test_only = false;
        while self.is(at, '#') && self.is(at + 1, '[') {
            let end = self.close(at + 1, '[', ']');
            let words: Vec<&str> = (at + 2..end).filter_map(|at| self.word(at)).collect();
            test_only |= matches!(words[..], ["cfg", "test"] | ["cfg", "all", "test", ..]);
            at = end;
        }
        (test_only, at)
    }

    /// Behind the bracket that closes the one at `at`.
    fn close(&self, mut at: usize, open: char, close: char) -> usize {
        let mut depth = 0;
        while at < self.tokens.len() {
            if self.is(at, open) {
                depth += 1;
            } else if self.is(at, close) {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            at += 1;
        }
        at
    }

    /// Behind the item that begins at `at`: its body, or its semicolon.
    fn end_of_item(&self, mut at: usize) -> usize {
        while at < self.tokens.len() {
            at = match self.tokens[at].1 {
                Token::Sign('{') => return self.close(at, '{', '}'),
                Token::Sign(';') => return at + 1,
                // The semicolon of `[u8; 3]` ends no item.
                Token::Sign('[') => self.close(at, '[', ']'),
                _ => at + 1,
            };
        }
        at
    }

    /// The files of modules that are declared here for tests only, as module paths.
    pub(crate) fn test_modules(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for at in 0..self.tokens.len() {
            let (true, item) = self.attributes(at) else { continue };
            let item = (item..item + 2).find(|&at| self.word(at) == Some("mod"));
            if let Some(name) = item.and_then(|at| self.word(at + 1)) {
                found.push(self.module.iter().cloned().chain([name.into()]).collect());
            }
        }
        found
    }

    /// Every path that is written here, outside of what is for tests only: resolved from the crate's root if it begins with
    /// `crate`, `self` or `super` (then its first part is `crate`), and as it stands if not.
    pub(crate) fn paths(&self) -> Vec<(usize, Vec<String>)> {
        let (mut out, mut at) = (Vec::new(), 0);
        // Inline modules that are open here, with the place behind each.
        let mut open: Vec<(String, usize)> = Vec::new();
        while at < self.tokens.len() {
            open.retain(|(_, end)| at < *end);
            if let (true, item) = self.attributes(at) {
                at = self.end_of_item(item);
                continue;
            }
            if self.word(at) == Some("mod") && self.is(at + 2, '{') {
                if let Some(name) = self.word(at + 1) {
                    open.push((name.into(), self.close(at + 2, '{', '}')));
                }
                at += 3;
                continue;
            }
            let starts = self.word(at).is_some() && !(at > 0 && self.is_path(at - 1));
            if !starts {
                at += 1;
                continue;
            }
            let module: Vec<String> = self
                .module
                .iter()
                .cloned()
                .chain(open.iter().map(|(name, _)| name.clone()))
                .collect();
            at = self.path(at, Vec::new(), &module, &mut out);
        }
        out
    }

    /// Reads the path, or the tree of a `use`, at `at` behind `before`; gives the place behind it.
    fn path(
        &self,
        mut at: usize,
        mut before: Vec<String>,
        module: &[String],
        out: &mut Vec<(usize, Vec<String>)>,
    ) -> usize {
        let line = self.tokens[at].0;
        loop {
            if let Some(word) = self.word(at) {
                step(&mut before, word, module);
                at += 1;
            } else if self.is(at, '{') {
                let end = self.close(at, '{', '}');
                at += 1;
                while at < end - 1 {
                    if self.word(at).is_some() || self.is(at, '{') {
                        at = self.path(at, before.clone(), module, out);
                        if self.word(at) == Some("as") {
                            at += 2;
                        }
                    } else {
                        at += 1;
                    }
                }
                return end;
            } else {
                // `*`, or the generics behind a turbofish.
                break;
            }
            if !self.is_path(at) {
                break;
            }
            at += 1;
        }
        out.push((line, before));
        at
    }
}

/// Adds one part to a path, from the crate's root where it is known.
fn step(path: &mut Vec<String>, word: &str, module: &[String]) {
    let rooted = |path: &mut Vec<String>| {
        path.push("crate".into());
        path.extend_from_slice(module);
    };
    match word {
        "self" if path.is_empty() => rooted(path),
        "self" => {}
        "super" => {
            if path.is_empty() {
                rooted(path);
            }
            if path.len() > 1 {
                path.pop();
            }
        }
        _ => path.push(word.into()),
    }
}
