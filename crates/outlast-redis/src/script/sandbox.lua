-- The environment of scripts. Gets the functions that the server has written, returns the one that runs a
-- script.
--
-- A script sees views of the libraries. They, and its table of globals, are made anew for each run: what a
-- script puts there by raw means is gone with the run.

local host = ...

local error, getmetatable, ipairs, loadstring, next, pairs, pcall =
  error, getmetatable, ipairs, loadstring, next, pairs, pcall
local rawequal, rawget, rawset, select, setfenv, setmetatable =
  rawequal, rawget, rawset, select, setfenv, setmetatable
local tonumber, tostring, type, unpack, xpcall = tonumber, tostring, type, unpack, xpcall
local byte, concat, collectgarbage = string.byte, table.concat, collectgarbage

local READONLY = "Attempt to modify a readonly table"

-- Tables that scripts must not change, however they try.
local locked = setmetatable({}, { __mode = "k" })

local function refuse()
  error(READONLY, 2)
end

-- Stands for the metatable of what is locked.
local lock = setmetatable({}, { __newindex = refuse, __metatable = false })
locked[lock] = true

local function view(of)
  local seen = setmetatable({}, { __index = of, __newindex = refuse, __metatable = lock })
  locked[seen] = true
  return seen
end

-- The metatable of all strings.
getmetatable("").__metatable = lock

-- The running script: its environment, the function that runs commands, its version of the protocol.
local environment, run_command, version

local function fail(text)
  error({ err = "ERR " .. text }, 0)
end

local redis = {
  LOG_DEBUG = 0,
  LOG_VERBOSE = 1,
  LOG_NOTICE = 2,
  LOG_WARNING = 3,
  REPL_NONE = 0,
  REPL_AOF = 1,
  REPL_SLAVE = 2,
  REPL_REPLICA = 2,
  REPL_ALL = 3,
  REDIS_VERSION = host.version,
  REDIS_VERSION_NUM = host.version_number,
}

-- More words than a function of the server takes go in a table, which a negative version tells.
local WORDS_MAX = 1000

local function run(...)
  if select("#", ...) > WORDS_MAX then
    return run_command(-version, { ... })
  end
  return run_command(version, ...)
end

function redis.call(...)
  local reply, has_failed = run(...)
  if has_failed then
    error(reply, 0)
  end
  return reply
end

function redis.pcall(...)
  local reply = run(...)
  return reply
end

function redis.sha1hex(...)
  if select("#", ...) ~= 1 then
    fail("wrong number of arguments")
  end
  return host.sha1hex(tostring(...))
end

function redis.log(level, ...)
  if type(level) ~= "number" or select("#", ...) == 0 then
    fail("redis.log() requires two arguments or more.")
  end
  if level < 0 or level > 3 then
    fail("Invalid debug level.")
  end
  local words = { ... }
  for index = 1, #words do
    words[index] = tostring(words[index])
  end
  host.log(level, concat(words, " "))
end

function redis.setresp(wanted)
  if wanted ~= 2 and wanted ~= 3 then
    fail("RESP version must be 2 or 3.")
  end
  version = wanted
end

-- "-CODE text" and "CODE text" keep their code; a word alone gets one.
function redis.error_reply(...)
  local text = ...
  if select("#", ...) ~= 1 or type(text) ~= "string" then
    return { err = "ERR wrong number or type of arguments" }
  end
  text = text:gsub("^%-", ""):gsub("[\r\n]+$", "")
  if not text:find(" ", 1, true) then
    text = "ERR " .. text
  end
  return { err = text }
end

function redis.status_reply(...)
  local text = ...
  if select("#", ...) ~= 1 or type(text) ~= "string" then
    return { err = "ERR wrong number or type of arguments" }
  end
  return { ok = text }
end

-- Nothing is replicated: what concerns replication is taken and changes nothing.
function redis.replicate_commands()
  return true
end

function redis.set_repl() end

local builtins = {
  _VERSION = _VERSION,
  assert = assert,
  error = error,
  getmetatable = getmetatable,
  ipairs = ipairs,
  next = next,
  pairs = pairs,
  pcall = pcall,
  rawequal = rawequal,
  rawget = rawget,
  select = select,
  tonumber = tonumber,
  tostring = tostring,
  type = type,
  unpack = unpack,
  xpcall = xpcall,
}

function builtins.rawset(of, key, value)
  if locked[of] then
    error(READONLY, 2)
  end
  return rawset(of, key, value)
end

function builtins.setmetatable(of, meta)
  if locked[of] then
    error(READONLY, 2)
  end
  return setmetatable(of, meta)
end

-- Text only: compiled code can break out of any sandbox.
function builtins.loadstring(text, name)
  if type(text) ~= "string" or byte(text) == 27 then
    return nil, "compiled code is not loaded"
  end
  local loaded, why = loadstring(text, name)
  return loaded and setfenv(loaded, environment), why
end

function builtins.load(pieces, name)
  local text = {}
  for piece in pieces do
    if piece == "" then
      break
    end
    text[#text + 1] = piece
  end
  return builtins.loadstring(concat(text), name)
end

-- The collector is the server's: scripts may run it and ask, not set it.
function builtins.collectgarbage(what)
  if what == nil or what == "collect" or what == "count" then
    return collectgarbage(what)
  end
  fail("collectgarbage takes 'collect' and 'count'")
end

local libraries = {
  bit = host.bit,
  cjson = host.cjson,
  cmsgpack = host.cmsgpack,
  coroutine = coroutine,
  math = math,
  os = { clock = os.clock, time = os.time },
  redis = redis,
  string = string,
  struct = host.struct,
  table = table,
}

-- Builtins first; a view of a library is made where a script asks for it.
local of_names = {
  __index = function(names, name)
    local value = builtins[name]
    if value == nil and libraries[name] then
      value = view(libraries[name])
    end
    if value == nil then
      error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end
    rawset(names, name, value)
    return value
  end,
}

local function new_environment(keys, argv)
  local names = setmetatable({ KEYS = keys, ARGV = argv }, of_names)
  local made = view(names)
  names._G = made
  return made
end

return function(script, keys, argv, run)
  environment, run_command, version = new_environment(keys, argv), run, 2
  setfenv(script, environment)
  local is_done, value = pcall(script)
  run_command = nil
  return is_done, value, version
end
