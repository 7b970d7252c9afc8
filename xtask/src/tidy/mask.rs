//! Rust text with comments, and if wanted strings, blanked out, so that a rule sees code and nothing else. Every
//! character keeps its place, so that a position in one form is the same position in the other.

/// What stays readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Code without comments; strings are empty.
    Code,
    /// Code without comments; strings stay.
    CodeAndStrings,
}

/// Blanks out what a rule must not see.
pub(crate) fn mask(text: &str, keep: Keep) -> String {
    let mut masker = Masker {
        input: text.chars().collect(),
        output: String::with_capacity(text.len()),
        at: 0,
        keep,
    };
    while masker.at < masker.input.len() {
        masker.step();
    }
    masker.output
}

/// Whether `word` stands in the line with no identifier character on either side.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_identifier) && !after.is_some_and(is_identifier)
    })
}

pub(crate) fn is_identifier(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

struct Masker {
    input: Vec<char>,
    output: String,
    at: usize,
    keep: Keep,
}

impl Masker {
    fn peek(&self, ahead: usize) -> char {
        self.input.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.blank_while(|masker| masker.peek(0) != '\n'),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.quote(),
            ('r' | 'b' | 'c', _) if !self.follows_identifier() && self.raw_prefix().is_some() => {
                self.raw_string()
            }
            _ => self.copy(1),
        }
    }

    fn follows_identifier(&self) -> bool {
        self.at > 0 && is_identifier(self.input[self.at - 1])
    }

    fn copy(&mut self, count: usize) {
        let end = (self.at + count).min(self.input.len());
        self.output.extend(&self.input[self.at..end]);
        self.at = end;
    }

    fn blank(&mut self, count: usize) {
        let end = (self.at + count).min(self.input.len());
        self.output.extend(
            self.input[self.at..end]
                .iter()
                .map(|character| match character {
                    '\n' => '\n',
                    _ => ' ',
                }),
        );
        self.at = end;
    }

    fn blank_while(&mut self, mut inside: impl FnMut(&Self) -> bool) {
        while self.at < self.input.len() && inside(self) {
            self.blank(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.input.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn content(&mut self, count: usize) {
        match self.keep {
            Keep::Code => self.blank(count),
            Keep::CodeAndStrings => self.copy(count),
        }
    }

    fn string(&mut self) {
        self.copy(1);
        while self.at < self.input.len() {
            match self.peek(0) {
                '"' => return self.copy(1),
                '\\' => self.content(2),
                _ => self.content(1),
            }
        }
    }

    /// A character literal is blanked; a lifetime is code.
    fn quote(&mut self) {
        if self.peek(1) == '\\' {
            self.blank(3);
            self.blank_while(|masker| masker.peek(0) != '\'');
            self.blank(1);
        } else if self.peek(2) == '\'' {
            self.blank(3);
        } else {
            self.copy(1);
        }
    }

    /// How many characters open a raw string here (`r`, `br`, hashes and the quote), and how many of them are hashes.
    fn raw_prefix(&self) -> Option<(usize, usize)> {
        let letters = match (self.peek(0), self.peek(1)) {
            ('r', _) => 1,
            ('b' | 'c', 'r') => 2,
            _ => return None,
        };
        let hashes = (letters..)
            .take_while(|ahead| self.peek(*ahead) == '#')
            .count();
        (self.peek(letters + hashes) == '"').then_some((letters + hashes + 1, hashes))
    }

    fn raw_string(&mut self) {
        let (opening, hashes) = self.raw_prefix().expect("the caller has looked");
        self.copy(opening);
        while self.at < self.input.len() {
            let closes = self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#');
            if closes {
                return self.copy(1 + hashes);
            }
            self.content(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Keep, has_word, mask};

    #[test]
    fn comments_and_strings_are_blanked_and_code_stays() {
        let text = "let a = \"un\\\"safe\"; // unsafe\n/* unsafe /* nested */ unsafe */ code(r#\"un\"safe\"#, '\"', 'x');";
        let masked = mask(text, Keep::Code);
        assert!(!masked.contains("safe"), "{masked}");
        assert!(
            masked.contains("let a") && masked.contains("code("),
            "{masked}"
        );
        assert_eq!(masked.chars().count(), text.chars().count());
        assert_eq!(masked.lines().count(), text.lines().count());
    }

    #[test]
    fn strings_stay_when_asked_for() {
        let masked = mask("f(\"kept\"); // gone", Keep::CodeAndStrings);
        assert!(masked.contains("kept") && !masked.contains("gone"));
    }

    #[test]
    fn lifetimes_and_odd_characters_do_not_confuse_it() {
        let text = "fn f<'a>(x: &'a str, c: char) { c == '\\'' || c == '\\u{1f600}' || c == 'é'; after('\"') }";
        let masked = mask(text, Keep::Code);
        assert!(
            masked.contains("<'a>(x: &'a str") && masked.contains("after("),
            "{masked}"
        );
    }

    #[test]
    fn raw_identifiers_are_code() {
        assert_eq!(
            mask("let r#type = bar; br\"x\"", Keep::Code),
            "let r#type = bar; br\" \""
        );
    }

    #[test]
    fn words_have_edges() {
        assert!(has_word("an unsafe block", "unsafe") && has_word("unsafe{", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe") && !has_word("nounsafe", "unsafe"));
    }
}
