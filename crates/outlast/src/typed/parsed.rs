//! Types as a schema's text has them: the sizes and places that a walk needs, without the program.

use crate::collections::ReadRaw;

/// A type by its number in [`Types`].
pub(super) type TypeId = usize;

/// Levels of types within types: no program's schema has as many.
const NESTED_MAX: u32 = 200;

/// The numbers that persist, and their bytes.
const SCALARS: [(&str, u64); 12] = [
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("u128", 16),
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("i128", 16),
    ("f32", 4),
    ("f64", 8),
];

/// All types that a root leads to.
pub(super) struct Types {
    all: Vec<Described>,
    pub root: TypeId,
    /// The root's type as the schema writes it.
    pub root_text: String,
}

/// A type, its size, and whether a walk has anything to see in its values.
pub(super) struct Described {
    pub form: Form,
    pub bytes: u64,
    pub is_walked: bool,
}

/// How a type is made.
pub(super) enum Form {
    /// Every bit pattern is a value.
    Plain,
    /// Some bit patterns are.
    Pattern(Pattern),
    Array {
        item: TypeId,
        len: u64,
    },
    Struct {
        fields: Vec<Member>,
    },
    /// An offset, or 0 for none where that may be.
    Handle {
        to: Target,
        is_optional: bool,
    },
}

/// A field.
pub(super) struct Member {
    pub at: u64,
    pub name: String,
    pub of: TypeId,
}

/// The target of an offset.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Pointer(TypeId),
    Box(TypeId),
    Vector(TypeId),
    Queue(TypeId),
    Text,
    Bytes,
    Map { structure: Structure, key: Key, value: TypeId },
}

#[derive(Clone, Copy)]
pub(super) enum Structure {
    Hash,
    Ordered,
    RedBlack,
}

/// How a key's bytes are shown.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// Highest byte first.
    Unsigned(u64),
    /// The same with the sign's bit turned round.
    Signed(u64),
    Text,
    Other(Option<u64>),
}

/// The bit patterns that are values.
pub(super) struct Pattern {
    pub name: String,
    is_signed: bool,
    values: Vec<i128>,
}

impl Pattern {
    /// Whether these bytes, with the lowest first, are a value.
    pub fn has(&self, bytes: &[u8]) -> bool {
        let mut word = [0; 16];
        let is_negative = self.is_signed && bytes.last().is_some_and(|last| last >> 7 == 1);
        word.fill(if is_negative { 0xFF } else { 0 });
        word[..bytes.len()].copy_from_slice(bytes);
        let value = i128::from_le_bytes(word);
        match (&self.values[..], self.name.as_str()) {
            ([], "bool") => (0..=1).contains(&value),
            ([], "char") => u32::try_from(value).is_ok_and(|value| char::from_u32(value).is_some()),
            // A program's own pattern names no values.
            ([], _) => true,
            (values, _) => values.contains(&value),
        }
    }
}

impl Types {
    /// Reads the text of a schema; `None` where it has another form than [`Schema`](super::Schema) gives it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = split(text, "; ")?.into_iter();
        let root_text = parts.next()?;
        let mut definitions = Vec::new();
        for part in parts {
            let (title, body) = part.split_once(" { ")?;
            definitions.push((title, body.strip_suffix(" }")?));
        }
        let mut parser = Parser {
            titles: definitions.iter().map(|(title, _)| *title).collect(),
            all: Vec::new(),
            nested: 0,
        };
        // Structs have the first numbers: they name each other.
        for _ in &definitions {
            parser.add(Form::Struct { fields: Vec::new() }, 0);
        }
        for (id, (_, body)) in definitions.iter().enumerate() {
            let fields = parser.fields(body)?;
            parser.all[id].form = Form::Struct { fields };
        }
        let root = parser.whole(root_text)?;
        let mut types = Self { all: parser.all, root, root_text: root_text.to_owned() };
        let mut is_measured = vec![false; types.all.len()];
        for id in 0..types.all.len() {
            types.measure(id, &mut is_measured, 0)?;
        }
        Some(types)
    }

    pub fn get(&self, id: TypeId) -> &Described {
        &self.all[id]
    }

    /// Works out the size of a type and whether its values are walked.
    fn measure(&mut self, id: TypeId, is_measured: &mut [bool], level: u32) -> Option<()> {
        if is_measured[id] {
            return Some(());
        }
        if level > NESTED_MAX {
            return None;
        }
        let inner: Vec<TypeId> = match &self.all[id].form {
            Form::Array { item, .. } => vec![*item],
            Form::Struct { fields } => fields.iter().map(|field| field.of).collect(),
            Form::Plain | Form::Pattern(_) | Form::Handle { .. } => Vec::new(),
        };
        for inner in &inner {
            self.measure(*inner, is_measured, level + 1)?;
        }
        let (bytes, is_walked) = match &self.all[id].form {
            Form::Plain => (self.all[id].bytes, false),
            Form::Pattern(_) | Form::Handle { .. } => (self.all[id].bytes, true),
            Form::Array { item, len } => {
                (self.all[*item].bytes.checked_mul(*len)?, self.all[*item].is_walked)
            }
            Form::Struct { fields } => {
                let end = |field: &Member| field.at.checked_add(self.all[field.of].bytes);
                let ends: Option<Vec<u64>> = fields.iter().map(end).collect();
                let is_walked = fields.iter().any(|field| self.all[field.of].is_walked);
                (ends?.into_iter().max().unwrap_or(0), is_walked)
            }
        };
        (self.all[id].bytes, self.all[id].is_walked) = (bytes, is_walked);
        is_measured[id] = true;
        Some(())
    }
}

