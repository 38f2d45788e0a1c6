//! A memory's timings in cycles of its own clock, and where its addresses go.

use crate::timed::config::{Field, Mapping, MemoryConfig};
use outlast_trace::{LINE_BYTES, LineAddr};

/// JEDEC's constraints, in memory clock cycles. Names are the standard's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) cl: u64,
    pub(super) cwl: u64,
    pub(super) rcd: u64,
    pub(super) rp: u64,
    pub(super) ras: u64,
    pub(super) burst: u64,
    pub(super) ccd_s: u64,
    pub(super) ccd_l: u64,
    pub(super) rrd_s: u64,
    pub(super) rrd_l: u64,
    pub(super) faw: u64,
    pub(super) wr: u64,
    pub(super) wtr_s: u64,
    pub(super) wtr_l: u64,
    pub(super) rtp: u64,
    pub(super) rtrs: u64,
    pub(super) refi: u64,
    pub(super) rfc: u64,
    pub(super) rfc_pb: u64,
    pub(super) rrefd: u64,
}

impl Timing {
    pub(super) fn new(config: &MemoryConfig) -> Self {
        let period = config.clock.period_fs();
        Self {
            cl: config.t_cl.cycles(period),
            cwl: config.t_cwl.cycles(period),
            rcd: config.t_rcd.cycles(period),
            rp: config.t_rp.cycles(period),
            ras: config.t_ras.cycles(period),
            burst: config.t_burst.cycles(period),
            ccd_s: config.t_ccd_s.cycles(period),
            ccd_l: config.t_ccd_l.cycles(period),
            rrd_s: config.t_rrd_s.cycles(period),
            rrd_l: config.t_rrd_l.cycles(period),
            faw: config.t_faw.cycles(period),
            wr: config.t_wr.cycles(period),
            wtr_s: config.t_wtr_s.cycles(period),
            wtr_l: config.t_wtr_l.cycles(period),
            rtp: config.t_rtp.cycles(period),
            rtrs: config.t_rtrs.cycles(period),
            refi: config.t_refi.cycles(period),
            rfc: config.t_rfc.cycles(period),
            rfc_pb: config.t_rfc_pb.cycles(period),
            rrefd: config.t_rrefd.cycles(period),
        }
    }

    /// From a read command to the first write command behind it: the bus has to turn.
    pub(super) fn read_to_write(&self) -> u64 {
        (self.cl + self.burst + self.rtrs).saturating_sub(self.cwl)
    }

    /// From a write command to the first read command behind it in the same rank.
    pub(super) fn write_to_read(&self, wtr: u64) -> u64 {
        self.cwl + self.burst + wtr
    }

    /// From a write command to the first read command in another rank.
    pub(super) fn write_to_read_elsewhere(&self) -> u64 {
        (self.cwl + self.burst + self.rtrs).saturating_sub(self.cl)
    }
}

/// Where a line lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) channel: u8,
    pub(super) rank: u8,
    /// Group of the channel: rank and group together.
    pub(super) group: u8,
    /// Bank of the channel: rank, group and bank together.
    pub(super) bank: u8,
    pub(super) row: u32,
}

/// Cuts a line's number into the fields of a [`Place`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder {
    /// Shift and mask of channel, rank, group and bank; the row's shift.
    channel: (u32, u64),
    rank: (u32, u64),
    group: (u32, u64),
    bank: (u32, u64),
    row: (u32, u64),
    groups: u8,
    banks: u8,
}

impl Decoder {
    pub(super) fn new(config: &MemoryConfig) -> Self {
        let bits = |field: Field| match field {
            Field::Row => 32,
            Field::Rank => config.ranks.trailing_zeros(),
            Field::Bank => config.banks.trailing_zeros(),
            Field::Group => config.groups.trailing_zeros(),
            Field::Channel => config.channels.trailing_zeros(),
            Field::Column => (config.row.0 / LINE_BYTES).trailing_zeros(),
        };
        let Mapping(fields) = config.mapping;
        let cut = |wanted: Field| {
            let lower = fields.iter().rev().take_while(|field| **field != wanted);
            let shift: u32 = lower.map(|field| bits(*field)).sum();
            (shift, (1u64 << bits(wanted)) - 1)
        };
        Self {
            channel: cut(Field::Channel),
            rank: cut(Field::Rank),
            group: cut(Field::Group),
            bank: cut(Field::Bank),
            row: cut(Field::Row),
            groups: config.groups as u8,
            banks: config.banks as u8,
        }
    }

    #[inline]
    pub(super) fn place(&self, line: LineAddr) -> Place {
        let cut = |(shift, mask): (u32, u64)| (line.0 >> shift & mask) as u8;
        let rank = cut(self.rank);
        let group = rank * self.groups + cut(self.group);
        let bank = group * self.banks + cut(self.bank);
        let row = (line.0 >> self.row.0 & self.row.1) as u32;
        Place { channel: cut(self.channel), rank, group, bank, row }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed::config::MachineConfig;

    #[test]
    fn addresses_are_cut_as_the_mapping_says() {
        let mut machine = MachineConfig::named("server").unwrap();
        let place =
            |machine: &MachineConfig, line| Decoder::new(&machine.memory).place(LineAddr(line));
        machine.set_option("memory.mapping", "row channel rank bank group column").unwrap();
        // 8 KiB rows of 128 lines, then the group, the bank, the rank and the row.
        assert_eq!((place(&machine, 127).group, place(&machine, 127).row), (0, 0));
        assert_eq!((place(&machine, 128).group, place(&machine, 128).bank), (1, 4));
        assert_eq!((place(&machine, 512).group, place(&machine, 512).bank), (0, 1));
        assert_eq!((place(&machine, 2048).rank, place(&machine, 2048).row), (1, 0));
        assert_eq!((place(&machine, 4096).rank, place(&machine, 4096).row), (0, 1));
        machine.set_option("memory.mapping", "row rank bank column channel group").unwrap();
        machine.set_option("memory.channels", "2").unwrap();
        let at = |line| place(&machine, line);
        assert_eq!([at(1).group, at(3).group, at(4).channel, at(4).group], [1, 3, 1, 0]);
    }
}
