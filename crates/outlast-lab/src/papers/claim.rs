//! A paper's claims as facts and figures, and the rules by which a measured value meets one.

use crate::record::{Metric, Record, Verdict};

/// One claim.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// Its name, which stays.
    pub id: &'static str,
    /// The figure or table that shows it: `fig1`, `table4`; `text` for none.
    pub part: &'static str,
    /// Of which scheme, against which, on what.
    pub system: &'static str,
    /// The baseline.
    pub baseline: &'static str,
    /// The workloads.
    pub workload: &'static str,
    /// The claimed quantity.
    pub what: &'static str,
    /// In which unit; an `ordering` has no number.
    pub unit: &'static str,
    /// The single value, if it is a number.
    pub value: Option<f64>,
    /// The lower end of a range.
    pub low: Option<f64>,
    /// The upper end of a range, or a bound.
    pub high: Option<f64>,
    /// How the paper relates its value: `=`, `~`, `<`, `range`, `max`, …
    pub relation: &'static str,
}

/// How many fields a line has.
const FIELDS: usize = 12;

/// The class of a line that says how a paper's system was configured. It is no claim: a run that takes
/// the same values has reached nothing.
const CONFIGURATION: &str = "config";

/// The claims of a table with a head line: results and orderings, no configuration.
///
/// # Panics
/// When a line has another number of fields: the tables are part of the program.
pub fn parse(table: &'static str) -> Vec<Claim> {
    lines(table, false)
}

/// The configuration that a table gives beside its claims.
#[cfg(test)]
pub(super) fn configuration(table: &'static str) -> Vec<Claim> {
    lines(table, true)
}

fn lines(table: &'static str, configuration: bool) -> Vec<Claim> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let lines = reader.records().map(|line| line.expect("a table of claims is well-formed CSV"));
    let wanted = lines.filter(|line| (line.get(1) == Some(CONFIGURATION)) == configuration);
    wanted.map(|line| Claim::parse(&line)).collect()
}

impl Claim {
    fn parse(line: &csv::StringRecord) -> Self {
        // Tables are read once and live as long as the program.
        let fields: Vec<&'static str> =
            line.iter().map(|field| &*field.to_owned().leak()).collect();
        let fields: [&str; FIELDS] =
            fields.try_into().unwrap_or_else(|_| panic!("not {FIELDS} fields: {line:?}"));
        let [id, _, part, system, baseline, workload, what, unit, value, low, high, relation] =
            fields;
        let number = |text: &str| text.parse().ok();
        Self {
            id,
            part,
            system,
            baseline,
            workload,
            what,
            unit,
            value: number(value),
            low: number(low),
            high: number(high),
            relation,
        }
    }

    /// Its name without the paper's.
    pub fn name(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(_, name)| name)
    }

    /// The number that a table shows as claimed: the value, else the bound, else the range's end.
    pub fn number(&self) -> Option<f64> {
        self.value.or(self.high).or(self.low)
    }

    /// Both ends of a claim that has two.
    fn ends(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high).filter(|(low, high)| low != high)
    }

    /// The claim in words, with its range where it is one.
    pub fn wording(&self) -> String {
        let range = match self.ends() {
            Some((low, high)) => format!(", {low} to {high}"),
            None => String::new(),
        };
        let against = match self.baseline {
            "" => String::new(),
            baseline => format!(" against {baseline}"),
        };
        format!("{}{against}{range}", self.what)
    }
}

/// A row of a paper's judge: the name of a claim without the paper's, the rule that it has to meet, and the
/// figure that stands for it.
pub(super) type Row<F> = (&'static str, Rule, F);

/// The names of the claims that a judge has rows for.
pub(super) fn names<F>(rows: &[Row<F>]) -> Vec<&'static str> {
    rows.iter().map(|(name, ..)| *name).collect()
}

/// The claims about some parts of a paper, judged: a record each.
pub(super) fn judged(
    paper: &str,
    claims: &[Claim],
    parts: &[String],
    judgement: impl Fn(&Claim) -> Judgement,
) -> Vec<Record> {
    let wanted = claims.iter().filter(|claim| parts.iter().any(|part| part == claim.part));
    wanted.map(|claim| judgement(claim).record(paper, claim)).collect()
}

