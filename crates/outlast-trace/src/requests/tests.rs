use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

/// Files in a folder of their own.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.at(name), bytes).unwrap();
        self.at(name)
    }
}

fn converted(
    from: &Path,
    to: RequestFormat,
    out: &Path,
    options: &RequestOptions,
) -> Result<u64, String> {
    let list = RequestList::open(from).map_err(|error| error.to_string())?.expect("it is a list");
    list.convert(to, out, options).map_err(|error| error.to_string())
}

fn all(path: &Path) -> Vec<MemoryAccess> {
    let mut list = RequestList::open(path).unwrap().unwrap();
    std::iter::from_fn(|| list.read().unwrap()).collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

const LIST: &str = "0x12345680 READ 7\n0x40 WRITE 9\n0xffffffffc0 READ 1200\n";

fn options(lose: &[Loss]) -> RequestOptions {
    RequestOptions { lose: lose.to_vec(), clock_hz: Some(1_200_000_000), every: None }
}

#[test]
fn a_list_goes_to_every_format_and_back() {
    use RequestFormat::{Dramsim3, Gem5, Ramulator, Ramulator2};
    let folder = Folder::new();
    let list = folder.with("list", LIST);
    for name in ["packets", "packets.gz"] {
        let packets = folder.at(name);
        assert_eq!(converted(&list, Gem5, &packets, &options(&[])), Ok(3));
        // Cycles of 1.2 GHz in picoseconds, rounded up.
        let times: Vec<_> = all(&packets).iter().map(|request| request.time).collect();
        assert_eq!(times, [Some(5834), Some(7500), Some(1_000_000)]);
        assert_eq!(converted(&packets, Dramsim3, &folder.at("back"), &options(&[])), Ok(3));
        assert_eq!(text(&folder.at("back")), LIST);
    }
    let (first, second) = (folder.at("first"), folder.at("second"));
    let lose = options(&[Loss::Times]);
    assert_eq!(converted(&list, Ramulator, &first, &lose), Ok(3));
    assert_eq!(text(&first), "0x12345680 R\n0x40 W\n0xffffffffc0 R\n");
    assert_eq!(converted(&first, Ramulator2, &second, &options(&[])), Ok(3));
    assert_eq!(text(&second), "LD 0x12345680\nST 0x40\nLD 0xffffffffc0\n");
    let every = RequestOptions { every: Some(4), ..options(&[]) };
    assert_eq!(converted(&second, Dramsim3, &folder.at("timed"), &every), Ok(3));
    assert_eq!(text(&folder.at("timed")), "0x12345680 READ 0\n0x40 WRITE 4\n0xffffffffc0 READ 8\n");
    assert_eq!(converted(&second, Gem5, &folder.at("packets"), &every), Ok(3));
    assert_eq!(all(&folder.at("packets"))[2].time, Some(2 * 3334));
}

#[test]
fn nothing_is_lost_that_was_not_named() {
    use RequestFormat::{Dramsim3, Gem5, Ramulator};
    let folder = Folder::new();
    let (list, out) = (folder.with("list", LIST), folder.at("out"));
    let nothing = RequestOptions::default();
    let refused = |from: &Path, to, options: &RequestOptions, says: &str| {
        let line = converted(from, to, &out, options).unwrap_err();
        assert!(line.contains(says) && !line.contains('\n'), "{line}");
        assert!(!out.exists());
    };
    refused(&list, Ramulator, &nothing, "ramulator cannot hold times: --lose times");
    refused(&list, Gem5, &nothing, "--clock says the memory's clock");
    refused(&list, Dramsim3, &nothing, "it is of dramsim3 already");
    let timeless = folder.with("timeless", "0x40 R\n");
    refused(&timeless, Dramsim3, &nothing, "--every says the cycles between requests");
    let packet = |fields: &[(u8, u64)]| {
        let mut message = Vec::new();
        for (field, value) in fields {
            message.push(field << 3);
            assert!(*value < 128);
            message.push(*value as u8);
        }
        [vec![message.len() as u8], message].concat()
    };
    let file = |packets: &[Vec<u8>]| [gem5::header(), packets.concat()].concat();
    let plain = packet(&[(1, 1), (2, 1), (3, 64), (4, 64)]);
    let small = packet(&[(1, 1), (2, 4), (3, 64), (4, 8)]);
    let with_pc = packet(&[(1, 1), (2, 1), (3, 64), (4, 64), (7, 9)]);
    let written_back = packet(&[(1, 1), (2, 7), (3, 64), (4, 64)]);
    for (packet, says, loss, left) in [
        (small, "cannot hold a request of 8 bytes: --lose sizes", Loss::Sizes, 2),
        (with_pc, "cannot hold program counters, numbers or flags", Loss::Fields, 2),
        (written_back, "a packet that is no ReadReq and no WriteReq", Loss::Commands, 1),
    ] {
        let packets = folder.with("packets", file(&[plain.clone(), packet]));
        refused(&packets, Dramsim3, &options(&[]), says);
        assert_eq!(converted(&packets, Dramsim3, &out, &options(&[loss])), Ok(left));
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn what_is_damaged_is_named_with_its_place() {
    let folder = Folder::new();
    let out = folder.at("out");
    let mut cases = vec![
        (
            b"0x40 READ 1\n0x40 LOAD 2\n".to_vec(),
            ":2: '0x40 LOAD 2' is no request: expected 0xADDRESS READ|WRITE CYCLE",
        ),
        (b"LD 0x40\nLD\n".to_vec(), ":2: 'LD' is no request: expected LD|ST 0xADDRESS"),
        (b"0x40 R\n0x40 \x01 R\n".to_vec(), "is no request: expected 0xADDRESS R|W"),
        (b"gem5".to_vec(), "it ends before its header"),
        (b"gem5\x02\x10\x01".to_vec(), "says no ticks of a second"),
        (b"gem5\xff\xff\xff\x7f".to_vec(), "bytes: it is damaged"),
    ];
    let request = MemoryAccess { address: 64, time: Some(1), ..MemoryAccess::default() };
    let whole = [gem5::header(), gem5::packet(&request)].concat();
    cases.push((whole[..whole.len() - 3].to_vec(), ": packet 1 is cut off"));
    cases.push(([&gem5::header()[..], &[1, 0x0f]].concat(), ": packet 1 is damaged"));
    cases
        .push(([&gem5::header()[..], &[2, 8, 1]].concat(), ": packet 1 has no tick or no address"));
    for (bytes, says) in cases {
        let path = folder.with("list", bytes);
        let lose = RequestOptions { every: Some(1), ..options(&Loss::ALL.map(|row| row.0)) };
        let to = |format| {
            if format == RequestFormat::Ramulator {
                RequestFormat::Dramsim3
            } else {
                RequestFormat::Ramulator
            }
        };
        let line = match RequestList::open(&path) {
            Err(error) => error.to_string(),
            Ok(list) => {
                let list = list.expect(says);
                let to = to(list.format());
                list.convert(to, &out, &lose).unwrap_err().to_string()
            }
        };
        assert!(line.contains(says) && !line.contains('\n'), "{line}");
        assert!(!out.exists());
    }
    for other in ["", "OTRACE\r\n", "3 1234\n", "hello\n"] {
        assert!(RequestList::open(&folder.with("other", other)).unwrap().is_none(), "{other}");
    }
}

proptest! {
    #[test]
    fn requests_come_back_from_each_format(
        requests in proptest::collection::vec((any::<u64>(), any::<bool>(), 0..1u64 << 40), 1..50),
        clock_hz in 1_000_000..8_000_000_000u64,
    ) {
        let folder = Folder::new();
        let line = |(address, writes, time): &(u64, bool, u64)| {
            let request = MemoryAccess { address: *address, writes: *writes, time: Some(*time), ..MemoryAccess::default() };
            text::line(RequestFormat::Dramsim3, &request)
        };
        let lines: String = requests.iter().map(line).collect();
        let (list, packets, back) = (folder.with("list", &lines), folder.at("packets"), folder.at("back"));
        let options = RequestOptions { clock_hz: Some(clock_hz), ..RequestOptions::default() };
        converted(&list, RequestFormat::Gem5, &packets, &options).unwrap();
        converted(&packets, RequestFormat::Dramsim3, &back, &options).unwrap();
        prop_assert_eq!(text(&back), lines);
        for format in [RequestFormat::Ramulator, RequestFormat::Ramulator2] {
            let lose = RequestOptions { lose: vec![Loss::Times], ..RequestOptions::default() };
            converted(&list, format, &packets, &lose).unwrap();
            let is: Vec<_> = all(&packets).iter().map(|is| (is.address, is.writes)).collect();
            let was: Vec<_> = requests.iter().map(|was| (was.0, was.1)).collect();
            prop_assert_eq!(is, was);
        }
    }
}
