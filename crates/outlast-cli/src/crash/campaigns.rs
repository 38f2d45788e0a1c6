//! Random campaigns.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use outlast::lab::Plant;
use outlast::{Ack, Scheme};
use outlast_check::part::Part;
use outlast_crash::runtime::campaign::{
    Caches, Campaign, CampaignReport, Counts, CrashOp, LANE_BYTES_MAX, OBJECT_BYTES, parse_domain,
};
use outlast_lab::crash::{campaigns, look};
use outlast_lab::explain;
use outlast_lab::html;
use outlast_lab::progress::Progress;
use outlast_lab::record::Document;
use outlast_sim::{Domain, Policy};
use outlast_workloads::Layout;
use outlast_workloads::own::OwnWork;

use super::{ALL, ANY, CrashArgs, LANES, no_promise};
use crate::planted::Trials;
use crate::report::Scale;
use crate::say::{OutputFailed, Teller, noteln, out, outln, plain};
use crate::{CommandResult, Verdict, names, size};

/// Options of random campaigns.
#[derive(Args)]
pub struct CampaignArgs {
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
    /// Bytes of each lane's log [default: 4K].
    #[arg(long, value_parser = size::within(1, LANE_BYTES_MAX))]
    lane_bytes: Option<u64>,
    /// Runs at the published sizes of values, on one lane and in one kind of caches. Crashes only
    /// after WARM_UP transactions, and counts stale objects.
    #[arg(long)]
    warm_up: Option<u32>,
    /// The pool keeps checksums, with which recovered pools are compared; for undo-archapt and
    /// redo-archapt.
    #[arg(long)]
    checksums: bool,
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
    /// Only this crash point, OPERATIONS or OPERATIONS+LINES: replays a failure.
    #[arg(long)]
    crash_op: Option<CrashOp>,
    /// Tries one part of the crash points, 1/N to N/N, each of them whatever fails: together they are the
    /// whole. Not with `--policy any`.
    #[arg(long, value_name = "PART/PARTS", conflicts_with_all = ["crash_op", "shrink", "explain", "keep"])]
    part: Option<Part>,
    /// Writes one crash into this folder: the pool's bytes before the run, after the crash and after
    /// recovery, the journal as JSON, and a page. The crash is that of --crash-op under the first policy
    /// and caches, or the first that fails.
    #[arg(long, value_name = "DIR")]
    pub(super) keep: Option<PathBuf>,
    /// Recoveries do not crash too, and pools do not go on after them.
    #[arg(long)]
    single: bool,
    /// Makes the first failure smaller: fewer transactions, an earlier crash.
    #[arg(long)]
    shrink: bool,
    /// Tells one failing image: operations on a time line, which lines had reached memory, what
    /// recovery did, what the oracle expected and found. WORKLOAD is a scope, or a flaw of a paper:
    /// ARC-2, HWL-1, EHOU-2, PICL-1 and so on; with --plant it may be left out. With --crash-op or
    /// --keep, an image of a workload's campaign.
    #[arg(long)]
    pub(super) explain: bool,
    /// Writes what --explain or --keep tells as a page.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

impl CrashArgs {
    /// Whether the first failure is the end. Parts judge all of their points, or the whole would depend on
    /// their number.
    fn until_failure(&self, plant: Option<Plant>) -> bool {
        let CampaignArgs { part, shrink, crash_op, .. } = &self.campaign;
        part.is_none() && (plant.is_some() || *shrink || crash_op.is_some())
    }
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

impl CampaignArgs {
    /// Whether one crash of a campaign is to be shown, and not counted.
    pub(super) fn is_looked_at(&self) -> bool {
        self.keep.is_some() || (self.explain && self.crash_op.is_some())
    }

    /// Writes the page of --html, if it is asked for.
    pub(super) fn write_page(&self, document: &Document) -> Result<(), String> {
        let Some(file) = &self.html else { return Ok(()) };
        std::fs::write(file, html::explained(document))
            .map_err(|error| format!("{}: {}", file.display(), plain(&error)))
    }

