//! Layout of a workload's data: the objects that share lines.

use std::fmt;
use std::str::FromStr;

use outlast::collections::{FieldPlacement, Placement};

use crate::{Scale, Workload};

/// The objects of a workload's data that share lines: the layout that coalescing changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Layout {
    /// A record is one value, its fields end to end; a key and its value share a block.
    #[default]
    Plain,
    /// Associated objects together, from the start of a line on: in YCSB a field with its value in
    /// a pool of values, keys in a pool of keys; elsewhere a row with its key.
    Coalesced,
    /// As `Plain`, but for pairs of small keys and values of fixed lengths (hash, btree), which lie in
    /// the nodes themselves: what the runtime's own measurements take.
    Inline,
    /// As an allocator lays objects out that knows neither of lines nor of what belongs together:
    /// keys, fields and values apart, values not aligned. What coalescing is measured against.
    Scattered,
}

impl Layout {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Inline, Self::Coalesced, Self::Scattered];

    /// The name that commands and results use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Inline => "inline",
            Self::Coalesced => "coalesced",
            Self::Scattered => "scattered",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no layout has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no layout is called '{0}'; there are plain, inline, coalesced, scattered")]
pub struct UnknownLayout(String);

impl FromStr for Layout {
    type Err = UnknownLayout;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| UnknownLayout(name.to_owned()))
    }
}

impl Workload {
    /// The scale with the data laid out so. Records of OLTP-Bench's YCSB are rows of a table: its
    /// fields have no names beside them.
    pub fn laid_out(&self, scale: &Scale, layout: Layout) -> Scale {
        let has_fields = self.kind.has_fields();
        let (placement, fields_placed) = match layout {
            Layout::Plain => (Placement::Together, None),
            Layout::Inline => (self.kind.inline_placement(scale), None),
            Layout::Coalesced if has_fields => (Placement::Apart, Some(FieldPlacement::Together)),
            Layout::Coalesced => (Placement::Together, None),
            Layout::Scattered if has_fields => (Placement::Scattered, Some(FieldPlacement::Apart)),
            Layout::Scattered => (Placement::Scattered, None),
        };
        Scale { placement, fields_placed, ..*scale }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for layout in Layout::ALL {
            assert_eq!(layout.to_string().parse(), Ok(layout));
        }
        let error = "packed".parse::<Layout>().unwrap_err().to_string();
        assert!(error.contains("'packed'") && error.contains("scattered"), "{error}");
    }

    #[test]
    fn only_records_of_key_value_stores_have_fields_with_names() {
        let placed = |name, layout| {
            let workload = Workload::named(name).unwrap();
            let scale = workload.laid_out(&workload.scale(), layout);
            (scale.placement, scale.fields_placed, scale.stored_bytes())
        };
        let (together, apart) = (Some(FieldPlacement::Together), Some(FieldPlacement::Apart));
        assert_eq!(placed("ycsb-a", Layout::Plain), (Placement::Together, None, 1_000));
        assert_eq!(placed("ycsb-a", Layout::Coalesced), (Placement::Apart, together, 1_280));
        assert_eq!(placed("ycsb-a", Layout::Scattered), (Placement::Scattered, apart, 1_360));
        assert_eq!(placed("oltp-ycsb", Layout::Coalesced), (Placement::Together, None, 1_000));
        assert_eq!(placed("tpcc", Layout::Scattered).0, Placement::Scattered);
    }
}
