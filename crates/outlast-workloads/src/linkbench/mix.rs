//! The shares of the operations.

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    GetLinkList,
    GetNode,
    AddLink,
    UpdateLink,
    UpdateNode,
    CountLinks,
    DeleteLink,
    AddNode,
    DeleteNode,
    GetLink,
}

/// Which mix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mix {
    /// LinkBench's.
    Published,
    /// With the shares that the paper on Archapt gives.
    Archapt,
}

/// Parts of [`WHOLE`], as `FBWorkload.properties` has them in percent with seven decimals.
type Shares = [(Kind, u64); 10];

/// All operations together.
const WHOLE: u64 = 1_000_000_000;

const PUBLISHED: Shares = [
    (Kind::GetLinkList, 507_119_145),
    (Kind::GetNode, 129_326_683),
    (Kind::AddLink, 89_886_601),
    (Kind::UpdateLink, 80_122_125),
    (Kind::UpdateNode, 73_664_370),
    (Kind::CountLinks, 48_863_567),
    (Kind::DeleteLink, 29_907_664),
    (Kind::AddNode, 25_732_789),
    (Kind::DeleteNode, 10_115_914),
    (Kind::GetLink, 5_261_142),
];

/// An operation of the paper's Table III, and its share in percent.
const ARCHAPT: [(&[Kind], u64); 5] = [
    // Read.
    (&[Kind::GetNode, Kind::GetLink, Kind::CountLinks], 64),
    // Update.
    (&[Kind::UpdateNode, Kind::UpdateLink], 16),
    // Insert.
    (&[Kind::AddNode, Kind::AddLink], 12),
    // Scan.
    (&[Kind::GetLinkList], 4),
    // Delete.
    (&[Kind::DeleteLink, Kind::DeleteNode], 4),
];

impl Mix {
    /// The shares of a billion. Within each of the paper's kinds, those of the operations stand
    /// to each other as in LinkBench's own mix; roundings go to the first.
    pub(crate) fn shares(self) -> Shares {
        if self == Self::Published {
            return PUBLISHED;
        }
        let published = |kind: Kind| share_in(&PUBLISHED, kind);
        let mut shares = PUBLISHED.map(|(kind, _)| (kind, 0));
        for (kinds, percent) in ARCHAPT {
            let whole = WHOLE / 100 * percent;
            let sum: u64 = kinds.iter().map(|&kind| published(kind)).sum();
            let mut rest = whole;
            for &kind in &kinds[1..] {
                let share = whole * published(kind) / sum;
                set_share(&mut shares, kind, share);
                rest -= share;
            }
            set_share(&mut shares, kinds[0], rest);
        }
        shares
    }

    /// The operation that a number below a billion falls on.
    pub(crate) fn choose(shares: &Shares, mut number: u64) -> Kind {
        let falls_in = |&(_, share): &(Kind, u64)| {
            let inside = number < share;
            number = number.wrapping_sub(share);
            inside
        };
        let found = shares.iter().copied().find(falls_in);
        found.expect("the shares are a billion").0
    }
}

/// A number below a billion, and the shares that divide them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chooser(Shares);

impl Chooser {
    pub(crate) fn new(mix: Mix) -> Self {
        Self(mix.shares())
    }

    pub(crate) fn draw(&self, random: &mut crate::Random) -> Kind {
        Mix::choose(&self.0, random.below(WHOLE))
    }
}

fn share_in(shares: &Shares, kind: Kind) -> u64 {
    shares.iter().find(|row| row.0 == kind).expect("every operation has a share").1
}

fn set_share(shares: &mut Shares, kind: Kind, share: u64) {
    shares.iter_mut().find(|row| row.0 == kind).expect("every operation has a share").1 = share;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_a_billion_and_those_of_the_paper_are_its_percents() {
        for mix in [Mix::Published, Mix::Archapt] {
            assert_eq!(mix.shares().iter().map(|row| row.1).sum::<u64>(), WHOLE, "{mix:?}");
        }
        let shares = Mix::Archapt.shares();
        for (kinds, percent) in ARCHAPT {
            let sum: u64 = kinds.iter().map(|&kind| share_in(&shares, kind)).sum();
            assert_eq!(sum, WHOLE / 100 * percent);
        }
        assert_eq!(Mix::choose(&PUBLISHED, WHOLE - 1), Kind::GetLink);
        assert_eq!(Mix::choose(&PUBLISHED, 0), Kind::GetLinkList);
    }
}