/// A claim's judgement by its row: the figure if this run has it, or else what is missing.
///
/// # Panics
/// When no row is for the claim.
pub(super) fn by_row<F>(
    rows: &[Row<F>],
    claim: &Claim,
    find: impl Fn(&F, Rule) -> Option<Found>,
    missing: impl Fn() -> String,
) -> Judgement {
    let row = rows.iter().find(|(name, ..)| *name == claim.name());
    let (_, rule, figure) =
        row.unwrap_or_else(|| unreachable!("no measurement stands for the claim {}", claim.id));
    match (rule, find(figure, *rule)) {
        (Rule::Contradictory(why), found) => Judgement::Contradictory(found, why),
        (rule, Some(found)) => Judgement::Compared(found, *rule),
        (_, None) => Judgement::NotTestable(missing()),
    }
}

/// The figure of a claim under other readings of what its paper leaves open, in words.
pub(super) fn elsewhere(
    claim: &Claim,
    rule: Rule,
    words: &str,
    digits: usize,
    readings: impl Iterator<Item = (&'static str, Option<Found>)>,
) -> String {
    let under = readings.filter_map(|(name, found)| {
        let found = found?;
        let met = if rule.holds(claim, &found) { ", which meets it" } else { "" };
        Some(format!("{name} {:.digits$}{met}", found.value))
    });
    let under: Vec<String> = under.collect();
    if under.is_empty() { String::new() } else { format!("{words}: {}", under.join(", ")) }
}

/// How a measured value meets a claimed one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rule {
    /// As large or larger: gains.
    AtLeast,
    /// As small or smaller: costs.
    AtMost,
    /// Smaller.
    Below,
    /// Larger.
    Above,
    /// No further away than this share of the claimed value: what is described, not promised.
    Near(f64),
    /// The same number.
    Equals,
    /// All of it inside of the range.
    Within,
    /// The ordering holds; the measured value says by how much, above 0.
    Holds,
    /// It holds for all; the measured value counts those for which it does not.
    Zero,
    /// Two things differ by at most this many per cent; the measured value is the difference.
    Similar(f64),
    /// Nothing can meet it, since the paper contradicts itself in this way.
    Contradictory(&'static str),
}

/// A measured figure: the value, and its span over the workloads it comes from.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The value that is compared.
    pub value: f64,
    /// Its smallest and its largest part, where it has parts.
    pub span: Option<(f64, f64)>,
    /// Remarks.
    pub note: String,
}

impl Found {
    /// One value.
    pub fn of(value: f64) -> Self {
        Self { value, span: None, note: String::new() }
    }

    /// The mean of several values; `None` of none.
    pub fn mean(values: &[f64]) -> Option<Self> {
        let sum: f64 = values.iter().sum();
        let value = sum / values.len() as f64;
        Some(Self { value, span: Some(span(values)?), note: String::new() })
    }

    /// The largest of several values; `None` of none.
    pub fn largest(values: &[f64]) -> Option<Self> {
        let span = span(values)?;
        Some(Self { value: span.1, span: Some(span), note: String::new() })
    }

    /// Adds to what has to be said.
    #[must_use]
    pub fn noting(mut self, note: &str) -> Self {
        if !note.is_empty() {
            let between = if self.note.is_empty() { "" } else { "; " };
            self.note += between;
            self.note += note;
        }
        self
    }
}

/// The smallest and the largest; `None` of none.
fn span(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some((low, high))
}

impl Rule {
    /// Whether what was found meets the claim. What the claim does not name is not met, and a claim with
    /// two ends is met by both, whatever the rule.
    pub fn holds(self, claim: &Claim, found: &Found) -> bool {
        let (low, high) = found.span.unwrap_or((found.value, found.value));
        if let Self::Contradictory(_) = self {
            return false;
        }
        if let Some((least, most)) = claim.ends() {
            return low >= least && high <= most;
        }
        let against = |holds: &dyn Fn(f64) -> bool| claim.number().is_some_and(holds);
        match self {
            Self::AtLeast => against(&|claimed| found.value >= claimed),
            Self::AtMost => against(&|claimed| found.value <= claimed),
            Self::Below => against(&|claimed| found.value < claimed),
            Self::Above => against(&|claimed| found.value > claimed),
            Self::Near(share) => {
                against(&|claimed| (found.value - claimed).abs() <= share * claimed.abs())
            }
            // The claim has no two ends.
            Self::Within | Self::Contradictory(_) => false,
            Self::Equals => {
                against(&|claimed| (found.value - claimed).abs() <= 1e-9 * claimed.abs())
            }
            Self::Holds => found.value > 0.0,
            Self::Zero => found.value == 0.0,
            Self::Similar(percent) => found.value.abs() <= percent,
        }
    }

