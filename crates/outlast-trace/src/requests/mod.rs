//! Lists of memory requests as other simulators read and write them, and conversions between them.
//!
//! | format | a request | has | has not |
//! |---|---|---|---|
//! | `dramsim3` | `0xADDRESS READ\|WRITE CYCLE` | cycles of the memory clock | sizes |
//! | `ramulator` | `0xADDRESS R\|W`, of Ramulator's mode `dram` | | times, sizes |
//! | `ramulator2` | `LD\|ST 0xADDRESS`, of Ramulator 2's `LoadStoreTrace` | | times, sizes |
//! | `gem5` | a packet of gem5's `packet.proto` | ticks, sizes, program counters, numbers, flags | |
//!
//! A conversion that would lose something is refused, unless it is named as a [`Loss`]. A list without
//! sizes is one of lines of 64 bytes.

mod gem5;
mod text;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{LINE_BYTES, WholeFile};

/// A format of such lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestFormat {
    /// DRAMsim3's.
    Dramsim3,
    /// Ramulator's mode `dram`.
    Ramulator,
    /// Ramulator 2's loads and stores.
    Ramulator2,
    /// gem5's packets.
    Gem5,
}

impl RequestFormat {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Dramsim3, "dramsim3"),
        (Self::Ramulator, "ramulator"),
        (Self::Ramulator2, "ramulator2"),
        (Self::Gem5, "gem5"),
    ];

    fn has_times(self) -> bool {
        matches!(self, Self::Dramsim3 | Self::Gem5)
    }
}

impl fmt::Display for RequestFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL[*self as usize].1)
    }
}

/// What a conversion may leave out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Times of requests.
    Times,
    /// Sizes of accesses.
    Sizes,
    /// Program counters, numbers and flags of gem5's packets.
    Fields,
    /// Packets that are neither plain reads nor plain writes.
    Commands,
    /// Accesses and instructions outside of transactions.
    Outside,
}

impl Loss {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Times, "times"),
        (Self::Sizes, "sizes"),
        (Self::Fields, "fields"),
        (Self::Commands, "commands"),
        (Self::Outside, "outside"),
    ];
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL[*self as usize].1)
    }
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0);
        let known = Self::ALL.map(|row| row.1).join(", ");
        found.ok_or_else(|| format!("nothing called '{name}' can be lost; there are {known}"))
    }
}

/// How a list is converted.
#[derive(Clone, Debug, Default)]
pub struct RequestOptions {
    /// What may be lost.
    pub lose: Vec<Loss>,
    /// Cycles of the memory clock, in hertz: between cycles and gem5's ticks.
    pub clock_hz: Option<u64>,
    /// Cycles from one request to the next where the list has no times.
    pub every: Option<u64>,
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryAccess {
    /// Its first byte.
    pub address: u64,
    /// Whether it writes.
    pub writes: bool,
    /// When, in cycles or ticks, where the format says.
    pub time: Option<u64>,
    /// Its bytes, where the format says.
    pub bytes: Option<u64>,
    /// Whether it has a program counter, a number or flags.
    pub has_fields: bool,
}

/// A list that cannot be read, or a conversion that would lose something.
#[derive(Debug)]
pub struct RequestsError {
    path: PathBuf,
    why: String,
}

impl RequestsError {
    fn new(path: &Path, why: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

impl fmt::Display for RequestsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path.display(), self.why)
    }
}

impl std::error::Error for RequestsError {}

/// What a reader of one format does.
trait Source {
    /// The next request; none at the end. An error begins with its place.
    fn next(&mut self) -> Result<Option<MemoryAccess>, String>;

    /// Ticks in a second, where times are ticks.
    fn ticks_per_second(&self) -> Option<u64> {
        None
    }
}

/// A list of requests, in whichever format.
pub struct RequestList {
    path: PathBuf,
    format: RequestFormat,
    source: Box<dyn Source>,
}

