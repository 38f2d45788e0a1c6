//! What is chosen of the hardware, and what lies where in its memory.

/// Cores of the hardware.
pub const CORES: usize = 2;

/// Words in which a core's registers are saved: instructions retired, program counter, six registers.
pub(crate) const SAVED_WORDS: u64 = 8;

/// Parameters of `rtl/top.sv`, and how memory is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Whether there is PiCL at all.
    pub picl: bool,
    /// Whether a plant can be chosen at run time.
    pub plants: bool,
    /// Bytes of a private line, which is what an EID speaks of: 16 or 64.
    pub granule: u64,
    /// Bits of a 64-byte line's number: programs and saved registers lie in that range.
    pub home_bits: u32,
    /// Sets and ways of private caches.
    pub l2: (u64, u64),
    /// Sets and ways of the last level.
    pub llc: (u64, u64),
    /// Epochs that have ended and are not scanned for.
    pub acs_gap: u64,
    /// Entries of the undo buffer, and of a block.
    pub undo_entries: u64,
    /// Whether a second buffer collects entries while the first is written.
    pub double_buffer: bool,
    /// Bits of the filter.
    pub bloom_bits: u64,
    /// Blocks of a chunk of the log.
    pub chunk: u64,
    /// Chunks at most.
    pub max_chunks: u64,
    /// 64-byte lines of programs.
    pub lines: u64,
}

impl Config {
    /// Hardware in which everything is rare: caches of a few lines, blocks of four entries.
    pub fn small(granule: u64) -> Self {
        Self {
            picl: true,
            plants: true,
            granule,
            home_bits: 5,
            l2: (2, 2),
            llc: (4, 2),
            acs_gap: 1,
            undo_entries: 4,
            double_buffer: true,
            bloom_bits: 256,
            chunk: 8,
            max_chunks: 8,
            lines: 24,
        }
    }

    /// The sizes of the paper's prototype: OpenPiton's private cache of 8 KB and slice of 64 KB, 2 KB
    /// blocks, a filter of 4096 bits.
    pub fn prototype(granule: u64, picl: bool) -> Self {
        Self {
            picl,
            plants: false,
            granule,
            home_bits: 26,
            l2: (8192 / granule / 4, 4),
            llc: (256, 4),
            acs_gap: 3,
            undo_entries: 28,
            double_buffer: true,
            bloom_bits: 4096,
            chunk: 64,
            max_chunks: 4,
            lines: 0,
        }
    }

    /// The parameters by their names.
    pub fn parameters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("PICL", self.picl.into()),
            ("PLANTS", self.plants.into()),
            ("GRANULE", self.granule),
            ("HOME_BITS", self.home_bits.into()),
            ("L2_SETS", self.l2.0),
            ("L2_WAYS", self.l2.1),
            ("LLC_SETS", self.llc.0),
            ("LLC_WAYS", self.llc.1),
            ("ACS_GAP", self.acs_gap),
            ("UNDO_ENTRIES", self.undo_entries),
            ("DOUBLE_BUFFER", self.double_buffer.into()),
            ("BLOOM_BITS", self.bloom_bits),
            ("CHUNK", self.chunk),
            ("MAX_CHUNKS", self.max_chunks),
        ]
    }

    /// Bits of the number of a private line.
    fn line_bits(&self) -> u64 {
        u64::from(self.home_bits + (64 / self.granule).ilog2())
    }

    /// The parameters of `rtl/l2.sv`.
    pub(crate) fn l2_parameters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("PICL", self.picl.into()),
            ("GRANULE", self.granule),
            ("L2_SETS", self.l2.0),
            ("L2_WAYS", self.l2.1),
            ("LINE_BITS", self.line_bits()),
        ]
    }

    /// Those of `rtl/undo_log.sv`.
    pub(crate) fn log_parameters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("GRANULE", self.granule),
            ("LINE_BITS", self.line_bits()),
            ("UNDO_ENTRIES", self.undo_entries),
            ("DOUBLE_BUFFER", self.double_buffer.into()),
            ("BLOOM_BITS", self.bloom_bits),
            ("CHUNK", self.chunk),
            ("MAX_CHUNKS", self.max_chunks),
        ]
    }

    pub(crate) fn place(&self) -> Place {
        Place { config: *self }
    }
}

/// What lies where: programs' lines, a 64-byte line of registers for each core, the log's header, the
/// log. Words are numbered as the hardware numbers them.
///
/// The image that recovery reads is the same where a granule has 64 bytes. Smaller granules take a line
/// each there, their bytes first and zeros behind, because recovery's lines have 64 bytes and the number
/// of an entry's line is that of its granule.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    config: Config,
}

impl Place {
    /// The word at which a core's registers are saved.
    pub(crate) fn registers(self, core: usize) -> u32 {
        8 * (self.config.lines as u32 + core as u32)
    }

    /// The header's first word.
    pub(crate) fn header(self) -> u32 {
        self.registers(CORES)
    }

    /// Words of a block of the log.
    fn block_words(self) -> u64 {
        8 * ((4 + self.config.undo_entries).div_ceil(8) + self.config.undo_entries)
    }

    /// Bytes of a block of the log.
    pub(crate) fn block_bytes(self) -> u64 {
        8 * self.block_words()
    }

    /// All words.
    pub(crate) fn words(self) -> usize {
        let log = self.config.chunk * self.config.max_chunks * self.block_words();
        self.header() as usize + 8 + log as usize
    }

    /// Granules before the header, which are lines of the image.
    pub(crate) fn header_line(self) -> u64 {
        u64::from(self.header()) * 8 / self.config.granule
    }

    /// Lines of the image in which a core's registers are saved.
    pub(crate) fn saved_lines(self) -> u64 {
        8 * SAVED_WORDS / self.config.granule
    }

    /// Granules of programs.
    pub(crate) fn program_lines(self) -> u64 {
        64 * self.config.lines / self.config.granule
    }

    /// Where a word of home is in the image: its byte.
    pub(crate) fn byte_of(self, word: u32) -> u64 {
        let (byte, granule) = (8 * u64::from(word), self.config.granule);
        byte / granule * 64 + byte % granule
    }

    /// The image of these words.
    pub(crate) fn image(self, words: &[u64]) -> Vec<u8> {
        let (home, log) = words.split_at(self.header() as usize);
        let mut image = vec![0; 64 * self.header_line() as usize];
        for (word, value) in (0..).zip(home) {
            image[self.byte_of(word) as usize..][..8].copy_from_slice(&value.to_le_bytes());
        }
        image.extend(log.iter().flat_map(|word| word.to_le_bytes()));
        image
    }

    /// The words of an image.
    pub(crate) fn words_of(self, image: &[u8]) -> Vec<u64> {
        let word = |byte: u64| {
            let bytes = image[byte as usize..][..8].try_into().expect("eight bytes were taken");
            u64::from_le_bytes(bytes)
        };
        let header = u64::from(self.header());
        let home = (0..self.header()).map(|number| word(self.byte_of(number)));
        let log = (header..self.words() as u64)
            .map(|number| word(64 * self.header_line() + 8 * (number - header)));
        home.chain(log).collect()
    }
}
