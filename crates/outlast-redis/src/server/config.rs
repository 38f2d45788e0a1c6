//! Parameters, as `CONFIG` shows and takes them.

use std::collections::BTreeMap;

use super::notify::Notifications;
use super::options::Options;

/// A parameter: its name, its value, and what setting it does.
struct Parameter {
    value: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It has an effect.
    Works,
    /// It is taken and shown, for the sake of programs that set it, and changes nothing here.
    Taken,
    /// It was decided when the server began.
    Fixed,
}

pub(super) struct Config {
    parameters: BTreeMap<&'static str, Parameter>,
}

const TAKEN: &[(&str, &str)] = &[
    ("activedefrag", "no"),
    ("appendfsync", "always"),
    ("hash-max-listpack-entries", "128"),
    ("hash-max-listpack-value", "64"),
    ("hash-max-ziplist-entries", "128"),
    ("hash-max-ziplist-value", "64"),
    ("hz", "10"),
    ("latency-monitor-threshold", "0"),
    ("lazyfree-lazy-eviction", "yes"),
    ("lazyfree-lazy-expire", "yes"),
    ("lazyfree-lazy-server-del", "yes"),
    ("lazyfree-lazy-user-del", "yes"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("rdb-key-save-delay", "0"),
    ("save", ""),
    ("set-max-intset-entries", "512"),
    ("slowlog-log-slower-than", "10000"),
    ("slowlog-max-len", "128"),
    ("stream-node-max-bytes", "4096"),
    ("timeout", "0"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("zset-max-ziplist-entries", "128"),
    ("zset-max-ziplist-value", "64"),
];

impl Config {
    pub fn new(options: &Options) -> Self {
        let mut parameters = BTreeMap::new();
        let mut add = |name, value: String, kind| {
            parameters.insert(name, Parameter { value, kind });
        };
        for &(name, value) in TAKEN {
            add(name, value.to_owned(), Kind::Taken);
        }
        add("appendonly", "no".to_owned(), Kind::Fixed);
        add("bind", addresses(options), Kind::Fixed);
        add("databases", crate::store::DATABASES.to_string(), Kind::Fixed);
        add("dbfilename", file_name(options), Kind::Fixed);
        add("dir", directory(options), Kind::Fixed);
        let port = options.addresses.first().map_or(0, std::net::SocketAddr::port);
        add("port", port.to_string(), Kind::Fixed);
        let unix = options.unix.as_ref().map(|path| path.display().to_string());
        add("unixsocket", unix.unwrap_or_default(), Kind::Fixed);
        add("maxmemory", "0".to_owned(), Kind::Fixed);
        add("maxmemory-policy", "noeviction".to_owned(), Kind::Fixed);
        add("maxclients", options.clients_max.to_string(), Kind::Works);
        add("proto-max-bulk-len", options.bulk_bytes_max.to_string(), Kind::Works);
        add("client-query-buffer-limit", options.query_bytes_max.to_string(), Kind::Works);
        add(NODE_ENTRIES, "100".to_owned(), Kind::Works);
        add(NOTIFY, String::new(), Kind::Works);
        for name in SCRIPT_LIMITS {
            add(name, options.script_ms_max.to_string(), Kind::Works);
        }
        add("requirepass", options.password.clone().unwrap_or_default(), Kind::Works);
        Self { parameters }
    }

    /// Names and values that a pattern matches.
    pub fn matching(&self, pattern: &[u8]) -> impl Iterator<Item = (&'static str, &str)> {
        self.parameters
            .iter()
            .filter(move |(name, _)| crate::glob::matches(pattern, name.as_bytes(), true))
            .map(|(name, parameter)| (*name, parameter.value.as_str()))
    }

    /// The value of a parameter; the empty one where there is none.
    pub fn value(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", |parameter| parameter.value.as_str())
    }

    /// Sets a parameter, also in the options where it has an effect.
    ///
    /// # Errors
    /// The answer.
    pub fn set(&mut self, name: &[u8], value: &[u8], options: &mut Options) -> Result<(), String> {
        let shown = String::from_utf8_lossy(name).to_lowercase();
        let failed = |why: &str| {
            format!("ERR CONFIG SET failed (possibly related to argument '{shown}') - {why}")
        };
        if SCRIPT_LIMITS.contains(&shown.as_str()) {
            let limit = String::from_utf8_lossy(value).parse().ok();
            let limit = limit.filter(|limit| (1..=SCRIPT_MS_MAX).contains(limit));
            let why = "argument must be from 1 to 3600000 ms: nothing else ends a script";
            options.script_ms_max = limit.ok_or_else(|| failed(why))?;
            for name in SCRIPT_LIMITS {
                if let Some(parameter) = self.parameters.get_mut(name) {
                    parameter.value = options.script_ms_max.to_string();
                }
            }
            return Ok(());
        }
        let Some(parameter) = self.parameters.get_mut(shown.as_str()) else {
            return Err(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{shown}'"
            ));
        };
        let mut value = String::from_utf8_lossy(value).into_owned();
        match parameter.kind {
            Kind::Taken => {}
            Kind::Fixed if parameter.value == value => {}
            Kind::Fixed => return Err(failed("can't set immutable config")),
            Kind::Works => match shown.as_str() {
                "maxclients" => {
                    let count = value.parse().map_err(|_| failed("argument must be a number"))?;
                    options.clients_max = count;
                }
                NODE_ENTRIES => {
                    let count: Option<u64> = value.parse().ok();
                    count.ok_or_else(|| failed("argument couldn't be parsed into an integer"))?;
                }
                NOTIFY => value = Notifications::parse(&value).map_err(failed)?.shown(),
                "proto-max-bulk-len" => options.bulk_bytes_max = bytes(&value, &failed)?,
                "client-query-buffer-limit" => options.query_bytes_max = bytes(&value, &failed)?,
                _ => {
                    let is_open =
                        options.addresses.iter().any(|address| !address.ip().is_loopback());
                    if value.is_empty() && is_open {
                        return Err(failed("others can reach the server: it needs a password"));
                    }
                    options.password = Some(value.clone()).filter(|value| !value.is_empty());
                }
            },
        }
        parameter.value = value;
        Ok(())
    }
}

/// The parameter with the entries that approximate trimming of streams removes together.
pub(super) const NODE_ENTRIES: &str = "stream-node-max-entries";

/// The parameter with the classes of events that are published.
pub(super) const NOTIFY: &str = "notify-keyspace-events";

/// Both names of the time that a script may run.
const SCRIPT_LIMITS: [&str; 2] = ["busy-reply-threshold", "lua-time-limit"];
const SCRIPT_MS_MAX: u64 = 3_600_000;

/// The largest limit: no value of the pool is longer.
const BYTES_MAX: u64 = 1 << 30;

fn bytes(value: &str, failed: &dyn Fn(&str) -> String) -> Result<usize, String> {
    let lower = value.to_lowercase();
    let units: [(&str, u64); 7] = [
        ("gb", 1 << 30),
        ("mb", 1 << 20),
        ("kb", 1 << 10),
        ("g", 1_000_000_000),
        ("m", 1_000_000),
        ("k", 1000),
        ("b", 1),
    ];
    let unit = units.iter().find_map(|(name, scale)| Some((lower.strip_suffix(name)?, *scale)));
    let (digits, scale) = unit.unwrap_or((lower.as_str(), 1));
    let count: Option<u64> = digits.parse().ok();
    let bytes = count.and_then(|count| count.checked_mul(scale));
    let bytes = bytes.filter(|bytes| *bytes <= BYTES_MAX && *bytes >= 1024);
    bytes
        .map(|bytes| bytes as usize)
        .ok_or_else(|| failed("argument must be a memory value from 1kb to 1gb"))
}

fn addresses(options: &Options) -> String {
    let texts: Vec<String> =
        options.addresses.iter().map(|address| address.ip().to_string()).collect();
    texts.join(" ")
}

fn file_name(options: &Options) -> String {
    let name = options.checkpoint.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn directory(options: &Options) -> String {
    let parent = options.checkpoint.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or_else(|| ".".to_owned(), |parent| parent.display().to_string())
}