impl fmt::Debug for RequestList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestList({}, {})", self.path.display(), self.format)
    }
}

/// A file's bytes, unpacked where it is a gzip file.
fn input(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::new(File::open(path)?);
    let is_packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(match is_packed {
        true => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(file))),
        false => Box::new(file),
    })
}

impl RequestList {
    /// Opens a list in the format that its begin says; none where that is of no list.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged at its begin.
    pub fn open(path: &Path) -> Result<Option<Self>, RequestsError> {
        let failed = |error: io::Error| RequestsError::new(path, format!(": {error}"));
        let mut input = input(path).map_err(failed)?;
        let start = input.fill_buf().map_err(failed)?;
        let format = match start {
            _ if start.starts_with(gem5::MAGIC) => Some(RequestFormat::Gem5),
            _ => text::format_of(start),
        };
        let Some(format) = format else { return Ok(None) };
        let source: Box<dyn Source> = match format {
            RequestFormat::Gem5 => {
                let packets = gem5::Packets::open(input);
                Box::new(packets.map_err(|why| RequestsError::new(path, why))?)
            }
            _ => Box::new(text::Lines::new(format, input)),
        };
        Ok(Some(Self { path: path.to_owned(), format, source }))
    }

    /// Its format.
    pub fn format(&self) -> RequestFormat {
        self.format
    }

    /// The next request; none at the end.
    ///
    /// # Errors
    /// What cannot be read, with its place.
    pub fn read(&mut self) -> Result<Option<MemoryAccess>, RequestsError> {
        self.source.next().map_err(|why| {
            let is_other = why == gem5::OTHER_COMMAND;
            let other = ": a packet that is no ReadReq and no WriteReq".to_owned();
            RequestsError::new(&self.path, if is_other { other } else { why })
        })
    }

    /// Writes all requests that are left in another format; how many that were. The file is compressed where it
    /// is of gem5's and its name ends in `.gz`.
    ///
    /// # Errors
    /// What the other format cannot hold and was not to be lost; nothing is written then. What cannot be read or
    /// written.
    pub fn convert(
        mut self,
        to: RequestFormat,
        out: &Path,
        options: &RequestOptions,
    ) -> Result<u64, RequestsError> {
        let from = self.format;
        let refused = |path: &Path, why: String| RequestsError::new(path, format!(": {why}"));
        if from == to {
            return Err(refused(&self.path, format!("it is of {to} already")));
        }
        let times = Times::of(from, to, self.source.ticks_per_second(), options)
            .map_err(|why| refused(&self.path, why))?;
        let failed = |error: io::Error| RequestsError::new(out, format!(": {error}"));
        let mut file = Output::create(out, to).map_err(failed)?;
        let mut count = 0;
        loop {
            let mut request = match self.source.next() {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(why) if why == gem5::OTHER_COMMAND => {
                    lose(
                        options,
                        Loss::Commands,
                        "a packet that is no ReadReq and no WriteReq",
                        to,
                    )
                    .map_err(|why| refused(&self.path, why))?;
                    continue;
                }
                Err(why) => return Err(RequestsError::new(&self.path, why)),
            };
            if to != RequestFormat::Gem5 {
                if let Some(bytes) = request.bytes.filter(|bytes| *bytes != LINE_BYTES) {
                    lose(options, Loss::Sizes, &format!("a request of {bytes} bytes"), to)
                        .map_err(|why| refused(&self.path, why))?;
                }
                if request.has_fields {
                    lose(options, Loss::Fields, "program counters, numbers or flags", to)
                        .map_err(|why| refused(&self.path, why))?;
                }
            }
            request.time = times.of_request(count, request.time);
            file.put(&request).map_err(failed)?;
            count += 1;
        }
        file.finish().map_err(failed)?;
        Ok(count)
    }
}

