//! `outlast crash`: random campaigns, and the exhaustive search with `--policy any`.

mod explain;

use std::error::Error;

use clap::Args;
use outlast::{Ack, Guarantee, Plant, Scheme};
use outlast_crash::runtime::campaign::{
    Caches, Campaign, CampaignReport, Counts, CrashOp, KEYS_MAX, LANE_BYTES_MAX, LANES_MAX,
    OBJECT_BYTES, TRANSACTIONS_MAX, domain_name, parse_domain,
};
use outlast_crash::runtime::scopes::points::{self, Point};
use outlast_crash::runtime::scopes::{Scope, ScopeConfig, Tally, lifecycle, table};
use outlast_lab::crash::{campaigns, planted_in, scope_records};
use outlast_lab::progress::Progress;
use outlast_lab::record::{Document, Record};
use outlast_sim::{Domain, Policy, instead_of};
use outlast_workloads::Layout;

use crate::planted::Trials;
use crate::report::Scale;
use crate::say::{OutputFailed, Teller, noteln, out, outln};
use crate::{CommandResult, Verdict, names, planted, size};

/// The policy that stands for every image that any eviction allows.
const ANY: &str = "any";

/// All scopes, or the campaigns of the report.
const ALL: &str = "all";

/// Schemes that are crashed where nothing is said.
const SCHEMES: [Scheme; 2] = [Scheme::Undo, Scheme::Redo];

/// Lanes that run transactions where nothing is said.
const LANES: u16 = 2;

/// Recoveries after which an exhaustive search of one scope gives up.
const IMAGES_MAX: u64 = 1_000_000_000;

#[derive(Args)]
pub struct CrashArgs {
    /// A workload (`outlast workloads` lists them), or `all`: the campaigns of `outlast report`. With
    /// `--policy any`: `words`, the name of a scope, `all` of them, or a point such as `ARC-2`, which
    /// a literal variant loses.
    #[arg(required_unless_present = "plant")]
    workload: Option<String>,
    /// Schemes, separated by commas (`outlast schemes` lists ours) [default: undo,redo, of which
    /// only those that execute what --plant breaks].
    #[arg(long, value_delimiter = ',', value_parser = names::scheme)]
    scheme: Vec<Scheme>,
    /// Replacement policies, separated by commas: lru, plru, bip, random, adversarial; `all` of
    /// them; or `any`: every image that any eviction allows, on a small scope.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    policy: Vec<String>,
    /// Caches in which each policy is tried: tiny, tiny-exclusive, small, server, and server-16th,
    /// which is a sixteenth of it. All but the last if not given.
    #[arg(long, value_delimiter = ',')]
    caches: Vec<Caches>,
    /// How much of `all`: quick, some 2,000 crash points for each policy, or full, more than 100,000
    /// [default: quick].
    #[arg(long, value_enum)]
    scale: Option<Scale>,
    /// Crash points for each policy, or `all` that there are [default: 2000].
    #[arg(long, value_parser = parse_points)]
    points: Option<usize>,
    /// Keys in the pool [default: 10000]; with `--policy any`, words [default: 4].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    keys: Option<u64>,
    /// Lanes that run transactions [default: 2].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(LANES_MAX)))]
    lanes: Option<u16>,
    /// Bytes of each lane's log [default: 4K].
    #[arg(long, value_parser = size::within(1, LANE_BYTES_MAX))]
    lane_bytes: Option<u64>,
    /// Transactions of all lanes together [default: 1000; with `--policy any`: 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=TRANSACTIONS_MAX as i64))]
    transactions: Option<u32>,
    /// Runs at the published sizes of values, on one lane and in one kind of caches. Crashes only
    /// after WARM_UP transactions, and counts stale objects.
    #[arg(long)]
    warm_up: Option<u32>,
    /// The pool keeps checksums, with which recovered pools are compared; for undo-archapt and
    /// redo-archapt.
    #[arg(long)]
    checksums: bool,
    /// When transactions are acknowledged: logical (their record is durable) or physical (their
    /// data is, in place).
    #[arg(long, default_value_t)]
    ack: Ack,
    /// Commits are asynchronous, where the scheme can do that: each lane acknowledges SYNC_EVERY of
    /// them at a time. Not with `--policy any`.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    sync_every: Option<u32>,
    /// What lies beside what in the data: plain, inline (small pairs in the nodes), coalesced, or
    /// scattered as by an allocator that knows nothing of lines. Not with `--policy any`.
    #[arg(long, default_value_t)]
    layout: Layout,
    /// What survives a crash: adr, eadr or process.
    #[arg(long, default_value = "adr", value_parser = parse_domain)]
    domain: Domain,
    /// Breaks the runtime on purpose; `list` names all the ways. A bug that goes unnoticed ends
    /// with status 1.
    #[arg(long)]
    plant: Option<String>,
    /// Only this crash point, OPERATIONS or OPERATIONS+LINES: replays a failure.
    #[arg(long)]
    crash_op: Option<CrashOp>,
    /// Recoveries do not crash too, and pools do not go on after them.
    #[arg(long)]
    single: bool,
    /// Makes the first failure smaller: fewer transactions, an earlier crash.
    #[arg(long)]
    shrink: bool,
    /// Tells one failing image: operations on a time line, which lines had reached memory, what
    /// recovery did, what the oracle expected and found. WORKLOAD is a scope, or a flaw of a paper:
    /// ARC-2, HWL-1, EHOU-2, PICL-1 and so on; with --plant it may be left out.
    #[arg(long)]
    explain: bool,
}