    /// Why the exhaustive search refuses these options, if it does.
    pub(super) fn refused_by_search(&self) -> Option<&'static str> {
        if self.part.is_some() {
            return Some("--part goes with random campaigns: a scope is searched as a whole");
        }
        if self.sync_every.is_some() {
            return Some(
                "--sync-every goes with random campaigns: scopes that begin with 'later' commit asynchronously",
            );
        }
        if self.html.is_some() {
            return Some("--html goes with --explain or --keep");
        }
        let has_layout = self.layout != Layout::default();
        has_layout.then_some("--layout goes with random campaigns: the words of a scope have none")
    }
}

/// Crashes a workload on models of caches, judges, prints.
pub(super) fn run(
    args: &CrashArgs,
    name: &str,
    schemes: &[Scheme],
    plant: Option<Plant>,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    let campaigns = campaigns_of(args, name, schemes, plant, seed)?;
    if args.campaign.is_looked_at() {
        return look(args, &campaigns, as_json, seed);
    }
    if args.campaign.html.is_some() {
        return Err("--html goes with --explain or --keep".into());
    }
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let (mut verdict, mut trials) = (Verdict::Good, Trials::default());
    for campaign in campaigns {
        let before = Plant::times_met();
        let report = run_campaign(&campaign)?;
        trials.note(campaign.scheme, before, report.failure.is_some());
        document.records.extend(campaigns::report_records(&report));
        document.failures.extend(campaigns::failed_points(&report));
        if !as_json {
            print_report(&report)?;
        }
        if report.is_guilty() {
            verdict = Verdict::Bad;
            tell_failure(&report, args.campaign.shrink)?;
        }
    }
    if as_json {
        out!("{}", document.to_json());
    }
    Ok(verdict.and(plant.map(|plant| trials.verdict(plant))))
}

/// Shows one crash of each campaign, where there are several under a folder of its scheme.
fn look(args: &CrashArgs, campaigns: &[Campaign], as_json: bool, seed: u64) -> CommandResult {
    let new_document =
        || Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let (mut document, mut verdict) = (new_document(), Verdict::Good);
    for campaign in campaigns {
        let look = campaign.look()?;
        let told = look.explain();
        if look.failure.is_some() && no_promise(campaign.scheme).is_none() {
            verdict = Verdict::Bad;
        }
        if let Some(folder) = &args.campaign.keep {
            let folder = match campaigns {
                [_] => folder.clone(),
                _ => folder.join(campaign.scheme.name().replace(':', "-")),
            };
            let own = Document { explained: vec![told.clone()], ..new_document() };
            look::save(&look, &folder, &own)
                .map_err(|error| format!("{}: {}", folder.display(), plain(&error)))?;
        }
        if !as_json {
            out!("{}", explain::text(&told));
        }
        document.explained.push(told);
    }
    args.campaign.write_page(&document)?;
    if as_json {
        out!("{}", document.to_json());
    }
    Ok(verdict)
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
    if args.campaign.scale.is_some() {
        return Err(format!("--scale goes with `{ALL}`; --points say how many crashes").into());
    }
    let workload = names::judged_workload(name, &[ALL])?;
    let own_lanes = workload.own().map(OwnWork::lanes);
    let given = [
        ("--keys", args.keys.is_some()),
        ("--lanes", args.lanes.is_some_and(|lanes| Some(lanes) != own_lanes)),
        ("--warm-up", args.campaign.warm_up.is_some()),
        ("--layout", args.campaign.layout != Layout::default()),
    ];
    names::check_of_file(workload, &given)?;
    let campaign = |scheme| {
        let plain = Campaign { lanes: LANES, ..Campaign::new(workload, scheme) }.of_file();
        Campaign {
            policies: policies.clone(),
            caches: if args.campaign.caches.is_empty() {
                plain.caches
            } else {
                args.campaign.caches.clone()
            },
            points: args.campaign.points.unwrap_or(2_000),
            lanes: args.lanes.unwrap_or(plain.lanes),
            lane_bytes: args.campaign.lane_bytes.unwrap_or(plain.lane_bytes),
            keys: args.keys.unwrap_or(plain.keys),
            transactions: args.transactions.unwrap_or(plain.transactions),
            seed,
            plant,
            until_failure: args.until_failure(plant),
            part: args.campaign.part,
            domain: args.campaign.domain,
            second_crash: !args.campaign.single,
            warm_up: args.campaign.warm_up,
            checksums: args.campaign.checksums,
            ack: args.ack,
            sync_every: args.campaign.sync_every,
            layout: args.campaign.layout,
            crash_at: args.campaign.crash_op,
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
        ("--points", args.campaign.points.is_some()),
        ("--keys", args.keys.is_some()),
        ("--lanes", args.lanes.is_some()),
        ("--lane-bytes", args.campaign.lane_bytes.is_some()),
        ("--transactions", args.transactions.is_some()),
        ("--caches", !args.campaign.caches.is_empty()),
        ("--warm-up", args.campaign.warm_up.is_some()),
        ("--crash-op", args.campaign.crash_op.is_some()),
    ];
    if let Some((given, _)) = is_given.into_iter().find(|option| option.1) {
        return Err(format!("{given} goes with one workload; `{ALL}` has --scale").into());
    }
    let size = args.campaign.scale.unwrap_or(Scale::Quick).size();
    let campaigns = campaigns::all(schemes.iter().copied(), size, seed);
    let campaign = |campaign| Campaign {
        policies: policies.to_vec(),
        plant,
        until_failure: args.until_failure(plant),
        part: args.campaign.part,
        domain: args.campaign.domain,
        second_crash: !args.campaign.single,
        checksums: args.campaign.checksums,
        ack: args.ack,
        sync_every: args.campaign.sync_every,
        layout: args.campaign.layout,
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
        campaign.domain.name(),
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
