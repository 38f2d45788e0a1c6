//! Scripts: conversions, what they may do, and what ends them.

use std::time::{Duration, Instant};

use crate::client::{Answer, Client, Served, ok};

/// The answer of a script to these keys and arguments.
fn eval(client: &mut Client, script: &str, keys: &[&str], args: &[&str]) -> Answer {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys);
    words.extend(args);
    let words: Vec<&[u8]> = words.into_iter().map(str::as_bytes).collect();
    client.send_words(&words).expect("the server listens");
    client.answer().expect("the server answers")
}

#[track_caller]
fn gets(client: &mut Client, script: &str, answer: impl Into<Answer>) {
    assert_eq!(eval(client, script, &[], &[]), answer.into(), "{script}");
}

#[track_caller]
fn is_refused(client: &mut Client, script: &str, part: &str) {
    match eval(client, script, &[], &[]) {
        Answer::Error(text) if text.contains(part) => {}
        other => panic!("{script}: {other:?} and not an error with '{part}'"),
    }
}

fn list(items: impl IntoIterator<Item = Answer>) -> Answer {
    Answer::List(items.into_iter().collect())
}

#[test]
fn values_are_converted_as_redis_does() {
    let server = Served::new();
    let mut client = server.client();
    gets(&mut client, "return 'hello'", "hello");
    gets(&mut client, "return 100.5", 100);
    gets(&mut client, "return true", 1);
    gets(&mut client, "return false", Answer::Null);
    gets(&mut client, "", Answer::Null);
    gets(&mut client, "return {ok='fine'}", Answer::Text("fine".to_owned()));
    gets(&mut client, "return {err='ERR bad'}", Answer::Error("ERR bad".to_owned()));
    gets(&mut client, "return redis.error_reply('bad')", Answer::Error("ERR bad".to_owned()));
    gets(&mut client, "return redis.status_reply('fine')", Answer::Text("fine".to_owned()));
    let nested = list([1.into(), "two".into(), list([3.into()])]);
    gets(&mut client, "return {1, 'two', {3}, nil, 4}", nested);
    let given = eval(&mut client, "return {KEYS[1], KEYS[2], ARGV[1]}", &["a", "b"], &["c"]);
    assert_eq!(given, ["a", "b", "c"].into());
    client.gets("RPUSH l a b", 2);
    for (command, kind) in [
        ("'incr', 'n'", "number"),
        ("'get', 'none'", "boolean"),
        ("'get', 'n'", "string"),
        ("'lrange', 'l', 0, -1", "table"),
        ("'set', 'k', 1.5", "table"),
    ] {
        gets(&mut client, &format!("return type(redis.call({command}))"), kind);
    }
    gets(&mut client, "return redis.call('get', 'k')", "1.5");
    gets(&mut client, "return redis.call('set', 'k', 9007199254740991)", ok());
    client.gets("GET k", "9007199254740991");
    gets(
        &mut client,
        "return redis.sha1hex('Pizza & Mandolino')",
        "74822d82031af7493c20eefa13bd07ec4fada82f",
    );
    gets(
        &mut client,
        "return cjson.encode({1, 'a/b', {x = cjson.null}})",
        r#"[1,"a\/b",{"x":null}]"#,
    );
    gets(&mut client, "return tostring(cjson.decode('{\"a\": [1, 2.5]}').a[2])", "2.5");
    gets(&mut client, "return bit.tohex(bit.band(-1, 0xff00))", "0000ff00");
}

#[test]
fn versions_of_the_protocol_are_the_scripts_and_the_clients() {
    let server = Served::new();
    let mut client = server.client();
    client.gets("HSET h f v", 1);
    let script = "redis.setresp(3); return redis.call('hgetall', 'h')";
    gets(&mut client, script, ["f", "v"]);
    gets(&mut client, "redis.setresp(3); return redis.call('hgetall', 'h').map.f", "v");
    gets(&mut client, "redis.setresp(3); return false", Answer::Null);
    is_refused(&mut client, "redis.setresp(4)", "must be 2 or 3");
    client.ask("HELLO 3");
    client.send_words(&[b"EVAL", script.as_bytes(), b"0"]).unwrap();
    assert_eq!(client.answer().unwrap(), ["f", "v"].into());
}