fn parse_points(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        number => number
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| "expected how many crash points, at least 1, or `all`".to_owned()),
    }
}

/// Crashes, judges, prints.
pub fn run(args: &CrashArgs, as_json: bool, seed: u64) -> CommandResult {
    if args.plant.as_deref() == Some("list") {
        return planted::list(as_json, seed);
    }
    if args.explain {
        return explain::run(args, as_json, seed);
    }
    let plant = args.plant.as_deref().map(names::plant).transpose()?;
    let name = args.workload.as_deref().ok_or("which WORKLOAD is to crash?")?;
    let schemes = args.schemes(plant)?;
    if plant.is_some() || schemes.iter().any(|scheme| !is_promised(*scheme)) {
        // Panics of code that is broken on purpose, or promises nothing, are results.
        std::panic::set_hook(Box::new(|_| ()));
    }
    if args.policy == [ANY] {
        return search(args, name, &schemes, plant, as_json, seed);
    }
    let campaigns = campaigns_of(args, name, &schemes, plant, seed)?;
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let (mut verdict, mut trials) = (Verdict::Good, Trials::default());
    for campaign in campaigns {
        let before = Plant::times_met();
        let report = run_campaign(&campaign)?;
        trials.note(campaign.scheme, before, report.failure.is_some());
        document.records.extend(campaigns::report_records(&report));
        if !as_json {
            print_report(&report)?;
        }
        if report.is_guilty() {
            verdict = Verdict::Bad;
            tell_failure(&report, args.shrink)?;
        }
    }
    if as_json {
        out!("{}", document.to_json());
    }
    Ok(verdict.and(plant.map(|plant| trials.verdict(plant))))
}

impl CrashArgs {
    fn schemes(&self, plant: Option<Plant>) -> Result<Vec<Scheme>, String> {
        let are_named = !self.scheme.is_empty();
        let schemes = if are_named { &self.scheme } else { &SCHEMES[..] };
        match plant {
            Some(plant) => planted_in(plant, schemes, are_named),
            None => Ok(schemes.to_vec()),
        }
    }
}

