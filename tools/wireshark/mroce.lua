-- SPDX-License-Identifier: BSD-2-Clause
--
-- mroce.lua: mroce packets in Wireshark and tshark (3.4 or newer). docs/protocol.md says what the
-- fields mean; include/mroce/wire.h has the same layout in C.
--
--	tshark -X lua_script:tools/wireshark/mroce.lua -r capture.pcap -Y mroce
--
-- or copy it into ~/.local/lib/wireshark/plugins. The UDP port and whether the CRC of bodies is
-- checked are preferences of the protocol (-o mroce.port:4797).

local bits = bit32 or require("bit")
local band, bxor, rshift = bits.band, bits.bxor, bits.rshift

local HDR_LEN = 36
local HDR_CRC_LEN = 32
local VERSION = 1
local WINDOW = 256

local mroce = Proto("mroce", "mroce")

mroce.prefs.port = Pref.uint("UDP port", 4797, "The service's UDP destination port")
mroce.prefs.body_crc = Pref.bool("Check the CRC32C of bodies", true, "Costs time on large captures")

-- ---- names --------------------------------------------------------------------------------------

local types = {
	[1] = "DATA", [2] = "POLL", [3] = "ACK", [4] = "NACK", [5] = "READ_REQ", [6] = "CREDIT",
	[7] = "FORGIVE", [8] = "HELLO", [9] = "ACCEPT", [10] = "READY", [11] = "PROBE",
	[12] = "PROBE_REPLY", [13] = "PORT_STATUS", [14] = "CLOSE", [15] = "ERROR",
}

-- Those that take a number on their path.
local numbered = { [1] = true, [5] = true, [6] = true, [7] = true, [13] = true, [14] = true,
	[15] = true }

local ops = { [1] = "SEND", [2] = "WRITE", [3] = "WRITE_IMM", [4] = "READ_RESP", [5] = "SEND_IMM" }

local accept_status = {
	[0] = "OK", [1] = "no such service", [2] = "version", [3] = "busy", [4] = "return this cookie",
	[5] = "key",
}

local close_codes = {
	[0] = "normal", [1] = "the application died", [2] = "the service stops", [3] = "protocol broken",
}

local statuses = {
	[0] = "OK", [1] = "FLUSHED", [2] = "REMOTE_ACCESS", [3] = "LOCAL_ACCESS", [4] = "LENGTH",
	[5] = "PEER_GONE", [6] = "PROTOCOL", [7] = "DAEMON", [8] = "LOSS",
}

-- ---- fields -------------------------------------------------------------------------------------

local f = {}
local all_fields = {}