struct Parser<'t> {
    titles: Vec<&'t str>,
    all: Vec<Described>,
    nested: u32,
}

impl<'t> Parser<'t> {
    fn add(&mut self, form: Form, bytes: u64) -> TypeId {
        self.all.push(Described { form, bytes, is_walked: false });
        self.all.len() - 1
    }

    fn fields(&mut self, body: &'t str) -> Option<Vec<Member>> {
        let mut fields = Vec::new();
        for field in split(body, ", ")? {
            let (place, of) = field.split_once(": ")?;
            let (at, name) = place.split_once(' ')?;
            let of = self.whole(of)?;
            fields.push(Member { at: at.parse().ok()?, name: name.to_owned(), of });
        }
        Some(fields)
    }

    /// The type that all of the text is.
    fn whole(&mut self, text: &'t str) -> Option<TypeId> {
        let (id, rest) = self.of(text)?;
        rest.is_empty().then_some(id)
    }

    /// The type that a text begins with, and the rest of the text.
    fn of(&mut self, text: &'t str) -> Option<(TypeId, &'t str)> {
        if self.nested > NESTED_MAX {
            return None;
        }
        self.nested += 1;
        let found = self.of_nested(text);
        self.nested -= 1;
        found
    }

    fn of_nested(&mut self, text: &'t str) -> Option<(TypeId, &'t str)> {
        let is_title = |title: &&str| text.strip_prefix(*title).is_some_and(ends_a_word);
        let titled = (0..self.titles.len()).filter(|id| is_title(&self.titles[*id]));
        if let Some(id) = titled.max_by_key(|id| self.titles[*id].len()) {
            return Some((id, &text[self.titles[id].len()..]));
        }
        if let Some(rest) = text.strip_prefix("()") {
            return Some((self.add(Form::Plain, 0), rest));
        }
        if let Some(inner) = text.strip_prefix('[') {
            let (item, rest) = self.of(inner)?;
            let (len, rest) = rest.strip_prefix("; ")?.split_once(']')?;
            let form = Form::Array { item, len: len.parse().ok()? };
            return Some((self.add(form, 0), rest));
        }
        let (is_optional, of_handle) = match text.strip_prefix("optional ") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if let Some((to, rest)) = self.target(of_handle)? {
            return Some((self.add(Form::Handle { to, is_optional }, 8), rest));
        }
        if is_optional {
            return None;
        }
        if let Some((scalar, rest)) = scalar(text) {
            return Some((self.add(Form::Plain, scalar), rest));
        }
        self.pattern(text)
    }

    /// The target of a handle that a text begins with, if it begins with one.
    fn target(&mut self, text: &'t str) -> Option<Option<(Target, &'t str)>> {
        let mut of = |word: &str, target: fn(TypeId) -> Target| {
            let inner = text.strip_prefix(word)?;
            Some(self.of(inner).map(|(id, rest)| (target(id), rest)))
        };
        let one = of("pointer to ", Target::Pointer)
            .or_else(|| of("box of ", Target::Box))
            .or_else(|| of("vector of ", Target::Vector))
            .or_else(|| of("queue of ", Target::Queue));
        if let Some(found) = one {
            return found.map(Some);
        }
        for (word, structure) in [
            ("hash map of ", Structure::Hash),
            ("ordered map of ", Structure::Ordered),
            ("red-black map of ", Structure::RedBlack),
        ] {
            if let Some(inner) = text.strip_prefix(word) {
                let (key, rest) = key(inner)?;
                let (value, rest) = self.of(rest.strip_prefix(" to ")?)?;
                return Some(Some((Target::Map { structure, key, value }, rest)));
            }
        }
        let word = |word: &str| text.strip_prefix(word).filter(|rest| ends_a_word(rest));
        if let Some(rest) = word("text").filter(|rest| !rest.starts_with(" as ")) {
            return Some(Some((Target::Text, rest)));
        }
        if let Some(rest) = word("bytes").filter(|rest| !rest.starts_with(" as ")) {
            return Some(Some((Target::Bytes, rest)));
        }
        Some(None)
    }