/// Refuses to lose something that was not named.
fn lose(options: &RequestOptions, loss: Loss, what: &str, to: RequestFormat) -> Result<(), String> {
    match options.lose.contains(&loss) {
        true => Ok(()),
        false => Err(format!("{to} cannot hold {what}: --lose {loss} leaves that out")),
    }
}

/// What becomes of times.
enum Times {
    Lost,
    Every(u64),
    /// Multiplied and divided; rounded up where the result is finer.
    Scaled {
        by: u128,
        over: u128,
        up: bool,
    },
}

impl Times {
    fn of(
        from: RequestFormat,
        to: RequestFormat,
        ticks_per_second: Option<u64>,
        options: &RequestOptions,
    ) -> Result<Self, String> {
        let clock = || {
            let clock = options.clock_hz.filter(|clock| *clock > 0);
            clock.ok_or_else(|| {
                "gem5 counts ticks and dramsim3 cycles: --clock says the memory's clock".to_owned()
            })
        };
        let ticks = |cycles: u64| -> Result<Self, String> {
            let every = u128::from(cycles) * u128::from(gem5::TICKS_PER_SECOND);
            let every = every.div_ceil(clock()?.into());
            Ok(Self::Every(u64::try_from(every).unwrap_or(u64::MAX)))
        };
        match (from.has_times(), to.has_times()) {
            (true, false) => {
                lose(options, Loss::Times, "times", to)?;
                Ok(Self::Lost)
            }
            (false, false) => Ok(Self::Lost),
            (false, true) => {
                let every = options.every.ok_or_else(|| {
                    format!("{from} has no times and {to} needs some: --every says the cycles between requests")
                })?;
                if to == RequestFormat::Gem5 { ticks(every) } else { Ok(Self::Every(every)) }
            }
            (true, true) if to == RequestFormat::Gem5 => {
                let by = gem5::TICKS_PER_SECOND.into();
                Ok(Self::Scaled { by, over: clock()?.into(), up: true })
            }
            (true, true) => {
                let over = ticks_per_second.unwrap_or(gem5::TICKS_PER_SECOND).max(1).into();
                Ok(Self::Scaled { by: clock()?.into(), over, up: false })
            }
        }
    }

    fn of_request(&self, number: u64, time: Option<u64>) -> Option<u64> {
        match *self {
            Self::Lost => None,
            Self::Every(every) => Some(number.saturating_mul(every)),
            Self::Scaled { by, over, up } => time.map(|time| {
                let scaled = u128::from(time) * by;
                let time = if up { scaled.div_ceil(over) } else { scaled / over };
                u64::try_from(time).unwrap_or(u64::MAX)
            }),
        }
    }
}

/// A list being written.
enum Output {
    Text(RequestFormat, WholeFile),
    Packets(WholeFile),
    Packed(Box<flate2::write::GzEncoder<WholeFile>>),
}

impl Output {
    fn create(path: &Path, format: RequestFormat) -> io::Result<Self> {
        let file = WholeFile::create(path)?;
        if format != RequestFormat::Gem5 {
            return Ok(Self::Text(format, file));
        }
        let mut output = match path.extension().is_some_and(|extension| extension == "gz") {
            true => Self::Packed(Box::new(flate2::write::GzEncoder::new(file, Default::default()))),
            false => Self::Packets(file),
        };
        output.write_all(&gem5::header())?;
        Ok(output)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Text(_, file) | Self::Packets(file) => file.write_all(bytes),
            Self::Packed(file) => file.write_all(bytes),
        }
    }

    fn put(&mut self, request: &MemoryAccess) -> io::Result<()> {
        match self {
            Self::Text(format, _) => {
                let line = text::line(*format, request);
                self.write_all(line.as_bytes())
            }
            _ => self.write_all(&gem5::packet(request)),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Text(_, file) | Self::Packets(file) => file.finish(),
            Self::Packed(file) => file.finish().and_then(WholeFile::finish),
        }
    }
}

#[cfg(test)]
mod tests;
