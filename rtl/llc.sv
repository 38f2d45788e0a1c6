// The slice of the shared last-level cache: inclusive, write-back, with a directory of private copies.
//
// Lines have 64 bytes, in sub-blocks of a private line's size. Each sub-block has a directory entry, a
// bit that says whether anything here or above is newer than memory (`modified`), and with PICL an EID.
//
// Work is done in steps, each of which begins with a lookup and leaves the arrays coherent: a snoop, a
// write home, a fill, an answer. Between two steps undo entries of private caches come first, so a snoop
// that was refused because of one finds it gone (PICL-3). A request stays until it is answered; the ACS
// engine has a step between two requests.
//
// ACS: the EIDs of one set after the other. A modified sub-block whose EID is `acs_age` or more behind
// SystemEID is fetched from its owner and written home by the way that evictions take (PICL-1).
module llc #(
    parameter int PICL = 1,
    parameter int CORES = 2,
    parameter int GRANULE = 16,
    parameter int LLC_SETS = 8,
    parameter int LLC_WAYS = 2,
    parameter int LINE_BITS = 8,    // Of a private line's number.
    parameter int EID_BITS = 4,
    parameter int SUBS = 64 / GRANULE,
    parameter int SUB_BITS = SUBS > 1 ? $clog2(SUBS) : 0,
    parameter int WORD_BITS = $clog2(GRANULE / 8),
    parameter int BITS = 8 * GRANULE,
    parameter int HOME_BITS = LINE_BITS - SUB_BITS
) (
    input  logic                       clk,
    input  logic                       rst,
    input  logic [2:0]                 bug,     // Planted: see `top`.

    // Private caches, core by core.
    input  logic [CORES-1:0]           req_valid,
    input  logic [3*CORES-1:0]         req_op,
    input  logic [LINE_BITS*CORES-1:0] req_line,
    input  logic [WORD_BITS*CORES-1:0] req_word,
    input  logic [BITS*CORES-1:0]      req_data,
    output logic [CORES-1:0]           req_done,
    output logic [BITS-1:0]            resp_data,
    output logic                       resp_has_eid,
    output logic [EID_BITS-1:0]        resp_eid,

    output logic [CORES-1:0]           snoop_valid,
    output logic                       snoop_inv,
    output logic [LINE_BITS-1:0]       snoop_line,
    input  logic [CORES-1:0]           snoop_done,
    input  logic [CORES-1:0]           snoop_nack,
    input  logic [CORES-1:0]           snoop_dirty,
    input  logic [BITS*CORES-1:0]      snoop_data,

    input  logic [CORES-1:0]           undo_valid,
    input  logic [LINE_BITS*CORES-1:0] undo_line,
    input  logic [BITS*CORES-1:0]      undo_data,
    input  logic [CORES-1:0]           undo_modified,
    input  logic [EID_BITS*CORES-1:0]  undo_from,
    input  logic [EID_BITS*CORES-1:0]  undo_till,
    output logic [CORES-1:0]           undo_ready,

    // Undo entries to the off-chip interface.
    output logic                       log_valid,
    output logic [LINE_BITS-1:0]       log_line,
    output logic [BITS-1:0]            log_data,
    output logic                       log_modified,
    output logic [EID_BITS-1:0]        log_from,
    output logic [EID_BITS-1:0]        log_till,
    input  logic                       log_ready,

    // Writes home: sub-blocks of `home_mask`. `home_ready` is the end of it.
    output logic                       home_valid,
    output logic [HOME_BITS-1:0]       home_line,
    output logic [511:0]               home_data,
    output logic [SUBS-1:0]            home_mask,
    input  logic                       home_ready,

    output logic                       fill_valid,
    output logic [HOME_BITS-1:0]       fill_line,
    input  logic                       fill_ready,
    input  logic [511:0]               fill_data,

    input  logic [EID_BITS-1:0]        system_eid,
    input  logic [EID_BITS-1:0]        persisted_eid,
    input  logic                       acs_run,
    input  logic [EID_BITS-1:0]        acs_age,
    output logic                       acs_done,

    // For the checks: a fetch-and-add changes the line `log_line` names; what a lookup has found.
    output logic                       stored,
    output logic                       seen,
    output logic [HOME_BITS-1:0]       seen_line,
    output logic [SUBS-1:0]            seen_modified,
    output logic [SUBS*EID_BITS-1:0]   seen_eids
);
    localparam int SET_BITS = $clog2(LLC_SETS);
    localparam int WAY_BITS = LLC_WAYS > 1 ? $clog2(LLC_WAYS) : 1;
    localparam int TAG_BITS = HOME_BITS - SET_BITS;
    localparam int CORE_BITS = CORES > 1 ? $clog2(CORES) : 1;
    localparam int EIDS = SUBS * EID_BITS;
    localparam int DIR = SUBS * (2 + CORES);
    localparam int META = 1 + TAG_BITS + DIR;
    localparam int SUB_W = SUB_BITS > 0 ? SUB_BITS : 1;

    localparam logic [2:0] GETS = 0, GETM = 1, PUTM = 2, AMO = 3, FLUSH = 4;

    typedef enum logic [2:0] {INIT, IDLE, LOOKUP, ACT, SNOOP, HOME, FILL} state_t;
    state_t state;
    typedef enum logic [1:0] {REQUEST, UNDO, SCAN} kind_t;
    kind_t kind;

    logic [SET_BITS-1:0]  init_set, acs_set;
    logic [WAY_BITS-1:0]  next_victim;
    logic                 has_request;      // One is taken and not answered.
    logic                 acs_turn;
    logic [CORE_BITS-1:0] src, undo_src, last_src;
    logic [2:0]           op;
    logic [LINE_BITS-1:0] req_at, line;     // Of the request; of this step.
    logic [WORD_BITS-1:0] word;
    logic [BITS-1:0]      put;

    // The line that was looked up.
    logic                 hit;
    logic [WAY_BITS-1:0]  way;
    logic                 is_valid;
    logic [TAG_BITS-1:0]  line_tag;
    logic [SUBS-1:0]      modified, owned;
    logic [SUBS*CORES-1:0] sharers;
    logic [EIDS-1:0]      eids;

    function automatic logic [HOME_BITS-1:0] home_of(logic [LINE_BITS-1:0] at);
        home_of = HOME_BITS'(at >> SUB_BITS);
    endfunction
    function automatic logic [SUB_W-1:0] sub_of(logic [LINE_BITS-1:0] at);
        sub_of = SUBS > 1 ? at[SUB_W-1:0] : '0;
    endfunction

    logic meta_we, data_we, eid_we;
    logic [META*LLC_WAYS-1:0] meta_row, meta_new;
    logic [META-1:0]          way_new;
    logic [511:0]             data_row, data_new;
    logic [SET_BITS-1:0]      meta_at;
    logic [EIDS*LLC_WAYS-1:0] eid_row;
    logic [WAY_BITS-1:0]      found_way;
    logic                     found, found_scan;

    logic [CORE_BITS-1:0] next_undo, next_src;
    // Fields of the core and of the way chosen. Loops, since a select by a multiple that is no power of
    // two becomes a multiplier and a shifter.
    logic [LINE_BITS-1:0]  undo_at, new_line;
    logic [2:0]            new_op;
    logic [META-1:0]       found_meta;
    always_comb begin
        undo_at = '0;
        new_line = '0;
        new_op = '0;
        found_meta = '0;
        for (int i = 0; i < CORES; i++) begin
            if (CORE_BITS'(i) == (state == IDLE ? next_undo : undo_src))
                undo_at = undo_line[i*LINE_BITS +: LINE_BITS];
            if (CORE_BITS'(i) == next_src) begin
                new_line = req_line[i*LINE_BITS +: LINE_BITS];
                new_op = req_op[i*3 +: 3];
            end
        end
        for (int i = 0; i < LLC_WAYS; i++)
            if (WAY_BITS'(i) == found_way) found_meta = meta_row[i*META +: META];
    end

    // What comes next: an undo entry, the request at hand, a step of ACS, a new request.
    logic                 takes, takes_undo, takes_new;
    kind_t                next_kind;
    logic [LINE_BITS-1:0] next_line;
    always_comb begin
        next_undo = '0;
        next_src = last_src;
        for (int i = 0; i < CORES; i++) if (undo_valid[i]) next_undo = CORE_BITS'(i);
        for (int i = 0; i < CORES; i++)
            if (req_valid[i] && (CORE_BITS'(i) != last_src || !req_valid[next_src])) next_src = CORE_BITS'(i);
        takes_undo = PICL != 0 && undo_valid != 0;
        takes_new = 0;
        takes = 1;
        next_kind = REQUEST;
        next_line = req_at;
        if (takes_undo) begin
            next_kind = UNDO;
            next_line = undo_at;
        end else if (!has_request) begin
            if (acs_run && !acs_done && (acs_turn || req_valid == 0)) begin
                next_kind = SCAN;
                next_line = LINE_BITS'(acs_set) << SUB_BITS;
            end else if (req_valid != 0) begin
                takes_new = 1;
                next_line = new_line;
            end else takes = 0;
        end
        if (state != IDLE) takes = 0;
    end

    wire [HOME_BITS-1:0] home = home_of(line);
    wire [SET_BITS-1:0]  set = home[SET_BITS-1:0];
    wire [TAG_BITS-1:0]  tag = home[HOME_BITS-1:SET_BITS];
    wire [SUB_W-1:0]     sub = sub_of(line);
    wire [HOME_BITS-1:0] next_home = home_of(next_line);

    ram #(.WIDTH(META * LLC_WAYS), .DEPTH(LLC_SETS)) meta (
        .clk, .re(takes), .raddr(next_home[SET_BITS-1:0]), .rdata(meta_row),
        .we(meta_we), .waddr(meta_at), .wdata(meta_new));
    ram #(.WIDTH(512), .DEPTH(LLC_SETS * LLC_WAYS)) data (
        .clk, .re(state == LOOKUP), .raddr({set, found_way}), .rdata(data_row),
        .we(data_we), .waddr({set, way}), .wdata(data_new));

    // Sub-blocks that a scan takes, of one way's directory and EIDs.
    function automatic logic [SUBS-1:0] scanned(logic [SUBS-1:0] is_modified, logic [EIDS-1:0] of_subs);
        for (int i = 0; i < SUBS; i++)
            scanned[i] = is_modified[i]
                         && EID_BITS'(system_eid - of_subs[i*EID_BITS +: EID_BITS]) >= acs_age;
    endfunction

    always_comb begin
        found = 0;
        found_scan = 0;
        found_way = next_victim;
        for (int i = 0; i < LLC_WAYS; i++)
            if (!meta_row[i*META]) found_way = WAY_BITS'(i);
        for (int i = 0; i < LLC_WAYS; i++) begin
            if (kind == SCAN) begin
                if (PICL != 0 && meta_row[i*META]
                    && scanned(meta_row[i*META+1+TAG_BITS +: SUBS], eid_row[i*EIDS +: EIDS]) != 0) begin
                    found_scan = 1;
                    found_way = WAY_BITS'(i);
                end
            end else if (meta_row[i*META] && meta_row[i*META+1 +: TAG_BITS] == tag) begin
                found = 1;
                found_way = WAY_BITS'(i);
            end
        end
    end

    // Private copies that have to change first, and sub-blocks to be written home.
    logic [SUBS*CORES-1:0] wanted;
    logic [SUBS-1:0]       writes;
    logic                  inv;
    logic [CORES-1:0]      others;
    logic                  makes_undo;
    always_comb begin
        wanted = '0;
        writes = '0;
        inv = 1;
        others = ~(CORES'(1) << src);
        if (kind == SCAN) begin
            inv = 0;
            writes = scanned(modified, eids);
            for (int i = 0; i < SUBS; i++)
                if (writes[i] && owned[i]) wanted[i*CORES +: CORES] = sharers[i*CORES +: CORES];
        end else if (kind == REQUEST && hit) begin
            case (op)
                GETS: begin
                    inv = 0;
                    if (owned[sub]) wanted[sub*CORES +: CORES] = sharers[sub*CORES +: CORES] & others;
                end
                GETM: wanted[sub*CORES +: CORES] = sharers[sub*CORES +: CORES] & others;
                PUTM: wanted = '0;
                AMO: wanted[sub*CORES +: CORES] = sharers[sub*CORES +: CORES];
                default: begin
                    wanted = sharers;
                    writes = modified;
                end
            endcase
        end else if (kind == REQUEST && is_valid && op != FLUSH && op != PUTM) begin
            wanted = sharers;
            writes = modified;
        end
        makes_undo = PICL != 0 && !(modified[sub] && eids[sub*EID_BITS +: EID_BITS] == system_eid);
    end

    logic [SUB_W-1:0]     first_sub;
    logic [CORE_BITS-1:0] first_core;
    always_comb begin
        first_sub = '0;
        first_core = '0;
        for (int i = 0; i < SUBS * CORES; i++)
            if (wanted[i]) begin
                first_sub = SUB_W'(i / CORES);
                first_core = CORE_BITS'(i % CORES);
            end
    end
    logic [SUB_W-1:0]     snoop_sub;
    logic [CORE_BITS-1:0] snoop_core;

    // The steps that ACT takes by itself.
    wire acts = state == ACT && wanted == 0 && writes == 0;
    wire acts_undo = state == ACT && kind == UNDO;
    wire requests = acts && kind == REQUEST;
    wire is_there = req_valid[src];
    wire answers = requests && is_there
                   && (hit ? op != AMO || !makes_undo || log_ready : op == FLUSH || op == PUTM);
    wire makes_room = requests && !hit && op != FLUSH && op != PUTM;
    wire adds = answers && op == AMO;
    wire has_snooped = state == SNOOP && snoop_done[snoop_core];
    wire is_snooped = has_snooped && !snoop_nack[snoop_core];
    wire is_dirty = is_snooped && snoop_dirty[snoop_core];
    wire is_filled = state == FILL && fill_ready;
    wire is_home = state == HOME && home_ready;

    assign log_valid = acts_undo && !(bug == 2 && undo_at[1:0] == 2'd1)
                       || requests && hit && is_there && op == AMO && makes_undo;
    assign log_line = acts_undo ? undo_at : line;
    assign log_data = acts_undo ? undo_data[undo_src*BITS +: BITS] : data_row[sub*BITS +: BITS];
    assign log_modified = acts_undo ? undo_modified[undo_src] : modified[sub];
    assign log_from = acts_undo ? undo_from[undo_src*EID_BITS +: EID_BITS]
                      : modified[sub] ? eids[sub*EID_BITS +: EID_BITS] : persisted_eid;
    assign log_till = acts_undo ? undo_till[undo_src*EID_BITS +: EID_BITS] : system_eid;
    wire undo_taken = acts_undo && (log_ready || !log_valid);
    assign undo_ready = undo_taken ? CORES'(1) << undo_src : '0;
    assign stored = adds;
    assign seen = state == ACT && (hit || kind == SCAN);
    assign seen_line = {line_tag, set};
    assign seen_modified = modified;
    assign seen_eids = eids;

    assign home_valid = state == HOME;
    assign home_line = {line_tag, set};
    assign home_data = data_row;
    assign fill_valid = state == FILL;
    assign fill_line = home;

    assign snoop_valid = state == SNOOP ? CORES'(1) << snoop_core : '0;
    assign snoop_line = SUBS > 1 ? LINE_BITS'({line_tag, set, snoop_sub}) : LINE_BITS'({line_tag, set});

    assign req_done = answers ? CORES'(1) << src : '0;
    assign resp_data = op == AMO ? BITS'(data_row[(sub*(GRANULE/8) + 32'(word))*64 +: 64])
                                 : data_row[sub*BITS +: BITS];
    assign resp_has_eid = modified[sub];
    assign resp_eid = eids[sub*EID_BITS +: EID_BITS];

    // What a step leaves of the line.
    logic                  valid_new;
    logic [TAG_BITS-1:0]   tag_new;
    logic [SUBS-1:0]       modified_new, owned_new;
    logic [SUBS*CORES-1:0] sharers_new;
    always_comb begin
        valid_new = is_valid;
        tag_new = line_tag;
        modified_new = modified;
        owned_new = owned;
        sharers_new = sharers;
        data_new = data_row;
        data_we = 0;
        if (is_snooped) begin
            owned_new[snoop_sub] = 0;
            if (snoop_inv) sharers_new[snoop_sub*CORES + 32'(snoop_core)] = 0;
            if (is_dirty) begin
                modified_new[snoop_sub] = 1;
                data_new[snoop_sub*BITS +: BITS] = snoop_data[snoop_core*BITS +: BITS];
                data_we = 1;
            end
        end
        if (is_home) modified_new = modified & ~home_mask;
        if (undo_taken) modified_new[sub] = 1;
        if (makes_room) valid_new = 0;
        if (is_filled) begin
            valid_new = 1;
            tag_new = tag;
            modified_new = '0;
            owned_new = '0;
            sharers_new = '0;
            data_new = fill_data;
            data_we = 1;
        end
        if (answers && hit)
            case (op)
                GETS: sharers_new[sub*CORES + 32'(src)] = 1;
                GETM: begin
                    owned_new[sub] = 1;
                    sharers_new[sub*CORES +: CORES] = CORES'(1) << src;
                end
                PUTM: begin
                    owned_new[sub] = 0;
                    sharers_new[sub*CORES + 32'(src)] = 0;
                    modified_new[sub] = 1;
                    data_new[sub*BITS +: BITS] = put;
                    data_we = 1;
                end
                AMO: begin
                    modified_new[sub] = 1;
                    data_new[(sub*(GRANULE/8) + 32'(word))*64 +: 64] =
                        data_row[(sub*(GRANULE/8) + 32'(word))*64 +: 64] + put[63:0];
                    data_we = 1;
                end
                default: valid_new = 0;
            endcase
        way_new = {sharers_new, owned_new, modified_new, tag_new, valid_new};
        meta_we = is_snooped || is_home || undo_taken || makes_room || is_filled || answers && hit;
        meta_at = set;
        meta_new = meta_row;
        for (int i = 0; i < LLC_WAYS; i++)
            if (WAY_BITS'(i) == way) meta_new[i*META +: META] = way_new;
        if (state == INIT) begin
            meta_we = 1;
            meta_at = init_set;
            meta_new = '0;
        end
        eid_we = undo_taken && bug != 4 || adds;
    end

    generate
        if (PICL != 0) begin : eid_array
            logic [EIDS*LLC_WAYS-1:0] row, row_new;
            ram #(.WIDTH(EIDS * LLC_WAYS), .DEPTH(LLC_SETS)) eid (
                .clk, .re(takes), .raddr(next_home[SET_BITS-1:0]), .rdata(row),
                .we(eid_we), .waddr(set), .wdata(row_new));
            always_comb begin
                row_new = row;
                row_new[way*EIDS + sub*EID_BITS +: EID_BITS] = log_till;
            end
            assign eid_row = row;
        end else begin : no_eid_array
            assign eid_row = '0;
        end
    endgenerate

    always_ff @(posedge clk) begin
        if (!acs_run) begin
            acs_done <= 0;
            acs_set <= '0;
        end

        case (state)
            INIT: begin
                init_set <= init_set + 1;
                if (init_set == SET_BITS'(LLC_SETS - 1)) state <= IDLE;
            end

            IDLE: if (takes) begin
                kind <= next_kind;
                line <= next_line;
                undo_src <= next_undo;
                acs_turn <= next_kind != SCAN;
                state <= LOOKUP;
                if (takes_new) begin
                    has_request <= 1;
                    src <= next_src;
                    last_src <= next_src;
                    op <= new_op;
                    req_at <= next_line;
                    word <= req_word[next_src*WORD_BITS +: WORD_BITS];
                    put <= req_data[next_src*BITS +: BITS];
                end
            end

            LOOKUP: begin
                hit <= found;
                way <= found_way;
                {sharers, owned, modified, line_tag, is_valid} <= found_meta;
                eids <= eid_row[found_way*EIDS +: EIDS];
                state <= ACT;
                if (kind == SCAN && !found_scan) begin
                    state <= IDLE;
                    acs_set <= acs_set + 1;
                    acs_done <= acs_set == SET_BITS'(bug == 3 ? LLC_SETS - 2 : LLC_SETS - 1);
                end
            end

            ACT: begin
                snoop_sub <= first_sub;
                snoop_core <= first_core;
                snoop_inv <= inv;
                home_mask <= writes;
                if (kind == UNDO) begin
                    if (undo_taken) state <= IDLE;
                end else if (wanted != 0) state <= SNOOP;
                else if (writes != 0) state <= HOME;
                else if (makes_room) state <= FILL;
                else if (answers) begin
                    has_request <= 0;
                    state <= IDLE;
                end
            end

            SNOOP: if (has_snooped) state <= IDLE;
            HOME: if (home_ready) state <= IDLE;
            FILL: if (fill_ready) begin
                next_victim <= next_victim + 1;
                state <= IDLE;
            end
            default: state <= INIT;
        endcase

        if (rst) begin
            state <= INIT;
            init_set <= '0;
            next_victim <= '0;
            has_request <= 0;
            last_src <= '0;
            acs_turn <= 0;
            acs_done <= 0;
        end
    end
endmodule