#[test]
fn an_error_ends_a_script_and_keeps_what_was_stored() {
    let server = Served::new();
    let mut client = server.client();
    client.gets("SET s text", ok());
    is_refused(
        &mut client,
        "redis.call('set', 'a', '1')\nredis.call('incr', 's')\nredis.call('set', 'b', '1')",
        "ERR value is not an integer or out of range script: ",
    );
    client.gets("MGET a b", list(["1".into(), Answer::Null]));
    is_refused(&mut client, "\nredis.call('incr', 's')", ", on @user_script:2.");
    is_refused(&mut client, "\n\nerror('mine')", "ERR user_script:3: mine script: ");
    is_refused(&mut client, "error({err = 'MINE text'})", "MINE text script: ");
    is_refused(&mut client, "return redis.call()", "at least one argument");
    is_refused(&mut client, "return redis.call('nothing')", "Unknown Redis command");
    is_refused(&mut client, "return redis.call('get')", "Wrong number of args");
    is_refused(&mut client, "return redis.call('get', {})", "must be strings or integers");
    gets(
        &mut client,
        "local t = {} for i = 1, 7998 do t[i] = i end return redis.call('rpush', 'l', unpack(t))",
        7998,
    );
    is_refused(&mut client, "return redis.call({'ping'})", "must be strings or integers");
    is_refused(&mut client, "return redis.sha1hex()", "wrong number of arguments");
    is_refused(&mut client, "return 1 +", "ERR Error compiling script");
    gets(
        &mut client,
        "return redis.pcall('incr', 's').err",
        "ERR value is not an integer or out of range",
    );
    gets(
        &mut client,
        "return {pcall(redis.call, 'incr', 's')}",
        list([
            Answer::Null,
            Answer::Error("ERR value is not an integer or out of range".to_owned()),
        ]),
    );
    client.is_refused("EVAL x 1", "greater than number of args");
    client.is_refused("EVAL x -1", "can't be negative");
    client.is_refused("EVAL x y", "not an integer");
}

#[test]
fn commands_that_wait_or_concern_connections_are_refused() {
    let server = Served::new();
    let mut client = server.client();
    for command in [
        "'blpop', 'l', 0",
        "'multi'",
        "'exec'",
        "'watch', 'k'",
        "'subscribe', 'c'",
        "'eval', 'return 1', 0",
        "'script', 'flush'",
        "'auth', 'x'",
        "'config', 'get', '*'",
        "'save'",
        "'shutdown'",
    ] {
        let script = format!("return redis.call({command})");
        is_refused(&mut client, &script, "not allowed from script");
    }
    client.gets("SET k v", ok());
    gets(&mut client, "redis.call('select', 3); redis.call('set', 'k', 'other'); return 1", 1);
    client.gets("GET k", "v");
    client.gets("SELECT 3", ok());
    client.gets("GET k", "other");
    gets(&mut client, "return redis.call('ping', 'x')", "x");
    let mut listener = server.client();
    listener.ask("SUBSCRIBE c");
    gets(&mut client, "return redis.call('publish', 'c', 'm')", 1);
    assert_eq!(listener.answer().unwrap(), ["message", "c", "m"].into());
    for command in ["'set', 'k', 1", "'publish', 'c', 'm'", "'del', 'k'"] {
        let script = format!("return redis.call({command})");
        for words in [["EVAL_RO", &script], ["EVAL", &format!("#!lua flags=no-writes\n{script}")]] {
            client.send_words(&[words[0].as_bytes(), words[1].as_bytes(), b"0"]).unwrap();
            let answer = client.answer().unwrap();
            assert!(
                matches!(&answer, Answer::Error(text) if text.contains("read-only scripts")),
                "{answer:?}"
            );
        }
    }
    client.gets("GET k", "other");
}