    fn pattern(&mut self, text: &'t str) -> Option<(TypeId, &'t str)> {
        let (name, rest) = text.split_once(" as ")?;
        let is_signed = rest.starts_with('i');
        let (bytes, rest) = scalar(rest)?;
        let mut values = Vec::new();
        let mut behind = rest;
        if let Some(list) = rest.strip_prefix(" (") {
            let (list, rest) = list.split_once(')')?;
            for row in list.split(", ") {
                values.push(row.split_once(' ')?.0.parse().ok()?);
            }
            behind = rest;
        }
        let pattern = Pattern { name: name.to_owned(), is_signed, values };
        Some((self.add(Form::Pattern(pattern), bytes), behind))
    }
}

/// Whether a word ends before this text.
fn ends_a_word(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '#')
}

/// The bytes of the number type that a text begins with.
fn scalar(text: &str) -> Option<(u64, &str)> {
    SCALARS.iter().find_map(|(name, bytes)| {
        let rest = text.strip_prefix(name).filter(|rest| ends_a_word(rest))?;
        (!rest.starts_with(" as ")).then_some((*bytes, rest))
    })
}

/// The type of keys that a text begins with.
fn key(text: &str) -> Option<(Key, &str)> {
    if let Some(rest) = text.strip_prefix("text") {
        return Some((Key::Text, rest));
    }
    if let Some(rest) = text.strip_prefix("bytes") {
        return Some((Key::Other(None), rest));
    }
    if let Some(rest) = text.strip_prefix("[u8; ") {
        let (len, rest) = rest.split_once(']')?;
        return Some((Key::Other(Some(len.parse().ok()?)), rest));
    }
    if let Some(mut rest) = text.strip_prefix('(') {
        let mut bytes = 0;
        loop {
            let (part, behind) = key(rest)?;
            bytes += part.bytes()?;
            match (behind.strip_prefix(", "), behind.strip_prefix(')')) {
                (Some(behind), _) => rest = behind,
                (None, Some(behind)) => return Some((Key::Other(Some(bytes)), behind)),
                (None, None) => return None,
            }
        }
    }
    let (bytes, rest) = scalar(text)?;
    match text.as_bytes()[0] {
        b'u' => Some((Key::Unsigned(bytes), rest)),
        b'i' => Some((Key::Signed(bytes), rest)),
        _ => None,
    }
}

impl Key {
    /// The bytes of each key, where all have the same.
    fn bytes(self) -> Option<u64> {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) => Some(bytes),
            Self::Other(bytes) => bytes,
            Self::Text => None,
        }
    }

    /// The number that a key is, where keys are numbers. A red-black tree tells words.
    pub fn number(self, key: &[u8]) -> Option<i128> {
        let (Self::Unsigned(bytes) | Self::Signed(bytes)) = self else { return None };
        let own = &key[key.len().checked_sub(bytes as usize)?..];
        let unsigned = own.iter().fold(0u128, |word, byte| word << 8 | u128::from(*byte));
        match self {
            Self::Signed(16) => Some((unsigned ^ 1 << 127) as i128),
            Self::Signed(bytes) => Some(unsigned as i128 - (1 << (8 * bytes - 1))),
            _ => i128::try_from(unsigned).ok(),
        }
    }

    /// Whether these bytes are a key.
    pub fn has(self, key: &[u8]) -> bool {
        match self {
            Self::Text => std::str::from_utf8(key).is_ok(),
            Self::Other(Some(bytes)) => key.len() as u64 == bytes,
            _ => true,
        }
    }
}

/// Splits a text where no bracket is open.
fn split<'t>(text: &'t str, separator: &str) -> Option<Vec<&'t str>> {
    let (mut parts, mut start, mut open) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' | '(' | '[' => open += 1,
            '}' | ')' | ']' => open -= 1,
            _ if open == 0 && at >= start && text[at..].starts_with(separator) => {
                parts.push(&text[start..at]);
                start = at + separator.len();
            }
            _ => {}
        }
        if open < 0 {
            return None;
        }
    }
    parts.push(&text[start..]);
    (open == 0).then_some(parts)
}

