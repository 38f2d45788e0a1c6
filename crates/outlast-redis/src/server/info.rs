//! `INFO`, and the same as metrics.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use outlast::{Abort, Medium, Space};

use super::state::State;
use crate::store::mem::Mem;
use crate::store::{DATABASES, Keys};

/// The version of Redis whose commands these are.
pub(crate) const VERSION: &str = "7.0.15";

/// A line of `INFO`: its section, name and value, and the metric that it is.
struct Line {
    section: &'static str,
    name: String,
    value: String,
    metric: Option<&'static str>,
}

/// The name of a line that only makes its section's head appear.
const HEAD_ONLY: &str = "";

/// Looking at the pool's space reads all bitmaps: it is done so often at most.
const SPACE_EVERY: Duration = Duration::from_secs(1);

/// Bytes as `INFO` shows them to people.
fn human(bytes: u64) -> String {
    let units = ["B", "K", "M", "G", "T"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes}B"),
        _ => format!("{value:.2}{}", units[unit]),
    }
}

impl State {
    /// How full the pool is.
    fn look_at_space(&mut self) -> Space {
        if let Some((when, space)) = self.space
            && when.elapsed() < SPACE_EVERY
        {
            return space;
        }
        let space = self.pool.space();
        self.space = Some((Instant::now(), space));
        self.space_peak_bytes = self.space_peak_bytes.max(space.used_bytes);
        space
    }

    /// Seconds since the last checkpoint, if there is one.
    fn checkpoint_age(&self) -> Option<u64> {
        let made = std::fs::metadata(&self.options.checkpoint).and_then(|data| data.modified());
        Some(SystemTime::now().duration_since(made.ok()?).unwrap_or_default().as_secs())
    }

