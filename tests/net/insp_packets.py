#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes captures for tests of the dissector: one of each packet type with every field set to a value of
its own, and damaged ones.

insp_packets.py good FILE: prints a line "field value" for each field that tshark must show.
insp_packets.py bad FILE COUNT SEED: damaged packets of all types.
"""
import random
import struct
import sys

PORT = 4797
TYPES = {"DATA": 1, "POLL": 2, "ACK": 3, "NACK": 4, "READ_REQ": 5, "CREDIT": 6, "FORGIVE": 7, "HELLO": 8,
         "ACCEPT": 9, "READY": 10, "PROBE": 11, "PROBE_REPLY": 12, "PORT_STATUS": 13, "CLOSE": 14, "ERROR": 15}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def header(kind, body, psn=1000, una=990, flags=0, path=3):
    head = struct.pack(">BBBBIIHHIIII", 1, kind, flags, path, 0xABCD0007, 0x11223344, 5, len(body), psn, una,
                       777777, crc32c(body) if body else 0)
    return head + struct.pack(">I", crc32c(head))


def frame(payload, v6=False, tos=2):
    udp = struct.pack(">HHHH", 50001, PORT, 8 + len(payload), 0) + payload
    mac = bytes.fromhex("020000010002020000010001")
    if v6:
        ip = struct.pack(">IHBB", 6 << 28 | tos << 20, len(udp), 17, 64) + address6(1) + address6(2)
        return mac + b"\x86\xdd" + ip + udp
    ip = struct.pack(">BBHHHBBH", 0x45, tos, 20 + len(udp), 0, 0x4000, 64, 17, 0) + bytes([10, 1, 0, 1, 10, 1, 0, 2])
    return mac + b"\x08\x00" + ip + udp


def address6(last):
    return bytes.fromhex("fd000001") + bytes(11) + bytes([last])


def write_pcap(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for n, bytes_of in enumerate(frames):
            out.write(struct.pack("<IIII", 1, n, len(bytes_of), len(bytes_of)) + bytes_of)


def data(op, payload, ext=b"", chunk=0, size=64, length=None):
    length = len(payload) if length is None else length
    return struct.pack(">IIIIQQIIHBB", 4, 17, 9, 0xFEEDC0DE, length, 0x7F0000001000, 0x99887766, chunk, size, op,
                       1 if ext else 0) + ext + payload


def words(psns):
    out = [0, 0, 0, 0]
    for psn in psns:
        out[psn // 64 % 4] |= 1 << psn % 64
    return struct.pack(">4Q", *out)


def ack():
    # 1000 is placed, 1001 a hole, 1002 and 1003 seen, 1004 to 1006 holes, 1007 seen
    return struct.pack(">IIIIIIHHI", 1000, 1007, 123456, 789, 42424, 1008, 3, 5 << 11 | 1000, 0) + \
        words([1000, 1002, 1003, 1007]) + words([1000])


def address(last):
    return bytes(10) + b"\xff\xff" + bytes([10, 1, 0, last])


def hello(status=0):
    fixed = struct.pack(">BBHIIIIIQQHBBI", 1, 1, status, 2, 7001, 0xABCD0007, 0x55667788, 900, 0x0102030405060708,
                        0x1112131415161718, 1352, 8, 2, 4096)
    fixed += address(2) + bytes(range(16)) + bytes(range(32))
    if status:
        return fixed
    ports = [address(1) + struct.pack(">HHI", 1500, 6, 10000), address(9) + struct.pack(">HHI", 3498, 7, 25000)]
    return fixed + b"".join(ports) + bytes(24 * 6)


def bodies():
    critical = struct.pack(">IIBBHQQ", 5000, 250000, 1, 1, 0, 128, 256)
    port = struct.pack(">BBH", 1, 1, 0)
    return {
        "DATA": [data(1, b"s" * 64), data(2, b"w" * 36, chunk=1, length=100), data(3, b"i" * 64), data(4, b"r" * 64),
                 data(5, b""), data(1, b"t" * 64, critical)],
        "POLL": [bytes(96)], "ACK": [ack()], "NACK": [ack()],
        "READ_REQ": [struct.pack(">IIQQQII", 4, 18, 4096, 0xAA000, 0xBB000, 0x1234, 0x5678)],
        "CREDIT": [struct.pack(">II", 4, 21)],
        "FORGIVE": [struct.pack(">IIQHHI", 4, 17, 1400, 8, 0, 0)],
        "HELLO": [hello()], "ACCEPT": [hello(), hello(4), hello(1)], "READY": [hello()],
        "PROBE": [b"", bytes(500)], "PROBE_REPLY": [b""],
        "PORT_STATUS": [port, port + address(1) + struct.pack(">HHI", 1500, 6, 10000)],
        "CLOSE": [struct.pack(">I", 2)],
        "ERROR": [struct.pack(">IIHBBI", 4, 17, 2, 0, 0, 0)],
    }


EXPECTED = """version 1
type 15
flags.ack_req 1
flags.repair 1
path 3
cid 0xabcd0007
token 0x11223344
epoch 5
psn 1000
una 990
ts 777777
stream 4
msg 17
data.rseq 9
data.imm 0xfeedc0de
data.msg_len 100
data.addr 0x00007f0000001000
data.rkey 0x99887766
data.chunk 1
data.chunk_size 64
data.op 5
data.ext 0x01
data.payload_len 36
tolerance.max_missing 5000
tolerance.deadline 250000
tolerance.flags 0x01
tolerance.ncritical 1
tolerance.offset 128
tolerance.length 256
ack.base 1000
ack.highest 1007
ack.rx_bytes 123456
ack.ce_bytes 789
ack.echo_ts 42424
ack.echo_psn 1008
ack.late 3
ack.hint 0x2be8
ack.hint_kbps 32000
ack.holes 4
ack.holes_list 1001 1004-1006
read.len 4096
read.addr 0x00000000000aa000
read.reply_addr 0x00000000000bb000
read.rkey 0x00001234
read.reply_rkey 0x00005678
credit.posted 21
forgive.missing 1400
forgive.status 8
hello.version_min 1
hello.version_max 1
hello.status 4
hello.features 0x00000002
hello.features.hint 1
hello.features.auth 0
hello.service 7001
hello.cid 0xabcd0007
hello.token 0x55667788
hello.first_psn 900
hello.nonce 0x0102030405060708
hello.peer_nonce 0x1112131415161718
hello.chunk 1352
hello.paths 8
hello.ports 2
hello.streams 4096
hello.to ::ffff:10.1.0.2
hello.cookie 000102030405060708090a0b0c0d0e0f
port.addr ::ffff:10.1.0.9
port.mtu 3498
port.serial 7
port.speed 25000
port_status.port 1
port_status.up 1
close.code 2
error.code 2
error.rseq 0
hdr_crc.status good
body_crc.status good"""


def write_good(path):
    packets = []
    for name, list_of in bodies().items():
        for body in list_of:
            for v6 in (False, True):
                packets.append(frame(header(TYPES[name], body) + body, v6))
    packets.append(frame(header(1, data(1, b"s" * 64), flags=3) + data(1, b"s" * 64)))
    write_pcap(path, packets)
    print(EXPECTED)


def damage(rng, payload):
    kind = rng.randrange(3)
    if kind == 0:
        return payload[:rng.randrange(len(payload))]
    changed = bytearray(payload)
    for _ in range(rng.randrange(1, 12)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    if kind == 1 or len(changed) < 36:
        return bytes(changed)
    # A liar whose checksums are right.
    changed[28:32] = struct.pack(">I", crc32c(changed[36:]))
    changed[32:36] = struct.pack(">I", crc32c(changed[:32]))
    return bytes(changed)


def write_bad(path, count, seed):
    rng = random.Random(seed)
    whole = [header(TYPES[name], body) + body for name, list_of in bodies().items() for body in list_of]
    write_pcap(path, [frame(damage(rng, rng.choice(whole))) for _ in range(count)])


if sys.argv[1] == "good":
    write_good(sys.argv[2])
else:
    write_bad(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