local function field(key, kind, name, ...)
	local made = ProtoField[kind]("mroce." .. key, name, ...)

	f[key] = made
	all_fields[#all_fields + 1] = made
end

field("version", "uint8", "Version")
field("type", "uint8", "Type", base.DEC, types)
field("flags", "uint8", "Flags", base.HEX)
field("flags.ack_req", "bool", "ACK_REQ: acknowledge once placed", 8, nil, 0x01)
field("flags.repair", "bool", "REPAIR: was in an earlier envelope", 8, nil, 0x02)
field("path", "uint8", "Path (of the data's sender)")
field("cid", "uint32", "Connection id of the receiver", base.HEX)
field("token", "uint32", "Token", base.HEX)
field("epoch", "uint16", "Epoch")
field("body_len", "uint16", "Body length")
field("psn", "uint32", "PSN")
field("una", "uint32", "una: waits for nothing below")
field("ts", "uint32", "Timestamp (1024 ns)")
field("body_crc", "uint32", "Body CRC32C", base.HEX)
field("body_crc.status", "string", "Body CRC status")
field("hdr_crc", "uint32", "Header CRC32C", base.HEX)
field("hdr_crc.status", "string", "Header CRC status")

field("stream", "uint32", "Stream")
field("msg", "uint32", "Message")
field("data.rseq", "uint32", "Receive number")
field("data.imm", "uint32", "Immediate", base.HEX)
field("data.msg_len", "uint64", "Message length")
field("data.addr", "uint64", "Address", base.HEX)
field("data.rkey", "uint32", "rkey", base.HEX)
field("data.chunk", "uint32", "Chunk")
field("data.chunk_size", "uint16", "Chunk size")
field("data.op", "uint8", "Operation", base.DEC, ops)
field("data.ext", "uint8", "Extensions", base.HEX)
field("data.payload", "bytes", "Payload")
field("data.payload_len", "uint32", "Payload length")

field("tolerance.max_missing", "uint32", "May be missing (parts per million)")
field("tolerance.deadline", "uint32", "Deadline (us, 0: none)")
field("tolerance.flags", "uint8", "Flags", base.HEX)
field("tolerance.ncritical", "uint8", "Critical ranges")
field("tolerance.reserved", "uint16", "Reserved")
field("tolerance.offset", "uint64", "Critical from")
field("tolerance.length", "uint64", "Critical bytes")

field("ack.base", "uint32", "Base: everything below is placed or given up")
field("ack.highest", "uint32", "Highest seen")
field("ack.rx_bytes", "uint32", "Bytes received")
field("ack.ce_bytes", "uint32", "Bytes received with CE")
field("ack.echo_ts", "uint32", "Echoed timestamp")
field("ack.echo_psn", "uint32", "Echoed PSN")
field("ack.late", "uint16", "Late packets")
field("ack.hint", "uint16", "Rate hint", base.HEX)
field("ack.hint_kbps", "uint64", "Rate hint (kbit/s)")
field("ack.reserved", "uint32", "Reserved")
field("ack.seen", "bytes", "Seen")
field("ack.placed", "bytes", "Placed")
field("ack.holes", "uint32", "PSNs neither seen nor placed up to highest")
field("ack.holes_list", "string", "Holes")

field("poll.padding", "bytes", "Padding")

field("read.len", "uint64", "Bytes to read")
field("read.addr", "uint64", "Address at the responder", base.HEX)
field("read.reply_addr", "uint64", "Address at the requester", base.HEX)
field("read.rkey", "uint32", "rkey of the data", base.HEX)
field("read.reply_rkey", "uint32", "rkey of the requester's memory", base.HEX)

field("credit.posted", "uint32", "Receives posted")

field("forgive.missing", "uint64", "Missing bytes")
field("forgive.status", "uint16", "Status", base.DEC, statuses)
field("forgive.reserved", "bytes", "Reserved")

field("error.code", "uint16", "Code", base.DEC, statuses)
field("error.op", "uint8", "Operation of the message", base.DEC, ops)
field("error.reserved", "uint8", "Reserved")
field("error.rseq", "uint32", "Receive that it had taken")

field("close.code", "uint32", "Code", base.DEC, close_codes)

field("port_status.port", "uint8", "Port of the sender")
field("port_status.up", "bool", "Up")
field("port_status.reserved", "uint16", "Reserved")

field("hello.version_min", "uint8", "Lowest version spoken")
field("hello.version_max", "uint8", "Highest version spoken")
field("hello.status", "uint16", "Status", base.DEC, accept_status)
field("hello.features", "uint32", "Features", base.HEX)
field("hello.features.tolerance", "bool", "Stated loss tolerance", 32, nil, 0x1)
field("hello.features.hint", "bool", "Rate hints", 32, nil, 0x2)
field("hello.features.auth", "bool", "Signed with a pre-shared key", 32, nil, 0x4)
field("hello.service", "uint32", "Service")
field("hello.cid", "uint32", "Connection id of the sender of this", base.HEX)
field("hello.token", "uint32", "Token of the sender of this", base.HEX)
field("hello.first_psn", "uint32", "First PSN of every path")
field("hello.nonce", "uint64", "Nonce of the initiator", base.HEX)
field("hello.peer_nonce", "uint64", "Nonce of the responder", base.HEX)
field("hello.chunk", "uint16", "Largest chunk taken")
field("hello.paths", "uint8", "Paths")
field("hello.ports", "uint8", "Ports")
field("hello.streams", "uint32", "Streams")
field("hello.to", "ipv6", "Address that is to be reached")
field("hello.cookie", "bytes", "Cookie")
field("hello.mac", "bytes", "Signature")

field("port.addr", "ipv6", "Address")
field("port.mtu", "uint16", "MTU")
field("port.serial", "uint16", "Serial")
field("port.speed", "uint32", "Speed (Mbit/s)")

field("rest", "bytes", "Bytes beyond the body's layout")
mroce.fields = all_fields

-- ---- expert information -------------------------------------------------------------------------

local e = {}
local all_experts = {}

local function note(key, text, group, severity)
	e[key] = ProtoExpert.new("mroce.expert." .. key, text, group, severity)
	all_experts[#all_experts + 1] = e[key]
end

note("short", "Shorter than its layout says", expert.group.MALFORMED, expert.severity.ERROR)
note("length", "body_len is not what UDP carries", expert.group.MALFORMED, expert.severity.ERROR)
note("version", "Unknown version", expert.group.PROTOCOL, expert.severity.ERROR)
note("type", "Unknown type", expert.group.PROTOCOL, expert.severity.ERROR)
note("hdr_crc", "Header CRC32C wrong: receivers drop this", expert.group.CHECKSUM, expert.severity.ERROR)
note("body_crc", "Body CRC32C wrong: will be repaired", expert.group.CHECKSUM, expert.severity.ERROR)
note("una", "una above psn, or more than a window below", expert.group.PROTOCOL, expert.severity.WARN)
note("path", "Path number of 16 or more", expert.group.PROTOCOL, expert.severity.WARN)
note("reserved", "Reserved field is not 0", expert.group.PROTOCOL, expert.severity.WARN)
note("payload", "Payload is not what message and chunk say", expert.group.PROTOCOL, expert.severity.WARN)
note("refused", "Set-up refused", expert.group.RESPONSE_CODE, expert.severity.WARN)
note("cookie", "Set-up to be repeated with this cookie", expert.group.RESPONSE_CODE, expert.severity.CHAT)
note("failed", "A message failed", expert.group.RESPONSE_CODE, expert.severity.WARN)
note("closed", "Connection closed", expert.group.SEQUENCE, expert.severity.CHAT)
note("port", "A port of the sender changed or is told of", expert.group.SEQUENCE, expert.severity.CHAT)
note("repair", "Repair of a lost letter", expert.group.SEQUENCE, expert.severity.NOTE)
note("gap", "Gap seen by the receiver", expert.group.SEQUENCE, expert.severity.NOTE)
note("ce", "Congestion Experienced", expert.group.SEQUENCE, expert.severity.NOTE)
mroce.experts = all_experts

local ip_ecn = Field.new("ip.dsfield.ecn")
local ip6_ecn = Field.new("ipv6.tclass.ecn")

-- ---- CRC32C -------------------------------------------------------------------------------------

local crc_table = {}
for i = 0, 255 do
	local crc = i

	for _ = 1, 8 do
		crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0x82f63b78) or rshift(crc, 1)
	end
	crc_table[i] = crc
end

local function crc32c(range)
	local bytes = range:raw()
	local crc = 0xffffffff

	for i = 1, #bytes do
		crc = bxor(rshift(crc, 8), crc_table[band(bxor(crc, bytes:byte(i)), 0xff)])
	end
	return bxor(crc, 0xffffffff) % 0x100000000
end

-- status: the field that says in words what the check gave.
local function check_crc(tree, covered, at, given, status, bad)
	local want = at:uint()
	local item = tree:add(given, at)

	if covered and crc32c(covered) ~= want then
		tree:add(status, "bad"):set_generated()
		item:add_proto_expert_info(bad)
		return false
	end
	tree:add(status, covered and "good" or "unchecked"):set_generated()
	return true
end

-- ---- bodies -------------------------------------------------------------------------------------

-- Adds fields in a row: { key, bytes }... Returns the offset behind them.
local function row(tree, tvb, offset, list)
	for _, entry in ipairs(list) do
		tree:add(f[entry[1]], tvb(offset, entry[2]))
		offset = offset + entry[2]
	end
	return offset
end

local function add_reserved(tree, key, range)
	local item = tree:add(f[key], range)

	for i = 0, range:len() - 1 do
		if range(i, 1):uint() ~= 0 then
			item:add_proto_expert_info(e.reserved)
			return
		end
	end
end

-- a - b of serial numbers.
local function distance(a, b)
	return (a - b) % 0x100000000
end

local function bit_of(bitmap, psn)
	-- Words of 64 bits in network order: bit 0 is the last byte's lowest.
	local place = psn % WINDOW
	local word = math.floor(place / 64)
	local byte = word * 8 + 7 - math.floor(place % 64 / 8)

	return band(rshift(bitmap(byte, 1):uint(), place % 8), 1) == 1
end

local function holes(base, highest, seen, placed)
	local list, count, from = {}, 0, nil
	local span = distance(highest + 1, base)

	if span > WINDOW then
		return 0, ""
	end
	for i = 0, span do
		local psn = (base + i) % 0x100000000
		local missing = i < span and not bit_of(seen, psn) and not bit_of(placed, psn)

		if missing then
			count = count + 1
			from = from or psn
		elseif from then
			local last = (psn - 1) % 0x100000000

			list[#list + 1] = from == last and tostring(from) or from .. "-" .. last
			from = nil
		end
	end
	return count, table.concat(list, " ")
end

-- 5 bits of exponent above 11 of mantissa; see include/mroce/rate.h.
local function hint_kbps(hint)
	return UInt64(hint % 2048):lshift(math.floor(hint / 2048))
end

local body = {}

local function add_tolerance(tree, tvb, offset, left)
	local n = left >= 12 and tvb(offset + 9, 1):uint() or 0
	local sub

	if left < 12 + 16 * n then
		tree:add_proto_expert_info(e.short)
		return nil
	end
	sub = tree:add(tvb(offset, 12 + 16 * n), "Stated loss tolerance")
	offset = row(sub, tvb, offset, { { "tolerance.max_missing", 4 }, { "tolerance.deadline", 4 },
		{ "tolerance.flags", 1 }, { "tolerance.ncritical", 1 } })
	add_reserved(sub, "tolerance.reserved", tvb(offset, 2))
	offset = offset + 2
	for _ = 1, n do
		offset = row(sub, tvb, offset, { { "tolerance.offset", 8 }, { "tolerance.length", 8 } })
	end
	return offset
end

local function check_payload(item, tvb, len)
	local msg_len = tvb(16, 8):uint64():tonumber()
	local from = tvb(36, 4):uint() * tvb(40, 2):uint()
	local want = math.min(tvb(40, 2):uint(), msg_len - from)

	if want ~= len then
		item:add_proto_expert_info(e.payload)
	end
end

body[1] = { 44, function(tree, tvb, len)
	local op, ext = tvb(42, 1):uint(), tvb(43, 1):uint()
	local offset = row(tree, tvb, 0, { { "stream", 4 }, { "msg", 4 }, { "data.rseq", 4 },
		{ "data.imm", 4 }, { "data.msg_len", 8 }, { "data.addr", 8 }, { "data.rkey", 4 },
		{ "data.chunk", 4 }, { "data.chunk_size", 2 }, { "data.op", 1 } })
	local item = tree:add(f["data.ext"], tvb(offset, 1))

	offset = offset + 1
	if ext > 1 then
		item:add_proto_expert_info(e.reserved)
	elseif ext == 1 then
		offset = add_tolerance(tree, tvb, offset, len - offset)
		if not offset then
			return len, "tolerance cut off"
		end
	end
	item = tree:add(f["data.payload_len"], len - offset)
	item:set_generated()
	check_payload(item, tvb, len - offset)
	if offset < tvb:len() then
		tree:add(f["data.payload"], tvb(offset))
	end
	return len, string.format("%s stream %u msg %u chunk %u, %u bytes", ops[op] or "op " .. op,
		tvb(0, 4):uint(), tvb(4, 4):uint(), tvb(36, 4):uint(), len - offset)
end }

local function padding(tree, tvb, len)
	if len > 0 and tvb:len() > 0 then
		tree:add(f["poll.padding"], tvb(0))
	end
	return len
end

body[2] = { 0, padding }

local function ack(tree, tvb)
	local base, highest, hint = tvb(0, 4):uint(), tvb(4, 4):uint(), tvb(26, 2):uint()
	local n, list = holes(base, highest, tvb(32, 32), tvb(64, 32))
	local item

	row(tree, tvb, 0, { { "ack.base", 4 }, { "ack.highest", 4 }, { "ack.rx_bytes", 4 },
		{ "ack.ce_bytes", 4 }, { "ack.echo_ts", 4 }, { "ack.echo_psn", 4 }, { "ack.late", 2 },
		{ "ack.hint", 2 } })
	tree:add(f["ack.hint_kbps"], hint_kbps(hint)):set_generated()
	add_reserved(tree, "ack.reserved", tvb(28, 4))
	row(tree, tvb, 32, { { "ack.seen", 32 }, { "ack.placed", 32 } })
	item = tree:add(f["ack.holes"], n)
	item:set_generated()
	if n > 0 then
		tree:add(f["ack.holes_list"], list):set_generated()
		item:add_proto_expert_info(e.gap)
	end
	return 96, string.format("base %u highest %u%s", base, highest, n > 0 and " holes " .. list or "")
end

body[3] = { 96, ack }
body[4] = { 96, ack }

body[5] = { 40, function(tree, tvb)
	row(tree, tvb, 0, { { "stream", 4 }, { "msg", 4 }, { "read.len", 8 }, { "read.addr", 8 },
		{ "read.reply_addr", 8 }, { "read.rkey", 4 }, { "read.reply_rkey", 4 } })
	return 40, string.format("stream %u msg %u %s bytes", tvb(0, 4):uint(), tvb(4, 4):uint(),
		tostring(tvb(8, 8):uint64()))
end }

body[6] = { 8, function(tree, tvb)
	row(tree, tvb, 0, { { "stream", 4 }, { "credit.posted", 4 } })
	return 8, string.format("stream %u posted %u", tvb(0, 4):uint(), tvb(4, 4):uint())
end }

body[7] = { 24, function(tree, tvb)
	row(tree, tvb, 0, { { "stream", 4 }, { "msg", 4 }, { "forgive.missing", 8 },
		{ "forgive.status", 2 } })
	add_reserved(tree, "forgive.reserved", tvb(18, 6))
	return 24, string.format("stream %u msg %u", tvb(0, 4):uint(), tvb(4, 4):uint())
end }

local function add_port(tree, tvb, offset, label)
	local sub = tree:add(tvb(offset, 24), label)

	row(sub, tvb, offset, { { "port.addr", 16 }, { "port.mtu", 2 }, { "port.serial", 2 },
		{ "port.speed", 4 } })
end

local function add_features(tree, at)
	local sub = tree:add(f["hello.features"], at)

	for _, key in ipairs({ "tolerance", "hint", "auth" }) do
		sub:add(f["hello.features." .. key], at)
	end
end

local function hello(tree, tvb, len)
	local status, ports = tvb(2, 2):uint(), math.min(tvb(43, 1):uint(), 8)
	local item

	row(tree, tvb, 0, { { "hello.version_min", 1 }, { "hello.version_max", 1 } })
	item = tree:add(f["hello.status"], tvb(2, 2))
	if status == 4 then
		item:add_proto_expert_info(e.cookie)
	elseif status ~= 0 then
		item:add_proto_expert_info(e.refused)
	end
	add_features(tree, tvb(4, 4))
	row(tree, tvb, 8, { { "hello.service", 4 }, { "hello.cid", 4 }, { "hello.token", 4 },
		{ "hello.first_psn", 4 }, { "hello.nonce", 8 }, { "hello.peer_nonce", 8 },
		{ "hello.chunk", 2 }, { "hello.paths", 1 }, { "hello.ports", 1 }, { "hello.streams", 4 },
		{ "hello.to", 16 }, { "hello.cookie", 16 }, { "hello.mac", 32 } })
	if len < 304 then
		return 112, accept_status[status]
	end
	for i = 0, 7 do
		add_port(tree, tvb, 112 + 24 * i, "Port " .. i .. (i < ports and "" or " (unused)"))
	end
	return 304, string.format("service %u, %u ports, %u paths%s", tvb(8, 4):uint(), ports,
		tvb(42, 1):uint(), status ~= 0 and ": " .. (accept_status[status] or status) or "")
end

body[8] = { 304, hello }
body[9] = { 112, hello }
body[10] = { 304, hello }
body[11] = { 0, padding }
body[12] = { 0, padding }

body[13] = { 4, function(tree, tvb, len)
	local used = 4

	row(tree, tvb, 0, { { "port_status.port", 1 }, { "port_status.up", 1 } })
	add_reserved(tree, "port_status.reserved", tvb(2, 2))
	tree:add_proto_expert_info(e.port)
	if len >= 28 then
		add_port(tree, tvb, 4, "The port as it is now")
		used = 28
	end
	return used, string.format("port %u is %s", tvb(0, 1):uint(),
		tvb(1, 1):uint() ~= 0 and "up" or "down")
end }

body[14] = { 4, function(tree, tvb)
	local code = tvb(0, 4):uint()

	tree:add(f["close.code"], tvb(0, 4)):add_proto_expert_info(e.closed)
	return 4, close_codes[code] or tostring(code)
end }

body[15] = { 16, function(tree, tvb)
	local code = tvb(8, 2):uint()

	row(tree, tvb, 0, { { "stream", 4 }, { "msg", 4 } })
	tree:add(f["error.code"], tvb(8, 2)):add_proto_expert_info(e.failed)
	tree:add(f["error.op"], tvb(10, 1))
	add_reserved(tree, "error.reserved", tvb(11, 1))
	tree:add(f["error.rseq"], tvb(12, 4))
	return 16, string.format("stream %u msg %u: %s", tvb(0, 4):uint(), tvb(4, 4):uint(),
		statuses[code] or tostring(code))
end }

-- ---- the packet ---------------------------------------------------------------------------------

local function add_header(tree, tvb)
	local kind = tvb(1, 1):uint()
	local psn, una = tvb(16, 4):uint(), tvb(20, 4):uint()
	local flags, item

	item = tree:add(f["version"], tvb(0, 1))
	if tvb(0, 1):uint() ~= VERSION then
		item:add_proto_expert_info(e.version)
	end
	item = tree:add(f["type"], tvb(1, 1))
	if not types[kind] then
		item:add_proto_expert_info(e.type)
	end
	flags = tree:add(f["flags"], tvb(2, 1))
	flags:add(f["flags.ack_req"], tvb(2, 1))
	item = flags:add(f["flags.repair"], tvb(2, 1))
	if band(tvb(2, 1):uint(), 2) ~= 0 then
		item:add_proto_expert_info(e.repair)
	end
	item = tree:add(f["path"], tvb(3, 1))
	if tvb(3, 1):uint() >= 16 then
		item:add_proto_expert_info(e.path)
	end
	row(tree, tvb, 4, { { "cid", 4 }, { "token", 4 }, { "epoch", 2 }, { "body_len", 2 },
		{ "psn", 4 } })
	item = tree:add(f["una"], tvb(20, 4))
	if (numbered[kind] or kind == 2) and distance(psn, una) > WINDOW then
		item:add_proto_expert_info(e.una)
	end
	tree:add(f["ts"], tvb(24, 4))
end

-- Returns text for the list of packets.
local function add_body(tree, tvb, kind, len)
	local layout = body[kind]
	local used, text

	if not layout then
		return nil
	end
	if len < layout[1] or tvb:len() < layout[1] then
		tree:add_proto_expert_info(e.short)
		return "cut off"
	end
	used, text = layout[2](tree, tvb, len)
	if used < len and used < tvb:len() then
		tree:add(f["rest"], tvb(used))
	end
	return text
end

local function has_ce()
	local ecn = ip_ecn() or ip6_ecn()

	return ecn and ecn.value == 3
end

function mroce.dissector(tvb, pinfo, root)
	local len = tvb:reported_length_remaining()
	local tree, kind, body_len, covered, good, text, item

	if len < HDR_LEN or tvb:len() < HDR_LEN then
		if len < HDR_LEN then
			pinfo.cols.protocol = "mroce"
			root:add(mroce, tvb()):add_proto_expert_info(e.short)
		end
		return tvb:len()
	end
	kind, body_len = tvb(1, 1):uint(), tvb(14, 2):uint()
	pinfo.cols.protocol = "mroce"
	tree = root:add(mroce, tvb())
	add_header(tree, tvb)
	covered = body_len > 0 and mroce.prefs.body_crc and tvb:len() >= HDR_LEN + body_len and
		tvb(HDR_LEN, body_len) or nil
	check_crc(tree, covered, tvb(28, 4), f["body_crc"], f["body_crc.status"], e.body_crc)
	good = check_crc(tree, tvb(0, HDR_CRC_LEN), tvb(32, 4), f["hdr_crc"], f["hdr_crc.status"],
		e.hdr_crc)
	if len ~= HDR_LEN + body_len then
		tree:add_proto_expert_info(e.length)
	end
	if has_ce() then
		tree:add_proto_expert_info(e.ce)
	end
	if tvb:len() > HDR_LEN and good then
		item = tree:add(tvb(HDR_LEN), (types[kind] or "Body") .. " body")
		text = add_body(item, tvb(HDR_LEN):tvb(), kind, len - HDR_LEN)
	elseif body[kind] and len - HDR_LEN < body[kind][1] and good then
		tree:add_proto_expert_info(e.short)
	end
	text = string.format("%s path %u psn %u una %u %s%s%s", types[kind] or "type " .. kind,
		tvb(3, 1):uint(), tvb(16, 4):uint(), tvb(20, 4):uint(), text or "",
		band(tvb(2, 1):uint(), 2) ~= 0 and " [REPAIR]" or "", good and "" or " [bad header CRC]")
	tree:append_text(": " .. text)
	pinfo.cols.info = text
	return tvb:len()
end

-- ---- which port ---------------------------------------------------------------------------------

local udp = DissectorTable.get("udp.port")
local port = 0

local function listen()
	if port ~= mroce.prefs.port then
		if port ~= 0 then
			udp:remove(port, mroce)
		end
		port = mroce.prefs.port
		udp:add(port, mroce)
	end
end

mroce.prefs_changed = listen
listen()