    fn lines(&mut self, tx: &mut Mem<'_>) -> Result<Vec<Line>, Abort> {
        let (space, checkpoint_age) = (self.look_at_space(), self.checkpoint_age());
        (0..self.clients.len()).for_each(|slot| self.count_errors(slot));
        let mut lines = Vec::new();
        let mut add = |section, name: &str, value: String, metric| {
            lines.push(Line { section, name: name.to_owned(), value, metric });
        };
        let text = |value: &str| value.to_owned();
        add("Server", "redis_version", text(VERSION), None);
        add("Server", "redis_mode", text("standalone"), None);
        add("Server", "outlast_version", text(env!("CARGO_PKG_VERSION")), None);
        add("Server", "os", text(std::env::consts::OS), None);
        add("Server", "arch_bits", usize::BITS.to_string(), None);
        add("Server", "process_id", std::process::id().to_string(), None);
        add("Server", "run_id", self.run_id.clone(), None);
        let port = self.options.addresses.first().map_or(0, std::net::SocketAddr::port);
        add("Server", "tcp_port", port.to_string(), None);
        let uptime = self.started.elapsed().as_secs();
        add("Server", "uptime_in_seconds", uptime.to_string(), Some("gauge"));
        let clients = self.slots.len();
        add("Clients", "connected_clients", clients.to_string(), Some("gauge"));
        add("Clients", "maxclients", self.options.clients_max.to_string(), Some("gauge"));
        let blocked = self.clients.iter().flatten().filter(|client| client.blocked.is_some());
        add("Clients", "blocked_clients", blocked.count().to_string(), Some("gauge"));
        for (name, bytes) in [
            ("used_memory", space.used_bytes),
            ("used_memory_peak", self.space_peak_bytes),
            ("used_memory_dataset", space.used_bytes),
        ] {
            add("Memory", name, bytes.to_string(), Some("gauge"));
            if name != "used_memory_dataset" {
                add("Memory", &format!("{name}_human"), human(bytes), None);
            }
        }
        for (name, bytes) in [
            ("pool_bytes", self.pool.medium().len()),
            ("pool_heap_bytes", space.heap_bytes),
            ("pool_used_bytes", space.used_bytes),
            ("pool_free_bytes", space.free_bytes),
            ("pool_largest_free_bytes", space.largest_free_bytes),
            ("pool_log_bytes", space.log_bytes),
            ("pool_log_used_bytes", space.log_used_bytes),
            ("pool_fence_log_bytes", space.fence_log_bytes),
            ("pool_fence_log_used_bytes", space.fence_log_used_bytes),
        ] {
            add("Memory", name, bytes.to_string(), Some("gauge"));
        }
        add("Memory", "maxmemory", text("0"), None);
        add("Memory", "mem_allocator", text("outlast"), None);
        add("Memory", "used_memory_lua", self.scripts.memory_bytes().to_string(), Some("gauge"));
        let scripts = self.scripts.len().to_string();
        add("Memory", "number_of_cached_scripts", scripts, Some("gauge"));
        add("Memory", "maxmemory_policy", text("noeviction"), None);
        add("Persistence", "loading", text("0"), None);
        add("Persistence", "durability", text("every acknowledged write"), None);
        add("Persistence", "scheme", self.pool.scheme().to_string(), None);
        let domain = self.pool.medium().domain();
        add("Persistence", "domain", domain.to_string(), None);
        add("Persistence", "domain_promise", text(domain.promise()), None);
        add("Persistence", "aof_enabled", text("0"), None);
        let saves = i32::from(self.saving.runs.load(Ordering::Acquire));
        add("Persistence", "rdb_bgsave_in_progress", saves.to_string(), None);
        add("Persistence", "rdb_changes_since_last_save", self.counts.changes.to_string(), None);
        let last = self.saving.last.load(Ordering::Acquire);
        add("Persistence", "rdb_last_save_time", last.to_string(), None);
        if let Some(age) = checkpoint_age {
            add("Persistence", "checkpoint_age_seconds", age.to_string(), Some("gauge"));
        }
        let written = if self.has_failed { "err" } else { "ok" };
        add("Persistence", "aof_last_write_status", text(written), None);
        let failed = self.saving.has_failed.load(Ordering::Acquire);
        let status = if failed { "err" } else { "ok" };
        add("Persistence", "rdb_last_bgsave_status", text(status), None);
        let (counts, of_pool) = (&self.counts, self.pool.counters());
        let of_stats = [
            ("total_connections_received", counts.connections),
            ("total_commands_processed", counts.commands),
            ("rejected_connections", counts.refused),
            ("total_net_input_bytes", counts.read_bytes),
            ("total_net_output_bytes", counts.written_bytes),
            ("expired_keys", counts.expired),
            ("evicted_keys", 0),
            ("keyspace_hits", counts.hits),
            ("keyspace_misses", counts.misses),
            ("total_error_replies", counts.errors),
            ("transactions_of_data", counts.groups),
            ("commits", of_pool.commits),
            ("conflicts", of_pool.conflicts),
            ("aborts", of_pool.aborted()),
            ("fences", of_pool.fences),
            ("syncs", of_pool.syncs),
            ("sweeps", of_pool.sweeps),
            ("growths", of_pool.growths),
        ];
        for (name, value) in of_stats {
            add("Stats", name, value.to_string(), Some("counter"));
        }
        for (name, quantile) in
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)]
        {
            let name = format!("command_latency_us_{name}");
            let value = self.latency.quantile_us(quantile).to_string();
            add("Stats", &name, value, Some("gauge"));
        }
        add("Stats", "pubsub_channels", self.channels.channels.len().to_string(), Some("gauge"));
        add("Stats", "pubsub_patterns", self.channels.patterns.len().to_string(), Some("gauge"));
        add("Replication", "role", text("master"), None);
        add("Replication", "connected_slaves", text("0"), None);
        add("Errorstats", HEAD_ONLY, text(""), None);
        for (code, count) in &counts.error_codes {
            add("Errorstats", &format!("errorstat_{code}"), format!("count={count}"), None);
        }
        for database in 0..DATABASES {
            let mut keys = Keys {
                mem: &mut *tx,
                root: self.root,
                database,
                now: self.now,
                changes: &mut self.changes,
                random: &mut self.random,
            };
            let (len, expiring) = (keys.len()?, keys.expiring()?);
            if len > 0 {
                let value = format!("keys={len},expires={expiring},avg_ttl=0");
                add("Keyspace", &format!("db{database}"), value, None);
            }
        }
        Ok(lines)
    }

    /// The sections that are asked for, or all.
    pub fn info(&mut self, tx: &mut Mem<'_>, wanted: &[String]) -> Result<String, Abort> {
        let is_all = wanted.is_empty()
            || wanted.iter().any(|name| matches!(name.as_str(), "all" | "default" | "everything"));
        let mut text = String::new();
        let mut section = "";
        let is_wanted = |section: &str| is_all || wanted.contains(&section.to_lowercase());
        for line in self.lines(tx)? {
            if !is_wanted(line.section) {
                continue;
            }
            if line.section != section {
                if !text.is_empty() {
                    text.push_str("\r\n");
                }
                section = line.section;
                let _ = write!(text, "# {section}\r\n");
            }
            if line.name != HEAD_ONLY {
                let _ = write!(text, "{}:{}\r\n", line.name, line.value);
            }
        }
        Ok(text)
    }

    /// The answer to a request of HTTP.
    pub fn metrics(&mut self, tx: &mut Mem<'_>, request: &[u8]) -> Result<String, Abort> {
        let wanted =
            [&b"GET /metrics "[..], b"GET / "].iter().any(|line| request.starts_with(line));
        if !wanted {
            let body = "there is GET /metrics\n";
            return Ok(format!(
                "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            ));
        }
        let space = self.look_at_space();
        let stats = self.pool.stats_beside(space);
        let of_pool: Vec<_> = stats.rows().into_iter().map(|row| row.name).collect();
        let mut body = stats.to_prometheus();
        for line in self.lines(tx)? {
            if of_pool.contains(&line.name.as_str()) {
                continue;
            }
            if let Some(kind) = line.metric {
                let name = format!("outlast_{}", line.name);
                let _ = write!(body, "# TYPE {name} {kind}\n{name} {}\n", line.value);
            } else if line.section == "Keyspace" {
                let keys = line.value.split([',', '=']).nth(1).unwrap_or("0");
                let _ = writeln!(body, "outlast_keys{{database=\"{}\"}} {keys}", &line.name[2..]);
            }
        }
        Ok(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ))
    }
}