fn campaigns_of(
    args: &CrashArgs,
    name: &str,
    schemes: &[Scheme],
    plant: Option<Plant>,
    seed: u64,
) -> Result<Vec<Campaign>, Box<dyn Error>> {
    let policies = match args.policy.as_slice() {
        [all] if all == "all" => Policy::ALL.iter().map(|row| row.0).collect(),
        given if given.iter().any(|name| name == ANY) => {
            return Err("`any` stands alone: it covers every policy".into());
        }
        given => given.iter().map(|name| names::policy(name)).collect::<Result<Vec<_>, _>>()?,
    };
    if name == ALL {
        return all_campaigns(args, schemes, &policies, plant, seed);
    }
    if args.scale.is_some() {
        return Err(format!("--scale goes with `{ALL}`; --points say how many crashes").into());
    }
    let workload = names::judged_workload(name, &[ALL])?;
    let campaign = |scheme| {
        let plain = Campaign::new(workload, scheme);
        Campaign {
            policies: policies.clone(),
            caches: if args.caches.is_empty() { plain.caches } else { args.caches.clone() },
            points: args.points.unwrap_or(2_000),
            lanes: args.lanes.unwrap_or(LANES),
            lane_bytes: args.lane_bytes.unwrap_or(plain.lane_bytes),
            keys: args.keys.unwrap_or(plain.keys),
            transactions: args.transactions.unwrap_or(plain.transactions),
            seed,
            plant,
            until_failure: plant.is_some() || args.shrink || args.crash_op.is_some(),
            domain: args.domain,
            second_crash: !args.single,
            warm_up: args.warm_up,
            checksums: args.checksums,
            ack: args.ack,
            sync_every: args.sync_every,
            layout: args.layout,
            crash_at: args.crash_op,
            ..plain
        }
    };
    Ok(schemes.iter().map(|scheme| campaign(*scheme)).collect())
}

/// The report's campaigns of these schemes.
fn all_campaigns(
    args: &CrashArgs,
    schemes: &[Scheme],
    policies: &[Policy],
    plant: Option<Plant>,
    seed: u64,
) -> Result<Vec<Campaign>, Box<dyn Error>> {
    let is_given = [
        ("--points", args.points.is_some()),
        ("--keys", args.keys.is_some()),
        ("--lanes", args.lanes.is_some()),
        ("--lane-bytes", args.lane_bytes.is_some()),
        ("--transactions", args.transactions.is_some()),
        ("--caches", !args.caches.is_empty()),
        ("--warm-up", args.warm_up.is_some()),
        ("--crash-op", args.crash_op.is_some()),
    ];
    if let Some((given, _)) = is_given.into_iter().find(|option| option.1) {
        return Err(format!("{given} goes with one workload; `{ALL}` has --scale").into());
    }
    let size = args.scale.unwrap_or(Scale::Quick).size();
    let campaigns = campaigns::all(schemes.iter().copied(), size, seed);
    let campaign = |campaign| Campaign {
        policies: policies.to_vec(),
        plant,
        until_failure: plant.is_some() || args.shrink,
        domain: args.domain,
        second_crash: !args.single,
        checksums: args.checksums,
        ack: args.ack,
        sync_every: args.sync_every,
        layout: args.layout,
        ..campaign
    };
    Ok(campaigns.into_iter().map(campaign).collect())
}

fn run_campaign(campaign: &Campaign) -> Result<CampaignReport, Box<dyn Error>> {
    let teller = Teller::new();
    let stage = format!("{} {}", campaign.workload.name, campaign.scheme);
    let total = campaign.planned();
    let mut tell = |done| teller.tell(Progress::Step { stage: &stage, done, total });
    Ok(campaigns::run(campaign, &mut tell)?)
}

/// What differs from other campaigns.
fn conditions(campaign: &Campaign) -> String {
    let ack = match campaign.ack {
        Ack::Logical => String::new(),
        ack => format!(", {ack} acknowledgement"),
    };
    let layout = match campaign.layout {
        Layout::Plain => String::new(),
        layout => format!(", {layout}"),
    };
    let sync = campaign.sync_every.map(|every| format!(", {every} asynchronous commits a sync"));
    ack + &sync.unwrap_or_default() + &layout
}