/// Reads `len` bytes, of which the last is looked at first: a damaged length must not cost that much memory.
pub(super) fn load_vec(read: &mut dyn ReadRaw, at: crate::PoolOffset, len: u64) -> Option<Vec<u8>> {
    let last = at.0.checked_add(len.checked_sub(1)?)?;
    if !read.read(crate::PoolOffset(last), &mut [0]) {
        return None;
    }
    let mut bytes = vec![0; len as usize];
    read.read(at, &mut bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::{
        Checked, PBTreeMap, PBox, PHashMap, PPtr, PQueue, PRbMap, PVec, Persist, Schema,
    };

    fn parsed<'id, T: Persist<'id>>() -> Types {
        let text = Schema::of::<T>().to_string();
        let types = Types::parse(&text).unwrap_or_else(|| panic!("not read: {text}"));
        assert_eq!(types.get(types.root).bytes, T::SIZE as u64, "{text}");
        types
    }

    #[test]
    fn every_type_of_a_schema_is_read_with_its_size() {
        assert!(!parsed::<u128>().get(0).is_walked);
        parsed::<[[i16; 3]; 4]>();
        parsed::<PVec<'_, [u8; 7]>>();
        parsed::<PQueue<'_, PBox<'_, f64>>>();
        parsed::<[Option<PPtr<'_, PVec<'_, u64>>>; 2]>();
        parsed::<PHashMap<'_, str, u64>>();
        parsed::<PHashMap<'_, str, ()>>();
        parsed::<[(); 3]>();
        parsed::<PHashMap<'_, [u8], PHashMap<'_, (i8, [u8; 3]), u64>>>();
        parsed::<PBTreeMap<'_, (u32, u64, u16), PBox<'_, u32>>>();
        parsed::<PRbMap<'_, i64, f32>>();
        parsed::<[Checked<bool>; 3]>();
        parsed::<Checked<char>>();
    }

    #[test]
    fn keys_are_shown_as_they_were_given() {
        for number in [-128, -1, 0, 5, 127] {
            let byte = (number as i8 ^ i8::MIN) as u8;
            assert_eq!(Key::Signed(1).number(&[byte]), Some(number));
            // As a red-black tree tells it.
            assert_eq!(Key::Signed(1).number(&[0, 0, byte]), Some(number));
        }
        assert_eq!(Key::Unsigned(2).number(&[1, 2]), Some(258));
        let least = (i128::MIN ^ i128::MIN).to_be_bytes();
        assert_eq!(Key::Signed(16).number(&least), Some(i128::MIN));
    }

    #[test]
    fn patterns_know_their_values() {
        let types = Types::parse("Kind as i8 (-1 Less, 7 More)").unwrap();
        let Form::Pattern(kind) = &types.get(types.root).form else { panic!("a pattern") };
        assert!(kind.has(&[0xFF]) && kind.has(&[7]) && !kind.has(&[0]));
        let types = Types::parse("char as u32").unwrap();
        let Form::Pattern(char) = &types.get(types.root).form else { panic!("a pattern") };
        assert!(char.has(&0x41u32.to_le_bytes()) && !char.has(&0xD800u32.to_le_bytes()));
    }

    #[test]
    fn texts_of_another_form_are_refused() {
        for text in [
            "",
            "word",
            "u65",
            "vector of",
            "[u8; x]",
            "A v1",
            "A v1; A v1 { 0 a: A v1 }",
            "A v1; A v1 { 0 a: B v1 }",
            "A v1; A v1 { a: u8 }",
            "optional u8",
            "hash map of text u8",
            "u8}",
            "[[[[",
        ] {
            assert!(Types::parse(text).is_none(), "{text}");
        }
        assert!(Types::parse(&"box of ".repeat(10_000)).is_none());
    }

    #[test]
    fn structs_that_lead_to_each_other_are_read() {
        let text = "A v1; A v1 { 0 b: box of B v1, 8 n: u8 }; B v1 { 0 a: optional pointer to A v1, 8 all: [A v1; 3] }; text v1 { 0 x: text }";
        let types = Types::parse(text).unwrap();
        assert_eq!(types.get(types.root).bytes, 9);
        assert_eq!(types.get(1).bytes, 35);
        assert!(types.get(types.root).is_walked);
    }
}