#[test]
fn scripts_are_kept_by_their_names() {
    let server = Served::new();
    let mut client = server.client();
    let Answer::Bulk(name) = client.ask("SCRIPT LOAD return(1)") else { panic!("no name") };
    assert_eq!(name.len(), 40);
    client.gets(&format!("EVALSHA {name} 0"), 1);
    client.gets(&format!("EVALSHA_RO {} 0", name.to_uppercase()), 1);
    let none = "0".repeat(40);
    client.gets(&format!("SCRIPT EXISTS {name} {none}"), list([1.into(), 0.into()]));
    client.is_refused(&format!("EVALSHA {none} 0"), "NOSCRIPT");
    client.is_refused("SCRIPT LOAD return+", "Error compiling");
    client.is_refused("SCRIPT KILL", "NOTBUSY");
    // Those of `EVAL` make room for each other; one that was loaded stays.
    for number in 0..600 {
        client.gets(&format!("EVAL return({number}) 0"), number);
    }
    client.gets(&format!("EVALSHA {name} 0"), 1);
    let Answer::Bulk(info) = client.ask("INFO memory") else { panic!("no text") };
    assert!(info.contains("number_of_cached_scripts:501\r\n"), "{info}");
    client.gets("SCRIPT FLUSH ASYNC", ok());
    client.is_refused(&format!("EVALSHA {name} 0"), "NOSCRIPT");
    let Answer::Bulk(info) = client.ask("INFO memory") else { panic!("no text") };
    assert!(info.contains("number_of_cached_scripts:0\r\n"), "{info}");
}

/// No state passes from a script to the next, and nothing outside can be reached.
#[test]
fn the_sandbox_holds() {
    let server = Served::new();
    let mut client = server.client();
    for script in [
        "a = 10",
        "function f() end",
        "_G.a = 1",
        "rawset(_G, 'a', 1)",
        "setmetatable(_G, {})",
        "getmetatable(_G).__index = {}",
        "redis = 1",
        "redis.call('ping'); redis = 1",
        "redis.call = function() return 1 end",
        "string.upper = string.lower",
        "rawset(string, 'upper', string.lower)",
        "getmetatable('').__index = {}",
        "cjson.encode = 1",
        "KEYS = 1",
    ] {
        is_refused(&mut client, script, "Attempt to modify a readonly table");
    }
    for name in [
        "io", "debug", "package", "require", "module", "dofile", "loadfile", "print", "getfenv",
        "setfenv", "newproxy", "gcinfo", "nonsense",
    ] {
        let part = format!("nonexistent global variable '{name}'");
        is_refused(&mut client, &format!("return {name}"), &part);
    }
    for name in ["execute", "exit", "getenv", "remove", "rename", "tmpname", "setlocale", "date"] {
        gets(&mut client, &format!("return type(os.{name})"), "nil");
    }
    gets(&mut client, "return type(os.clock() + os.time())", "number");
    // Whatever raw way a script finds to leave something, the next one does not see it.
    for leave in
        ["table.insert(string, 'x')", "table.insert(_G, 'x')", "KEYS.x = 1", "string.x = pcall"]
    {
        eval(&mut client, leave, &[], &[]);
        gets(
            &mut client,
            "return {#string, tostring(rawget(_G, 1)), tostring(KEYS.x), tostring(string.x)}",
            list([0.into(), "nil".into(), "nil".into(), "nil".into()]),
        );
    }
    gets(&mut client, "return loadstring('return 1 + 1')()", 2);
    is_refused(&mut client, "loadstring('a = 1')()", "readonly");
    is_refused(
        &mut client,
        "return loadstring(string.dump(function() end))()",
        "attempt to call a nil value",
    );
    is_refused(&mut client, "return load(function() return io end)()", "nonexistent");
    is_refused(&mut client, "collectgarbage('stop')", "collectgarbage takes");
    is_refused(&mut client, "\u{1b}Lua", "ERR ");
    let co =
        "local c = coroutine.wrap(function() coroutine.yield(redis.call('ping')) end); return c()";
    gets(&mut client, co, Answer::Text("PONG".to_owned()));
}