fn print_report(report: &CampaignReport) -> Result<(), OutputFailed> {
    let campaign = &report.campaign;
    let rate = report.total().crash_points as f64 / report.elapsed.as_secs_f64().max(1e-9);
    outln!(
        "{}, {}, {}{}: {} keys, {} transactions on {} lanes, {} operations; {:.1} s, {rate:.0} \
         crash points/s",
        campaign.workload.name,
        campaign.scheme,
        domain_name(campaign.domain),
        conditions(campaign),
        campaign.keys,
        report.transactions,
        campaign.lanes,
        report.operations,
        report.elapsed.as_secs_f64(),
    );
    let columns = ["points", "lost", "torn", "open", "garbage", "refused", "unsound"];
    out!("  {:<12}", "policy");
    outln!("{}", columns.map(|column| format!("{column:>9}")).concat());
    let row = |name: &str, counts: &Counts| {
        let cells = [
            counts.crash_points,
            counts.lost,
            counts.torn,
            counts.not_closed,
            counts.garbage,
            counts.refused,
            counts.unsound,
        ];
        outln!("  {name:<12}{}", cells.map(|cell| format!("{cell:>9}")).concat());
        Ok::<(), OutputFailed>(())
    };
    for (policy, counts) in &report.policies {
        match counts.crash_points {
            0 => outln!("  {:<12}  not run", policy.to_string()),
            _ => row(&policy.to_string(), counts)?,
        }
    }
    if report.uncrashed != Counts::default() {
        row("(no crash)", &report.uncrashed)?;
    }
    let total = report.total();
    if campaign.warm_up.is_some() {
        print_objects(report)?;
    }
    outln!(
        "  {} crashes of a recovery, {} after going on from one",
        total.in_recovery,
        total.later
    );
    if let Some(line) = no_promise(campaign.scheme) {
        outln!("  {line}");
    }
    Ok(())
}

fn is_promised(scheme: Scheme) -> bool {
    scheme.guarantee() == Guarantee::Durable
}

/// Why what a scheme loses is no failure.
fn no_promise(scheme: Scheme) -> Option<String> {
    if is_promised(scheme) {
        None
    } else if scheme.is_published() {
        Some(format!("{scheme}: losses as the paper's protocol has them, not a failure"))
    } else {
        Some(format!("{scheme} promises nothing: this is damage, not guilt"))
    }
}

/// What became of stale objects, one row a policy.
fn print_objects(report: &CampaignReport) -> Result<(), OutputFailed> {
    outln!("  objects of {OBJECT_BYTES} bytes, summed over crash points");
    let columns = ["stale", "replayed", "detected", "corrected", "uncorr.", "silent"];
    outln!("  {:<12}{}", "policy", columns.map(|column| format!("{column:>10}")).concat());
    for (policy, counts) in &report.policies {
        let o = counts.objects;
        let cells = [
            o.stale,
            o.repaired_by_log,
            o.detected,
            o.corrected,
            o.uncorrectable,
            o.silently_wrong,
        ];
        let cells = cells.map(|cell| format!("{cell:>10}")).concat();
        outln!("  {:<12}{cells}", policy.to_string());
    }
    Ok(())
}

fn tell_failure(report: &CampaignReport, shrink: bool) -> Result<(), Box<dyn Error>> {
    if let Some(reason) = campaigns::reason(report) {
        noteln!("outlast: {}, {}: {reason}", report.campaign.workload.name, report.campaign.scheme);
    }
    if shrink && let Some(smallest) = report.shrink()? {
        noteln!("outlast: smallest: {}", smallest.command());
    }
    Ok(())
}

