r"""Lua scripts, each of which is one operation of the store on one key, and so runs on Redis Cluster too.

A log is one list, which takes less memory than a stream (306 bytes for one short entry, where a stream takes 4,370).
Its first element is a header, `<last position>:<generation>:<c if closed>:<writer>`; the generation is the time when
the log began, and tells a log from an earlier one of the same name.

An entry that is appended is published on the log's channel by the same script. The message is `<generation>:<position
of the first entry>:<count>:<length>,<length>…\n<entries>`, without lengths and entries if they are large: followers
then read them, and a slow subscriber does not fill Redis's memory.

A group is a sorted set of members by their expiry in milliseconds. A bucket is the time in microseconds at which it is
full again.

Only commands of Redis 6.2 are used. The time is that of Redis, which is the same for all processes.
"""

from __future__ import annotations

import hashlib

MAX_PUBLISHED = 16_384
"""Bytes of entries that a message contains at most."""


class Script:
    """A Lua script and its SHA-1 digest, under which Redis caches it."""

    __slots__ = ("digest", "source")

    def __init__(self, source: str) -> None:
        self.source = source.encode()
        # Not for security: this is the name that Redis gives it.
        self.digest = hashlib.sha1(self.source, usedforsecurity=False).hexdigest().encode()


_HEADER = """
local function header(key)
  local text = redis.call('LINDEX', key, 0)
  if not text then return nil end
  local last, generation, closed, writer = string.match(text, '^(%d+):(%d+):(c?):(.*)$')
  return tonumber(last), generation, closed == 'c', writer
end
local function format(last, generation, closed, writer)
  return string.format('%.0f:%s:%s:%s', last, generation, closed and 'c' or '', writer)
end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function expire(key, ttl)
  if ttl == '' then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, ttl) end
end
"""

REPLACE = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[3] == '' then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
""")

TOUCH_FOREVER = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('PERSIST', KEYS[1])
return 1
""")

# ARGV: channel, ttl, keep, writer ('-' for none, '=' and its name), 1 to close, bytes to publish at most, entries
APPEND = Script(
    _HEADER
    + """
local key, count = KEYS[1], #ARGV - 6
local last, generation, closed, writer = header(key)
local begins = not last
if begins then
  if count == 0 then return 0 end
  last, generation, writer = 0, string.format('%.0f', now()), ''
elseif closed or (ARGV[4] ~= '-' and writer ~= '' and writer ~= ARGV[4]) then
  return false
end
local first = last + 1
last = last + count
local head = format(last, generation, ARGV[5] == '1', writer)
if begins then redis.call('RPUSH', key, head) else redis.call('LSET', key, 0, head) end
for at = 7, #ARGV, 1000 do
  redis.call('RPUSH', key, unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
if ARGV[3] ~= '' then
  local surplus = redis.call('LLEN', key) - 1 - ARGV[3]
  if surplus > 0 then
    redis.call('LTRIM', key, surplus, -1)
    redis.call('LSET', key, 0, head)
  end
end
expire(key, ARGV[2])
if count > 0 then
  local size, lengths = 0, {}
  for at = 7, #ARGV do
    size = size + #ARGV[at]
    lengths[#lengths + 1] = #ARGV[at]
  end
  local message = string.format('%s:%.0f:%d:', generation, first, count)
  if size <= tonumber(ARGV[6]) then
    message = message .. table.concat(lengths, ',') .. '\\n' .. table.concat(ARGV, '', 7)
  end
  redis.call('PUBLISH', ARGV[1], message)
end
return last
"""
)

# ARGV: ttl, '=' and the name of the writer
CLAIM = Script(
    _HEADER
    + """
local key = KEYS[1]
local last, generation, closed = header(key)
if closed then return last end
if last then
  redis.call('LSET', key, 0, format(last, generation, false, ARGV[2]))
else
  last = 0
  redis.call('RPUSH', key, format(0, string.format('%.0f', now()), false, ARGV[2]))
end
expire(key, ARGV[1])
return last
"""
)

# ARGV: position, limit, generation that the position belongs to (or ''), 1 to start again if the position is too high.
# The answer: generation, last position, position of the first entry, entries; or nothing, if there is no such log.
READ = Script(
    _HEADER
    + """
local key, after, limit = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local last, generation = header(key)
if not last then return {} end
if (ARGV[3] ~= '' and ARGV[3] ~= generation) or (ARGV[4] == '1' and after > last) then after = 0 end
local answer = {generation, last, 0}
local stored = redis.call('LLEN', key) - 1
local wanted = math.min(last - after, stored)
if wanted <= 0 or limit <= 0 then return answer end
answer[3] = last - wanted + 1
local stop = math.min(-wanted + limit - 1, -1)
for _, entry in ipairs(redis.call('LRANGE', key, -wanted, stop)) do answer[#answer + 1] = entry end
return answer
"""
)

LAST = Script(_HEADER + "\nlocal last = header(KEYS[1])\nreturn last or 0\n")

_MILLISECONDS = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local live = string.format('(%.0f', now)
"""

# ARGV: member, ttl, most
JOIN = Script(
    _MILLISECONDS
    + """
local key, member, most = KEYS[1], ARGV[1], tonumber(ARGV[3])
local others = redis.call('ZCOUNT', key, live, '+inf')
local own = redis.call('ZSCORE', key, member)
if own and tonumber(own) > now then others = others - 1 end
if others >= most then return 0 end
redis.call('ZADD', key, now + ARGV[2], member)
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
redis.call('PEXPIREAT', key, redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
return 1
"""
)

# ARGV: the member
LEAVE = Script(
    _MILLISECONDS
    + """
local own = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not own then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
return tonumber(own) > now and 1 or 0
"""
)

OLDEST = Script(
    _MILLISECONDS
    + """
local first = redis.call('ZRANGEBYSCORE', KEYS[1], live, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if not first[1] then return {} end
return {first[1], first[2] - now}
"""
)

# ARGV: how many
MEMBERS = Script(_MILLISECONDS + "return redis.call('ZRANGEBYSCORE', KEYS[1], live, '+inf', 'LIMIT', 0, ARGV[1])\n")

# ARGV: microseconds to add the tokens, microseconds to fill the bucket. The answer: microseconds to wait.
TAKE = Script("""
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full = tonumber(redis.call('GET', KEYS[1]) or now)
local taken = math.max(full, now) + ARGV[1]
local wait = math.ceil(taken - ARGV[2] - now)
if wait > 1 then return wait end
redis.call('SET', KEYS[1], string.format('%.0f', taken), 'PX', math.max(1, math.ceil((taken - now) / 1000)))
return 0
""")

ALL = (TOUCH_FOREVER, APPEND, CLAIM, READ, LAST, JOIN, LEAVE, OLDEST, MEMBERS, TAKE)
