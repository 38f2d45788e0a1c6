//! The run as the page's script reads it: steps with their bytes, the directory before, units with their
//! needs and moments for each model, and the findings' crashes.

use serde_json::{Value, json};

use super::Crash;
use crate::files::Report;
use crate::order::{Moment, Ordered, Unit};
use crate::run::{Change, Event, NodeId, Step};
use crate::tree::{Content, Node, PAGE, Tree};

/// Bytes of content that a page holds; the rest is shown as unknown.
const BYTES_MAX: usize = 8 << 20;

/// Room for content.
struct Room(usize);

impl Room {
    /// `bytes` in base 64, or none if there is no room for them.
    fn text(&mut self, bytes: &[u8]) -> Value {
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        match self.0.checked_sub(end) {
            Some(left) => {
                self.0 = left;
                base64(&bytes[..end]).into()
            }
            None => Value::Null,
        }
    }
}

/// The whole of it.
pub(super) fn of(report: &Report, crashes: &[Option<Crash>]) -> Value {
    let run = &report.run;
    let mut room = Room(BYTES_MAX);
    let events: Vec<Value> = run.events.iter().map(|event| step(event, &mut room)).collect();
    let calls: Vec<Value> =
        run.calls.iter().map(|call| json!([call.tid, call.text, call.place])).collect();
    let models: Vec<Value> = report.ordered.iter().map(model).collect();
    let crash = |crash: &Option<Crash>| {
        crash.as_ref().map(|crash| {
            json!({
                "model": crash.model,
                "event": crash.event,
                "lost": crash.lost,
                "lostCall": crash.lost_call,
                "keptCall": crash.kept_call,
            })
        })
    };
    json!({
        "dir": run.dir.file_name().map(|name| name.to_string_lossy()),
        "nodes": nodes(&run.base, &mut room),
        "events": events,
        "calls": calls,
        "models": models,
        "promised": [run.promised.0, run.promised.1],
        "crashes": crashes.iter().map(crash).collect::<Vec<_>>(),
    })
}

fn step(event: &Event, room: &mut Room) -> Value {
    let call = event.call;
    match &event.step {
        Step::Change(Change::Data { node, offset, bytes }) => {
            json!(["data", call, node.0, offset, bytes.len(), room.text(bytes)])
        }
        Step::Change(Change::Size { node, to, .. }) => json!(["size", call, node.0, to]),
        Step::Change(Change::Cut { node, to }) => json!(["cut", call, node.0, to]),
        Step::Change(Change::Name { dir, name, node }) => {
            json!(["name", call, dir.0, text(name), node.map(|node| node.0)])
        }
        Step::Change(Change::Move { from, to, node, exchanged }) => {
            let exchanged = exchanged.map(|node| node.0);
            let places = (text(&from.1), text(&to.1));
            json!(["move", call, from.0.0, places.0, to.0.0, places.1, node.0, exchanged])
        }
        Step::Sync(_) => json!(["sync", call]),
        Step::Unsynced(_) => json!(["unsynced", call]),
        Step::Issued(number) => json!(["issued", call, number]),
        Step::Writes { .. } => json!(["writes", call]),
        Step::Acked(number) => json!(["acked", call, number]),
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn nodes(tree: &Tree, room: &mut Room) -> Vec<Value> {
    let mut node = |id: u32| match tree.node(NodeId(id)) {
        Node::Dir(names) => {
            let names = names.iter().map(|(name, node)| (text(name), Value::from(node.0)));
            json!({"dir": serde_json::Map::from_iter(names)})
        }
        Node::Link(target) => json!({"link": text(target)}),
        Node::File(content) => json!({"size": content.size, "pages": pages(content, room)}),
    };
    (0..tree.len() as u32).map(&mut node).collect()
}

/// Pages of a file that are not zeros, as numbers and bytes.
fn pages(content: &Content, room: &mut Room) -> Vec<Value> {
    let mut page = [0; PAGE];
    let count = content.size.div_ceil(PAGE as u64);
    let mut found = Vec::new();
    for number in (0..count).filter(|number| content.has_page_at(number * PAGE as u64)) {
        content.read(number * PAGE as u64, &mut page);
        found.push(json!([number, room.text(&page)]));
    }
    found
}

fn model(ordered: &Ordered) -> Value {
    let unit = |unit: &Unit| match &unit.change {
        // The part of its step's bytes.
        Change::Data { offset, bytes, .. } => {
            json!([unit.event, unit.needs, offset, bytes.len()])
        }
        _ => json!([unit.event, unit.needs]),
    };
    let moment = |moment: &Moment| json!([moment.event, moment.units, moment.below, moment.forced]);
    json!({
        "name": ordered.model.name,
        "about": ordered.model.about,
        "units": ordered.units.iter().map(unit).collect::<Vec<_>>(),
        "moments": ordered.moments.iter().map(moment).collect::<Vec<_>>(),
    })
}

/// Bytes as text (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let word = part.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= part.len() { letter as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_text() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!([of(""), of("f"), of("fo"), of("foo")], ["", "Zg==", "Zm8=", "Zm9v"]);
        assert_eq!(of("foobar~"), "Zm9vYmFyfg==");
    }

    #[test]
    fn content_past_the_room_is_left_out() {
        let mut room = Room(4);
        assert_eq!(room.text(b"abc\0\0"), "YWJj");
        assert_eq!(room.text(b"de"), Value::Null);
        assert_eq!(room.text(b"f"), "Zg==");
    }
}