/// The exhaustive search of small scopes.
fn search(
    args: &CrashArgs,
    name: &str,
    schemes: &[Scheme],
    plant: Option<Plant>,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    if args.sync_every.is_some() {
        return Err("--sync-every goes with random campaigns: scopes that begin with 'later' commit asynchronously".into());
    }
    if args.layout != Layout::default() {
        return Err("--layout goes with random campaigns: the words of a scope have none".into());
    }
    let chosen = scopes_of(args, name)?;
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let (mut verdict, mut trials) = (Verdict::Good, Trials::default());
    for scheme in schemes {
        let config = ScopeConfig { ack: args.ack, ..config_of(*scheme, name, plant) };
        let is_tried = |scope: &&Option<Scope>| match scope {
            Some(scope) => scope.tries(*scheme),
            None => true,
        };
        if chosen.iter().filter(is_tried).count() == 0 {
            let schemes = Scheme::durable()
                .filter(|scheme| chosen.iter().flatten().all(|scope| scope.tries(*scheme)));
            let schemes: Vec<_> = schemes.map(|scheme| scheme.name()).collect();
            let schemes = schemes.join(" or ");
            return Err(
                format!("{scheme} cannot be tried in scope '{name}': take {schemes}").into()
            );
        }
        for scope in chosen.iter().filter(is_tried) {
            let before = Plant::times_met();
            let tally = match scope {
                Some(scope) => scope.run(&config, |_| ())?,
                None => lifecycle::run(&config)?,
            };
            trials.note(*scheme, before, tally.failure.is_some());
            let name = scope.as_ref().map_or("lifecycle", |scope| scope.name);
            let records =
                scope_records(*scheme, scope.as_ref(), tally.elapsed.as_secs_f64(), &tally);
            let planted = |mut record: Record| {
                record.plant = plant.map(|plant| plant.to_string());
                record.ack(args.ack.name())
            };
            document.records.extend(records.into_iter().map(planted));
            if !as_json {
                print_tally(name, *scheme, &tally)?;
            }
            if let Some(guilt) = &tally.failure {
                noteln!("outlast: {name}, {scheme}: {guilt}");
                match no_promise(*scheme) {
                    None => verdict = Verdict::Bad,
                    Some(line) if !as_json => outln!("  {line}"),
                    Some(_) => {}
                }
            }
        }
    }
    if as_json {
        out!("{}", document.to_json());
    }
    Ok(verdict.and(plant.map(|plant| trials.verdict(plant))))
}

/// A point of the published protocol is shown under its own reading of the paper.
fn config_of(scheme: Scheme, name: &str, plant: Option<Plant>) -> ScopeConfig {
    let config = ScopeConfig { plant, images_max: IMAGES_MAX, ..ScopeConfig::of(scheme) };
    match points::named(name) {
        None => config,
        Some(Point { reading, ack, shows, .. }) => {
            ScopeConfig { reading, ack, wanted: scheme.is_published().then_some(shows), ..config }
        }
    }
}

/// The scopes of that name; `None` stands for a pool's creation and growth.
fn scopes_of(args: &CrashArgs, name: &str) -> Result<Vec<Option<Scope>>, Box<dyn Error>> {
    let lanes = usize::from(args.lanes.unwrap_or(LANES));
    let (transactions, words) = (args.transactions.unwrap_or(3), args.keys.unwrap_or(4));
    if !(1..=4).contains(&lanes) || !(1..=8).contains(&transactions) || !(1..=16).contains(&words) {
        return Err("--policy any takes 1 to 4 lanes, 1 to 8 transactions, 1 to 16 keys".into());
    }
    let words = || {
        let packed = [true, false].into_iter();
        packed.map(|packed| Some(table::words(transactions as usize, words, lanes, packed)))
    };
    Ok(match name {
        "words" => words().collect(),
        "lifecycle" => vec![None],
        "all" => {
            let fixed = table::all().into_iter().map(Some);
            words().chain(fixed).chain([None]).collect()
        }
        name => match scope_named(name) {
            Some(scope) => vec![Some(scope)],
            None => {
                let (fixed, points) = (table::all(), points::names());
                let known = ["words"].into_iter().chain(fixed.iter().map(|scope| scope.name));
                let known = known.chain(["lifecycle", ALL]).chain(points.iter().copied());
                let instead = instead_of(name, known);
                return Err(format!("no scope is called '{name}'; {instead}").into());
            }
        },
    })
}

fn scope_named(name: &str) -> Option<Scope> {
    let fixed = table::all().into_iter().find(|scope| scope.name == name);
    fixed.or_else(|| points::named(name).map(|point| point.scope))
}

fn print_tally(name: &str, scheme: Scheme, tally: &Tally) -> Result<(), OutputFailed> {
    let share = if tally.allowed == tally.covered { "100 %" } else { "not all" };
    let end = if tally.complete { "" } else { "; cut short" };
    outln!(
        "{name}, {scheme}: {} schedules, {} crash points, {} images allowed, {} covered ({share}), \
         {} recovered and judged, {} known from equal crash points, {} distinct, {:.0} images/s{end}",
        tally.schedules,
        tally.crash_points,
        tally.allowed,
        tally.covered,
        tally.verified,
        tally.remembered,
        tally.distinct,
        tally.verify_rate(),
    );
    Ok(())
}