/// A script beyond its time is ended, and its transaction with it: what it has stored is not there.
#[test]
fn a_script_that_never_ends_is_ended_and_undone() {
    let server = Served::new();
    let mut client = server.client();
    client.gets("CONFIG SET lua-time-limit 50", ok());
    client.gets("CONFIG GET busy-reply-threshold", ["busy-reply-threshold", "50"]);
    client.is_refused("CONFIG SET lua-time-limit 0", "from 1 to 3600000");
    for forever in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do redis.call('incr', 'n') end",
        "while true do pcall(redis.call, 'ping') end",
        "local function f() return f() end return f()",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "while true do local c = coroutine.create(function() while true do end end) coroutine.resume(c) end",
        "return setmetatable({}, {__index = function() while true do end end}).x",
        "table.sort({1, 2, 3, 4}, function() while true do end end)",
        "string.gsub('x', 'x', function() while true do end end)",
    ] {
        let began = Instant::now();
        let script = format!("redis.call('set', 'k', 'v') {forever}");
        is_refused(&mut client, &script, "it ran longer than busy-reply-threshold, 50 ms");
        assert!(began.elapsed() < Duration::from_secs(10), "{forever}: {:?}", began.elapsed());
        client.gets("MGET k n", list([Answer::Null, Answer::Null]));
    }
    // Also the transaction of `EXEC`, wholly.
    client.gets("MULTI", ok());
    client.gets("SET a 1", Answer::Text("QUEUED".to_owned()));
    client.send_words(&[b"EVAL", b"while true do end", b"0"]).unwrap();
    client.answer().unwrap();
    client.is_refused("EXEC", "it ran longer");
    client.gets("GET a", Answer::Null);
    client.gets("CONFIG SET lua-time-limit 60000", ok());
    gets(
        &mut client,
        "for i = 1, 1000 do redis.call('incr', 'n') end return redis.call('get', 'n')",
        "1000",
    );
    client.gets("GET n", "1000");
}

#[test]
fn a_script_gets_no_more_memory_than_its_limit() {
    let server = Served::new();
    let mut client = server.client();
    is_refused(&mut client, "return string.rep('x', 1024 * 1024 * 1024)", "not enough memory");
    is_refused(
        &mut client,
        "local t = {} while true do t[#t + 1] = string.rep('x', 1000000) .. #t end",
        "not enough memory",
    );
    is_refused(&mut client, "local function f() return 1 + f() end return f()", "stack overflow");
    let deep = "local a = {} a[1] = a return a";
    let mut answer = eval(&mut client, deep, &[], &[]);
    while let Answer::List(mut items) = answer {
        assert_eq!(items.len(), 1);
        answer = items.remove(0);
    }
    assert_eq!(answer, Answer::Error("ERR reached lua stack limit".to_owned()));
    let wide = "local a = {} for i = 1, 60 do a = {a, a} end";
    client.gets("CONFIG SET lua-time-limit 100", ok());
    is_refused(&mut client, &format!("{wide} return a"), "it ran longer");
    is_refused(&mut client, &format!("{wide} return cjson.encode(a)"), "it ran longer");
    is_refused(
        &mut client,
        "return cjson.encode((function() local a = {} a[1] = a return a end)())",
        "excessive depth",
    );
    is_refused(
        &mut client,
        &format!("return cjson.decode('{}')", "[".repeat(100_000)),
        "cjson.decode",
    );
    gets(
        &mut client,
        "return {#cjson.encode({}), redis.call('ping').ok}",
        list([2.into(), "PONG".into()]),
    );
}

/// A store without room in the pool takes back all of the script; smaller ones go on.
#[test]
fn a_full_pool_takes_a_script_back() {
    let server = Served::with(16 << 20, |_| {});
    let mut client = server.client();
    let fill = "redis.call('set', 'first', 1)
        for i = 1, 1000 do pcall(redis.call, 'set', 'k' .. i, string.rep('x', 100000)) end return 1";
    is_refused(&mut client, fill, "OOM ");
    client.gets("DBSIZE", 0);
    gets(&mut client, "return redis.call('set', 'k', 'v')", ok());
    client.gets("GET k", "v");
}

#[test]
fn watchers_and_waiting_clients_learn_of_scripts() {
    let server = Served::new();
    let (mut client, mut other) = (server.client(), server.client());
    other.gets("WATCH k", ok());
    gets(&mut client, "return redis.call('set', 'k', 1)", ok());
    other.gets("MULTI", ok());
    other.gets("EXEC", Answer::Null);
    other.send("BLPOP l 0").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    gets(&mut client, "redis.call('rpush', 'l', 'a', 'b') return redis.call('llen', 'l')", 2);
    assert_eq!(other.answer().unwrap(), ["l", "a"].into());
    client.gets("COMMAND GETKEYS EVAL x 2 a b c", ["a", "b"]);
    client.gets("MULTI", ok());
    client.gets("EVAL return(7) 0", Answer::Text("QUEUED".to_owned()));
    client.gets("EXEC", list([7.into()]));
}
