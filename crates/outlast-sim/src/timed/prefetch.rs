//! A stride prefetcher of the first level (after Baer and Chen, 1991), trained by the lines that
//! loads touch in each 4 KiB of addresses rather than by the load's own address, which recorded
//! operations have not. It never leaves those 4 KiB.

use outlast_trace::LineAddr;

/// Regions that are remembered.
const REGIONS: usize = 16;
/// Lines of a region.
const REGION_LINES: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct Region {
    number: u64,
    last: u64,
    stride: i64,
    /// Whether the stride was seen twice in a row.
    sure: bool,
}

#[derive(Debug)]
pub(crate) struct Prefetcher {
    regions: [Region; REGIONS],
    /// The region that is replaced next.
    next: usize,
    ahead: i64,
}

impl Prefetcher {
    /// One that fetches `ahead` lines ahead; `None` for none.
    pub(crate) fn new(ahead: u32) -> Option<Box<Self>> {
        let empty = Region { number: u64::MAX, last: 0, stride: 0, sure: false };
        let ahead = i64::from(ahead);
        (ahead > 0).then(|| Box::new(Self { regions: [empty; REGIONS], next: 0, ahead }))
    }

    /// A load touches a line: the lines to be fetched, nearest first.
    pub(crate) fn touch(&mut self, line: LineAddr) -> impl Iterator<Item = LineAddr> + use<> {
        let number = line.0 / REGION_LINES;
        let stride = match self.regions.iter_mut().find(|region| region.number == number) {
            Some(region) => {
                let stride = line.0 as i64 - region.last as i64;
                if stride != 0 {
                    region.sure = stride == region.stride;
                    (region.stride, region.last) = (stride, line.0);
                }
                (stride != 0 && region.sure).then_some(stride)
            }
            None => {
                let fresh = Region { number, last: line.0, stride: 0, sure: false };
                self.regions[self.next] = fresh;
                self.next = (self.next + 1) % REGIONS;
                None
            }
        };
        let steps = if stride.is_some() { self.ahead } else { 0 };
        let stride = stride.unwrap_or(0);
        (1..=steps)
            .map(move |step| LineAddr(line.0.wrapping_add_signed(step * stride)))
            .filter(move |target| target.0 / REGION_LINES == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_line_of_a_stride_fetches_ahead_and_no_page_is_left() {
        let mut prefetcher = Prefetcher::new(2).unwrap();
        let mut touch = |line| prefetcher.touch(LineAddr(line)).map(|l| l.0).collect::<Vec<_>>();
        assert_eq!([touch(0), touch(3), touch(6)], [vec![], vec![], vec![9, 12]]);
        assert_eq!(touch(6), [] as [u64; 0], "the same line again");
        assert_eq!(touch(100), [] as [u64; 0], "another page");
        assert_eq!(touch(9), [12, 15]);
        assert_eq!(touch(10), [] as [u64; 0], "another stride");
        assert_eq!([touch(127), touch(126), touch(125)], [vec![], vec![], vec![124, 123]]);
        assert_eq!([touch(62), touch(63), touch(61)], [vec![], vec![], vec![]]);
        assert!(Prefetcher::new(0).is_none());
    }
}
