/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * drop_reasons.h: one number per way a packet can end in the BPF programs and in the engine. The same
 * number is the counter's index, the value in events, and the row in the documentation.
 * X(name, number, text)
 */
#ifndef MROCE_DROP_REASONS_H
#define MROCE_DROP_REASONS_H

#define MROCE_DROP_LIST(X)                                                           \
	X(TRUNCATED, 1, "shorter than its headers say")                              \
	X(VERSION, 2, "unknown wire version")                                        \
	X(TYPE, 3, "unknown packet type")                                            \
	X(HDR_CRC, 4, "header CRC32C wrong")                                         \
	X(NO_CONN, 5, "no such connection")                                          \
	X(TOKEN, 6, "wrong token")                                                   \
	X(PATH, 7, "path number too high")                                           \
	X(DUPLICATE, 8, "PSN already seen")                                          \
	X(LATE, 9, "PSN below the window")                                           \
	X(AHEAD, 10, "PSN beyond the window")                                        \
	X(STALE_EPOCH, 11, "older epoch of the path")                                \
	X(SEQUENCE, 12, "una above psn")                                             \
	X(BODY_CRC, 13, "body CRC32C wrong")                                         \
	X(BODY, 14, "body malformed")                                                \
	X(NO_MEMORY, 15, "no record free for it; it will be repaired")               \
	X(DUP_LETTER, 16, "chunk already placed")                                    \
	X(MSG_SPAN, 17, "message or chunk number outside the span")                  \
	X(NO_RECEIVE, 18, "send without a posted receive")                           \
	X(ACCESS, 19, "region, bounds or permission wrong")                          \
	X(STREAM, 20, "more streams than agreed")                                    \
	X(ACK_UNSENT, 21, "acknowledges what was never sent")                        \
	X(STATE, 22, "not expected in this state of the connection")                 \
	X(AUTH_MISSING, 23, "set-up without the pre-shared key's signature")         \
	X(AUTH_WRONG, 24, "set-up signed with another pre-shared key, or changed")   \
	X(AUTH_TARGET, 25, "set-up signed for another host's address")               \
	X(COOKIE, 26, "set-up with an old or wrong cookie")                          \
	X(POST_FULL, 30, "letter handed over, and no path has room: it comes again") \
	X(POST_VOID, 31, "letter handed over so late that it has been sent again")

/* What went well. */
#define MROCE_COUNT_LIST(X)                                                                   \
	X(RX_REDIRECT, 32, "to the AF_XDP socket")                                            \
	X(RX_PASS_GAP, 33, "gap-revealing, passed with a note")                               \
	X(RX_PASS_CTL, 34, "set-up packets passed to the UDP socket")                         \
	X(TX_ACK, 35, "POLL turned into ACK")                                                 \
	X(TX_PROBE_REPLY, 36, "PROBE turned into PROBE_REPLY")                                \
	X(TX_NACK, 37, "NACK sent by TC")                                                     \
	X(NACK_FAILED, 38, "NACK that could not be cloned or rewritten")                      \
	X(RX_CE, 39, "arrived with CE")                                                       \
	X(RX_NO_SOCKET, 40, "passed: no AF_XDP socket on the queue")                          \
	X(REPLY_NO_ROOM, 41, "POLL or PROBE left to the daemon: the frame could not grow")    \
	X(TX_COOKIE, 42, "HELLO answered by a cookie, without any state")                     \
	X(MARKED, 43, "counted as CE by the virtual queue of its interface")                  \
	X(LOST_INSIDE, 44, "seen by the tracker and then lost in the host: will be repaired") \
	X(TX_LETTER, 60, "letter put into an envelope by TC")

enum mroce_reason {
	MROCE_REASON_NONE = 0,
#define X(name, number, text) MROCE_DROP_##name = number,
	MROCE_DROP_LIST(X)
#undef X
#define X(name, number, text) MROCE_COUNT_##name = number,
		MROCE_COUNT_LIST(X)
#undef X
			MROCE_COUNTERS = 64
};

#endif
