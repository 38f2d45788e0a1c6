//! Connections: accepting, reading, writing, closing.

use std::io::ErrorKind;

use mio::Token;

use super::CLIENTS_FROM;
use super::client::{Client, Stream};
use super::listen::Listener;
use super::state::State;

/// A client that has not read so much of its replies gets no more of them.
const UNSENT_BYTES_MAX: usize = 16 << 20;
/// A client that listens to channels and has not read so much is closed.
pub(super) const UNSENT_PUSHES_MAX: usize = 256 << 20;
/// Bytes that one client is read in a round.
const READ_BYTES_A_ROUND: usize = 1 << 20;

impl State {
    pub fn accept(&mut self, listener: &Listener) {
        loop {
            let (accepted, is_http) = match listener {
                Listener::Tcp { listener, is_http } => {
                    let accepted = listener.accept().map(|(stream, peer)| {
                        // Small replies are not to wait for the acknowledgement of others.
                        let _ = stream.set_nodelay(true);
                        (Stream::Tcp(stream), Some(peer))
                    });
                    (accepted, *is_http)
                }
                Listener::Unix { listener, .. } => {
                    (listener.accept().map(|(stream, _)| (Stream::Unix(stream), None)), false)
                }
            };
            let Ok((mut stream, peer)) = accepted else { return };
            if self.slots.len() >= self.options.clients_max {
                self.counts.refused += 1;
                let _ = stream.write(b"-ERR max number of clients reached\r\n");
                continue;
            }
            let slot = self.free_slots.pop().unwrap_or(self.clients.len());
            if stream.register(&self.registry, Token(CLIENTS_FROM + slot)).is_err() {
                self.free_slots.push(slot);
                continue;
            }
            let id = self.next_id;
            self.next_id += 1;
            let mut client = Client::new(id, stream, peer, self.now);
            client.is_http = is_http;
            client.is_known = self.options.password.is_none();
            if slot == self.clients.len() {
                self.clients.push(None);
            }
            self.clients[slot] = Some(client);
            self.slots.insert(id, slot);
            self.counts.connections += 1;
            self.to_read.push(slot);
        }
    }

    /// The system has told of a client.
    pub fn ready(&mut self, slot: usize, is_readable: bool, is_writable: bool) {
        let Some(client) = self.client(slot) else { return };
        if is_readable {
            client.may_read = true;
            self.to_read.push(slot);
        }
        if is_writable {
            self.list(slot);
        }
    }

    /// The client has closed its end: no further event tells of it, so it is read to its end.
    pub fn will_end(&mut self, slot: usize) {
        if let Some(client) = self.client(slot) {
            client.will_end = true;
        }
    }

    /// Reads what has arrived.
    pub fn read_all(&mut self) {
        let slots = std::mem::take(&mut self.to_read);
        for slot in slots {
            self.read(slot);
        }
    }

    fn read(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        if client.unsent() > UNSENT_BYTES_MAX || client.has_ended {
            // It is read again when it has taken its replies.
            return;
        }
        let mut taken = 0;
        while client.may_read && taken < READ_BYTES_A_ROUND {
            match client.stream.read(&mut self.scratch) {
                Ok(0) => {
                    client.may_read = false;
                    client.has_ended = true;
                }
                Ok(len) => {
                    taken += len;
                    // What does not fill the buffer was all: the next event tells of more.
                    client.may_read = len == self.scratch.len() || client.will_end;
                    if !client.is_closing {
                        client.input.extend_from_slice(&self.scratch[..len]);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => client.may_read = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    client.may_read = false;
                    client.has_ended = true;
                }
            }
        }
        self.counts.read_bytes += taken as u64;
        let (may_read, has_ended) = (client.may_read, client.has_ended);
        let is_over = client.input.len() - client.start > self.options.query_bytes_max;
        if may_read {
            self.to_read.push(slot);
        }
        if is_over {
            self.close(slot);
        } else {
            self.queue.push_back(slot);
            if has_ended {
                self.list(slot);
            }
        }
    }

    /// Whether the client's commands wait until it has taken its replies.
    pub fn is_held_back(client: &Client) -> bool {
        client.unsent() > UNSENT_BYTES_MAX
    }

    /// Writes replies, as far as connections take them.
    pub fn flush_replies(&mut self) {
        let slots = std::mem::take(&mut self.to_write);
        for slot in slots {
            self.flush(slot);
        }
    }

    fn flush(&mut self, slot: usize) {
        self.count_errors(slot);
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        client.is_listed = false;
        let was_held_back = Self::is_held_back(client);
        let mut is_broken = false;
        while client.sent < client.reply.bytes.len() {
            match client.stream.write(&client.reply.bytes[client.sent..]) {
                Ok(len) => {
                    client.sent += len;
                    self.counts.written_bytes += len as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    is_broken = true;
                    break;
                }
            }
        }
        let is_done = client.sent == client.reply.bytes.len();
        if is_done {
            client.reply.bytes.clear();
            client.reply.bytes.shrink_to(SMALL_REPLY_BYTES);
            client.sent = 0;
        }
        client.acknowledged = client.reply.bytes.len();
        // A client that has closed its end gets no answers to commands that are not whole.
        let is_over = client.has_ended
            && !was_held_back
            && !client.request.is_done()
            && client.blocked.is_none();
        let waits = client.has_ended && client.blocked.is_some();
        if is_broken || is_done && (client.is_closing || is_over) || waits {
            return self.close(slot);
        }
        if is_done == client.watches_writing {
            client.watches_writing = !is_done;
            let token = Token(CLIENTS_FROM + slot);
            if client.stream.watch_writing(&self.registry, token, !is_done).is_err() {
                return self.close(slot);
            }
        }
        if was_held_back && is_done {
            self.to_read.push(slot);
            self.queue.push_back(slot);
        }
    }

    /// Ends a connection and forgets its client.
    pub fn close(&mut self, slot: usize) {
        let Some(mut client) = self.clients.get_mut(slot).and_then(Option::take) else { return };
        client.stream.deregister(&self.registry);
        self.slots.remove(&client.id);
        self.free_slots.push(slot);
        self.forget_watches(&mut client);
        self.forget_wait(&mut client);
        self.channels.forget(&client);
    }
}

/// Replies up to this keep their memory.
const SMALL_REPLY_BYTES: usize = 16 << 10;