    /// The rule in words, where the claim's own words do not say it.
    fn words(self) -> String {
        match self {
            Self::Near(share) => format!("within {:.0} % counts as reached", share * 100.0),
            Self::Within => "all of it has to lie in the range".to_owned(),
            Self::Holds => "the distance of the two, above 0 if the order is as claimed".to_owned(),
            Self::Zero => "counts those for which it does not hold".to_owned(),
            Self::Similar(percent) => {
                format!("the difference in per cent, up to {percent:.0} counts as similar")
            }
            Self::Contradictory(why) => why.to_owned(),
            Self::AtLeast | Self::AtMost | Self::Below | Self::Above | Self::Equals => {
                String::new()
            }
        }
    }
}

/// The judgement of a claim.
#[derive(Clone, PartialEq, Debug)]
pub enum Judgement {
    /// Measured and compared.
    Compared(Found, Rule),
    /// The paper contradicts itself here; what was found is shown beside.
    Contradictory(Option<Found>, &'static str),
    /// Nothing that ran could show it.
    NotTestable(String),
}

impl Judgement {
    /// The claim's record.
    pub fn record(self, paper: &str, claim: &Claim) -> Record {
        // The name of the metric is that of the claim: nothing else has the same meaning.
        let metric = Metric { name: claim.id, unit: claim.unit };
        let mut record =
            Record::claim(paper, &claim.wording(), claim.workload, claim.system, metric);
        record.paper_value = claim.number();
        let (verdict, found, why) = match self {
            Self::Compared(found, rule) => {
                let holds = rule.holds(claim, &found);
                let verdict = if holds { Verdict::Reached } else { Verdict::NotReached };
                (verdict, Some(found), rule.words())
            }
            Self::Contradictory(found, why) => (Verdict::Contradictory, found, why.to_owned()),
            Self::NotTestable(why) => (Verdict::NotTestable, None, why),
        };
        let mut reasons = vec![why];
        if let Some(found) = found {
            record.value = Some(found.value);
            if let Some((low, high)) = found.span {
                reasons.push(format!("{low:.3} to {high:.3} over what was measured"));
            }
            reasons.push(found.note);
        }
        reasons.retain(|reason| !reason.is_empty());
        if !reasons.is_empty() {
            record = record.reason(&reasons.join("; "));
        }
        record.verdict(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::papers::PAPERS;

    fn claim(line: &'static str) -> Claim {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
        Claim::parse(&reader.records().next().unwrap().unwrap())
    }

    #[test]
    fn every_line_is_a_claim_with_a_name_of_its_own() {
        let claims: Vec<&Claim> = PAPERS.iter().flat_map(|paper| paper.claims()).collect();
        let mut ids: Vec<_> = claims.iter().map(|claim| claim.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), claims.len());
        for claim in &claims {
            let numberless = claim.unit == "ordering";
            assert_eq!(claim.number().is_none(), numberless, "{}", claim.id);
            assert!(!claim.part.is_empty() && !claim.what.is_empty(), "{}", claim.id);
        }
    }

    /// Sizes of a machine and cells of a feature table are given, and no measurement reaches them.
    #[test]
    fn configuration_is_no_claim() {
        const TABLE: &str = "id,class,part,system,baseline,workload,what,unit,value,low,high,relation\n\
                             p.size,config,table4,s,,,L1 size,KB,32,,,=\n\
                             p.gain,result,fig1,s,b,w,gain,%,3,,,=\n";
        let ids = |lines: Vec<Claim>| lines.iter().map(|line| line.id).collect::<Vec<_>>();
        assert_eq!(
            (ids(parse(TABLE)), ids(configuration(TABLE))),
            (vec!["p.gain"], vec!["p.size"])
        );
        let given = ["configuration", "feature:", "hardware overhead", "block size"];
        for claim in PAPERS.iter().flat_map(|paper| paper.claims()) {
            assert!(!given.iter().any(|word| claim.what.contains(word)), "{}", claim.id);
        }
    }

    #[test]
    fn rules_compare_as_they_say() {
        let gain = claim("a.b,result,fig7,s,b,w,gain,%,16,,,=");
        let holds = |rule: Rule, claim: &Claim, value| rule.holds(claim, &Found::of(value));
        assert!(holds(Rule::AtLeast, &gain, 16.0) && !holds(Rule::AtLeast, &gain, 15.9));
        assert!(holds(Rule::AtMost, &gain, 16.0) && !holds(Rule::AtMost, &gain, 16.1));
        assert!(holds(Rule::Below, &gain, 15.9) && !holds(Rule::Below, &gain, 16.0));
        assert!(holds(Rule::Above, &gain, 16.1) && !holds(Rule::Above, &gain, 16.0));
        let near = Rule::Near(0.25);
        assert!(holds(near, &gain, 12.0) && holds(near, &gain, 20.0));
        assert!(!holds(near, &gain, 11.9) && !holds(near, &gain, 20.1));
        let order = claim("a.c,ordering,fig9,s,b,w,order,ordering,,,,<");
        assert!(holds(Rule::Holds, &order, 0.1) && !holds(Rule::Holds, &order, 0.0));
        assert!(holds(Rule::Zero, &order, 0.0) && !holds(Rule::Zero, &order, 1.0));
        let similar = Rule::Similar(20.0);
        assert!(holds(similar, &order, -20.0) && !holds(similar, &order, 20.1));
        assert!(!holds(Rule::AtLeast, &order, 1e9), "there is no number to meet");
    }

    #[test]
    fn a_range_holds_all_or_it_is_not_reached() {
        let loss = claim("a.d,result,fig1,s,b,w,loss,%,,8,49,range");
        let found = |values: &[f64]| Found::mean(values).unwrap();
        assert!(Rule::Within.holds(&loss, &found(&[8.0, 20.0, 49.0])));
        assert!(!Rule::Within.holds(&loss, &found(&[7.9, 20.0])));
        assert!(!Rule::Within.holds(&loss, &found(&[20.0, 49.1])));
        assert!(Rule::Within.holds(&loss, &Found::of(8.0)));
        // The largest of all inside of the range is one end of it.
        let commits = claim("a.e,result,fig11,s,b,w,ratio,x,,16,64,range");
        let largest = Found::largest(&[1.0, 20.0, 55.0]).unwrap();
        for rule in [Rule::Within, Rule::AtLeast, Rule::AtMost, Rule::Near(0.5)] {
            assert!(!rule.holds(&commits, &largest), "{rule:?}");
        }
        assert!(!Rule::Within.holds(&claim("a.f,result,fig1,s,b,w,loss,%,8,,,="), &found(&[8.0])));
        assert_eq!(Found::mean(&[]), None);
    }

    #[test]
    fn a_verdict_carries_its_reason_and_both_numbers() {
        let gain = claim("a.b,result,fig7,s,base,w,gain,%,16,,,=");
        let judged = Judgement::Compared(Found::of(3.0).noting("one thread"), Rule::AtLeast);
        let record = judged.record("archapt", &gain);
        assert_eq!((record.value, record.paper_value), (Some(3.0), Some(16.0)));
        assert_eq!(record.verdict, Some(Verdict::NotReached));
        assert_eq!(record.reason.as_deref(), Some("one thread"));
        assert_eq!(record.claim.as_deref(), Some("gain against base"));
        let none = Judgement::NotTestable("no such memory".into()).record("archapt", &gain);
        assert_eq!((none.value, none.verdict), (None, Some(Verdict::NotTestable)));
        let both = Judgement::Contradictory(Some(Found::of(1.0)), "16 and 17").record("p", &gain);
        assert_eq!((both.value, both.verdict), (Some(1.0), Some(Verdict::Contradictory)));
    }
}
