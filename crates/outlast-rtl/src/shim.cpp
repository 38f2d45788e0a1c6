// The Verilated model behind five C functions and two plain structs (`ffi.rs` has their like).
#include <cstdint>
#include "Vtop.h"
#include "verilated.h"

extern "C" {

struct In {
    uint64_t req_data[2], read_data, boot_sequence;
    uint32_t req_addr[2], boot_persisted, header_addr;
    uint8_t rst, bug, advance, bulk, log_grow, mem_ready, read_valid, ack_valid;
    uint8_t ack_kind, boot_chunks, req_valid, req_op[2], pad[3];
};

struct Out {
    uint64_t resp_data[2], mem_data, undo_data[8];
    uint32_t system_eid, persisted_eid, mem_addr, undo_line, home_line, seen_line;
    uint16_t seen_eids;
    uint8_t resp_valid, may_advance, log_low, mem_valid, mem_write, mem_kind, undo_valid;
    uint8_t undo_modified, undo_from, undo_till, home_valid, home_mask, block_starts, block_durable;
    uint8_t scans, violated, seen, seen_modified, pad[6];
};

struct Model {
    VerilatedContext context;
    Vtop top{&context};
};

uint32_t rtl_sizes() { return sizeof(In) << 16 | sizeof(Out); }
Model* rtl_new() { return new Model; }
void rtl_free(Model* model) { delete model; }

// One cycle: outputs are those before its edge.
void rtl_step(Model* model, const In* in, Out* out) {
    Vtop& t = model->top;
    t.clk = 0;
    t.rst = in->rst;
    t.bug = in->bug;
    t.advance = in->advance;
    t.bulk = in->bulk;
    t.log_grow = in->log_grow;
    t.mem_ready = in->mem_ready;
    t.read_valid = in->read_valid;
    t.read_data = in->read_data;
    t.ack_valid = in->ack_valid;
    t.ack_kind = in->ack_kind;
    t.boot_persisted = in->boot_persisted;
    t.boot_sequence = in->boot_sequence;
    t.boot_chunks = in->boot_chunks;
    t.header_addr = in->header_addr;
    t.req_valid = in->req_valid;
    t.req_op = in->req_op[0] | in->req_op[1] << 2;
    t.req_addr = in->req_addr[0] | in->req_addr[1] << CORE_ADDR_BITS;
    for (int core = 0; core < 2; core++) {
        t.req_data[2 * core] = (uint32_t)in->req_data[core];
        t.req_data[2 * core + 1] = (uint32_t)(in->req_data[core] >> 32);
    }
    t.eval();
    for (int core = 0; core < 2; core++)
        out->resp_data[core] = t.resp_data[2 * core] | (uint64_t)t.resp_data[2 * core + 1] << 32;
    for (int word = 0; word < GRANULE / 8; word++)
        out->undo_data[word] = t.undo_data[2 * word] | (uint64_t)t.undo_data[2 * word + 1] << 32;
    out->system_eid = t.system_eid;
    out->persisted_eid = t.persisted_eid;
    out->mem_addr = t.mem_addr;
    out->mem_data = t.mem_data;
    out->undo_line = t.undo_line;
    out->home_line = t.home_line;
    out->resp_valid = t.resp_valid;
    out->may_advance = t.may_advance;
    out->log_low = t.log_low;
    out->mem_valid = t.mem_valid;
    out->mem_write = t.mem_write;
    out->mem_kind = t.mem_kind;
    out->undo_valid = t.undo_valid;
    out->undo_modified = t.undo_modified;
    out->undo_from = t.undo_from;
    out->undo_till = t.undo_till;
    out->home_valid = t.home_valid;
    out->home_mask = t.home_mask;
    out->block_starts = t.block_starts;
    out->block_durable = t.block_durable;
    out->scans = t.scans;
    out->seen = t.seen;
    out->seen_line = t.seen_line;
    out->seen_modified = t.seen_modified;
    out->seen_eids = t.seen_eids;
    t.clk = 1;
    t.eval();
    out->violated = t.violated;
}

}

// Verilated code asks for the time of messages.
double sc_time_stamp() { return 0; }
