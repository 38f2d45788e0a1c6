//! Notifications of what happens to keys: `notify-keyspace-events`.

use super::client::Wish;
use super::config::{NODE_ENTRIES, NOTIFY};
use super::state::State;
use crate::commands::{Side, events};
use crate::resp::Args;

/// Classes that `A` stands for.
const ALL: &str = "g$lshzxetd";
/// Classes that have to be named.
const OTHERS: &str = "KEmn";

/// Which events are told, and in which of two ways.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Notifications {
    classes: String,
}

impl Notifications {
    /// Those of a value of the parameter.
    ///
    /// # Errors
    /// Why there is no such value.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut classes = String::new();
        let mut add = |class| {
            if !classes.contains(class) {
                classes.push(class);
            }
        };
        for letter in text.chars() {
            match letter {
                'A' => ALL.chars().for_each(&mut add),
                letter if ALL.contains(letter) || OTHERS.contains(letter) => add(letter),
                _ => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
            }
        }
        Ok(Self { classes })
    }

    /// As `CONFIG GET` shows it.
    pub fn shown(&self) -> String {
        let has = |class: &char| self.classes.contains(*class);
        let mut text: String = match ALL.chars().all(|class| has(&class)) {
            true => "A".to_owned(),
            false => ALL.chars().filter(has).collect(),
        };
        text.extend(OTHERS.chars().filter(has));
        text
    }

    /// Whether any event is told.
    pub fn are_on(&self) -> bool {
        self.classes.contains(['K', 'E'])
    }
}

impl State {
    /// Takes over the values of parameters that commands of data look at.
    pub fn apply_parameters(&mut self) {
        let node = self.config.value(NODE_ENTRIES).parse().ok();
        self.changes.stream_node_entries = node.filter(|entries| *entries > 0);
        self.notifications = Notifications::parse(self.config.value(NOTIFY)).unwrap_or_default();
        self.changes.notifies = self.notifications.are_on();
    }

    /// Publishes what has happened.
    pub fn notify(&mut self) {
        // What happened without a command.
        events::settle(&mut self.changes, "", Args::new(&[], &[]));
        for event in std::mem::take(&mut self.changes.events) {
            if !self.notifications.classes.contains(event.class) {
                continue;
            }
            if self.notifications.classes.contains('K') {
                let mut channel = format!("__keyspace@{}__:", event.database).into_bytes();
                channel.extend_from_slice(&event.key);
                self.publish(&channel, event.name.as_bytes());
            }
            if self.notifications.classes.contains('E') {
                let channel = format!("__keyevent@{}__:{}", event.database, event.name);
                self.publish(channel.as_bytes(), &event.key);
            }
        }
    }
}

impl Wish {
    /// The command that does the same at once.
    pub fn command(&self) -> &'static str {
        match self {
            Self::List { side: Side::Left, .. } => "lpop",
            Self::List { side: Side::Right, .. } => "rpop",
            Self::Zset { side: Side::Left, .. } => "zpopmin",
            Self::Zset { side: Side::Right, .. } => "zpopmax",
            Self::Move { out_of, into, .. } => match (out_of, into) {
                (Side::Left, Side::Left) => "lmove left left",
                (Side::Left, Side::Right) => "lmove left right",
                (Side::Right, Side::Left) => "lmove right left",
                (Side::Right, Side::Right) => "lmove right right",
            },
            Self::Streams(_) => "xreadgroup",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_shown_as_redis_shows_them() {
        for (set, shown) in
            [("", ""), ("KEA", "AKE"), ("Ex", "xE"), ("Kl$", "$lK"), ("g$lshzxetdn", "An")]
        {
            let parsed = Notifications::parse(set).expect("classes");
            assert_eq!(parsed.shown(), shown, "{set}");
        }
        assert!(Notifications::parse("KEq").is_err());
        assert!(!Notifications::parse("A").expect("classes").are_on());
    }
}
