//! Messages for a wrong name.

/// The known names that a wrong one was meant to be, as a question; where it is like none, all of
/// them.
///
/// ```
/// use outlast_trace::instead_of;
///
/// let policies = ["lru", "plru", "bip", "random"];
/// assert_eq!(instead_of("randon", policies), "did you mean 'random'?");
/// assert_eq!(instead_of("fifo", policies), "there are lru, plru, bip, random");
/// ```
pub fn instead_of<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let near = nearest(name, &known);
    if near.is_empty() {
        return format!("there are {}", known.join(", "));
    }
    let near: Vec<String> = near.iter().map(|name| format!("'{name}'")).collect();
    format!("did you mean {}?", near.join(" or "))
}

/// The known names that differ least from this one, if one letter in three or fewer do. Letters'
/// case is none.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let far = |other: &str| strsim::osa_distance(&name, &other.to_lowercase());
    let Some(least) = known.iter().map(|other| far(other)).min() else { return Vec::new() };
    if least * 3 > name.chars().count() {
        return Vec::new();
    }
    known.iter().copied().filter(|other| far(other) == least).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_where_few_letters_differ() {
        let known = ["undo", "redo", "redo-archapt", "ycsb-a", "ycsb-b"];
        assert_eq!(nearest("Undo ", &known), ["undo"]);
        assert_eq!(nearest("redo-archpat", &known), ["redo-archapt"]);
        assert_eq!(nearest("ycsb-c", &known), ["ycsb-a", "ycsb-b"]);
        assert!(nearest("swift", &known).is_empty());
        assert!(nearest("4", &["1", "2"]).is_empty(), "a number is like no other");
        assert!(nearest("undo", &[]).is_empty());
    }
}
