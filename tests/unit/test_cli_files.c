// SPDX-License-Identifier: BSD-2-Clause
/* File transfer without a network: names, wire format, garbage, and the sink's files. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/fileproto.h"
#include "cli/perfproto.h"
#include "cli/safepath.h"
#include "cli/sink.h"
#include "unit.h"

/* ---- names ---- */

static const char *refusal(const char *path)
{
	return safepath_refusal(path, strlen(path));
}

START_TEST(safepath__good_names)
{
	static const char *const good[] = { "a",	"a/b",	    "...",	 "a/..b",
					    ".hidden",	"a b/c\td", "a/b/c/d/e", "-",
					    "\xff\xfe", "a\\b",	    "..." };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(!refusal(good[i]), "'%s'", good[i]);
}
END_TEST

START_TEST(safepath__bad_names)
{
	static const char *const bad[] = { "",	   "/",	    "/etc/passwd",  "..",
					   "../x", "a/..",  "a/../b",	    "./a",
					   "a/.",  "a/./b", "a//b",	    "a/",
					   "//",   ".",	    "a/b/../../..", "a/b/../c" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(refusal(bad[i]) != NULL, "'%s'", bad[i]);
	ck_assert_ptr_nonnull(safepath_refusal("a\0b", 3));
}
END_TEST

START_TEST(safepath__lengths)
{
	char path[SAFEPATH_MAX + 2];

	memset(path, 'a', sizeof(path));
	ck_assert_ptr_null(safepath_refusal(path, 255));
	ck_assert_ptr_nonnull(safepath_refusal(path, 256));
	for (size_t i = 200; i < sizeof(path); i += 200)
		path[i] = '/';
	ck_assert_ptr_null(safepath_refusal(path, SAFEPATH_MAX));
	ck_assert_ptr_nonnull(safepath_refusal(path, SAFEPATH_MAX + 1));
}
END_TEST

START_TEST(safepath__links)
{
	ck_assert_ptr_null(safepath_link_refusal("a", "b"));
	ck_assert_ptr_null(safepath_link_refusal("a/b", "../c"));
	ck_assert_ptr_null(safepath_link_refusal("a/b/c", "../../x//y/"));
	ck_assert_ptr_null(safepath_link_refusal("a", "./b/.././c"));
	ck_assert_ptr_nonnull(safepath_link_refusal("a", ".."));
	ck_assert_ptr_nonnull(safepath_link_refusal("a", "../b"));
	ck_assert_ptr_nonnull(safepath_link_refusal("a/b", "../../c"));
	ck_assert_ptr_nonnull(safepath_link_refusal("a/b", "x/../../../c/d/e"));
	ck_assert_ptr_nonnull(safepath_link_refusal("a", "/etc"));
	ck_assert_ptr_nonnull(safepath_link_refusal("a", ""));
}
END_TEST

static const char *name_of(const char *argument)
{
	static char name[256];

	safepath_name(argument, name);
	return name;
}

START_TEST(safepath__names_of_arguments)
{
	ck_assert_str_eq(name_of("file"), "file");
	ck_assert_str_eq(name_of("/a/b/file"), "file");
	ck_assert_str_eq(name_of("dir/"), "");
	ck_assert_str_eq(name_of("a/dir//"), "");
	ck_assert_str_eq(name_of("."), "");
	ck_assert_str_eq(name_of("../.."), "");
	ck_assert_str_eq(name_of("/"), "");
	ck_assert_str_eq(name_of("../x"), "x");
}
END_TEST

/* ---- control messages ---- */

static struct fp_msg msg_of(enum fp_msg_type type)
{
	struct fp_msg m = { .type = type };

	switch (type) {
	case FP_HELLO:
		m.hello.streams = 4;
		m.hello.digest = FP_SHA256;
		m.hello.files = 1ull << 40;
		m.hello.bytes = UINT64_MAX;
		break;
	case FP_WELCOME:
		m.welcome.streams = 4;
		m.welcome.slots = 32;
		m.welcome.block = 1 << 20;
		m.welcome.addr = 0x7f0011223344ull;
		m.welcome.rkey = 0xdeadbeef;
		break;
	case FP_CONSUMED: m.consumed.blocks = 0x123456789abcull; break;
	case FP_FAILED:
		m.failed.error = ENOSPC;
		memset(m.failed.path, 'p', SAFEPATH_MAX);
		memset(m.failed.text, 't', sizeof(m.failed.text) - 1);
		break;
	case FP_RESULT:
		m.result.files = 1;
		m.result.bytes = 2;
		m.result.failed = 3;
		break;
	}
	return m;
}

START_TEST(fp_msg__round_trip)
{
	uint8_t buf[FP_MSG_MAX];

	for (int type = FP_HELLO; type <= FP_RESULT; type++) {
		struct fp_msg in = msg_of(type);
		struct fp_msg out;
		size_t len = fp_msg_pack(&in, buf, sizeof(buf));

		ck_assert_uint_gt(len, 8);
		memset(&out, 0, sizeof(out));
		ck_assert_int_eq(fp_msg_unpack(&out, buf, len), 0);
		ck_assert_mem_eq(&in, &out, sizeof(in));
	}
}
END_TEST

START_TEST(fp_msg__every_truncation_is_refused)
{
	uint8_t buf[FP_MSG_MAX];

	for (int type = FP_HELLO; type <= FP_RESULT; type++) {
		struct fp_msg in = msg_of(type);
		struct fp_msg out;
		size_t len = fp_msg_pack(&in, buf, sizeof(buf));

		for (size_t cut = 0; cut < len; cut++) {
			ck_assert_int_eq(fp_msg_unpack(&out, buf, cut), -EPROTO);
			ck_assert_uint_eq(fp_msg_pack(&in, buf, cut), 0);
		}
		fp_msg_pack(&in, buf, sizeof(buf));
		/* One byte too many is as wrong as one too few. */
		ck_assert_int_eq(fp_msg_unpack(&out, buf, len + 1), -EPROTO);
	}
}
END_TEST

START_TEST(fp_msg__versions_and_impossible_rings)
{
	struct fp_msg m = msg_of(FP_WELCOME);
	struct fp_msg out;
	uint8_t buf[FP_MSG_MAX];
	size_t len = fp_msg_pack(&m, buf, sizeof(buf));

	buf[5]++;
	ck_assert_int_eq(fp_msg_unpack(&out, buf, len), -EPROTONOSUPPORT);
	m.welcome.slots = 33; /* not a multiple of streams */
	len = fp_msg_pack(&m, buf, sizeof(buf));
	ck_assert_int_eq(fp_msg_unpack(&out, buf, len), -EPROTO);
	m.welcome.slots = 0;
	len = fp_msg_pack(&m, buf, sizeof(buf));
	ck_assert_int_eq(fp_msg_unpack(&out, buf, len), -EPROTO);
	m = msg_of(FP_WELCOME);
	m.welcome.streams = 0;
	len = fp_msg_pack(&m, buf, sizeof(buf));
	ck_assert_int_eq(fp_msg_unpack(&out, buf, len), -EPROTO);
	m = msg_of(FP_WELCOME);
	m.welcome.block = UINT32_MAX;
	len = fp_msg_pack(&m, buf, sizeof(buf));
	ck_assert_int_eq(fp_msg_unpack(&out, buf, len), -EPROTO);
}
END_TEST

/* ---- records ---- */

static struct fp_rec rec;
static uint8_t block[256 * 1024];

static void set_file(const char *path)
{
	memset(&rec, 0, sizeof(rec));
	rec.type = FP_FILE;
	rec.mode = 0640;
	rec.mtime = -1234567890;
	rec.mtime_ns = 999999999;
	rec.size = 5;
	strcpy(rec.path, path);
}

static void put_data(struct fp_writer *w, const char *text)
{
	ck_assert_uint_ge(fp_data_room(w), strlen(text));
	memcpy(fp_data_at(w), text, strlen(text));
	fp_data_put(w, strlen(text));
}

START_TEST(fp_rec__round_trip)
{
	struct fp_writer w = { block, sizeof(block), 0 };
	struct fp_reader r;

	set_file("dir/file");
	ck_assert(fp_put(&w, &rec));
	put_data(&w, "hello");
	rec.type = FP_END;
	rec.error = EIO;
	memset(rec.digest, 0xa5, sizeof(rec.digest));
	ck_assert(fp_put(&w, &rec));
	rec.type = FP_LINK;
	strcpy(rec.target, "../x");
	ck_assert(fp_put(&w, &rec));
	rec.type = FP_FINISH;
	rec.files = 7;
	ck_assert(fp_put(&w, &rec));

	r = (struct fp_reader){ block, block + w.used };
	memset(&rec, 0, sizeof(rec));
	ck_assert_int_eq(fp_next(&r, &rec), 1);
	ck_assert_int_eq(rec.type, FP_FILE);
	ck_assert_str_eq(rec.path, "dir/file");
	ck_assert_uint_eq(rec.mode, 0640);
	ck_assert_int_eq(rec.mtime, -1234567890);
	ck_assert_uint_eq(rec.mtime_ns, 999999999);
	ck_assert_int_eq(fp_next(&r, &rec), 1);
	ck_assert_int_eq(rec.type, FP_DATA);
	ck_assert_uint_eq(rec.data_len, 5);
	ck_assert_mem_eq(rec.data, "hello", 5);
	ck_assert_int_eq(fp_next(&r, &rec), 1);
	ck_assert_int_eq(rec.type, FP_END);
	ck_assert_int_eq(rec.error, EIO);
	ck_assert_int_eq(rec.digest[31], 0xa5);
	ck_assert_int_eq(fp_next(&r, &rec), 1);
	ck_assert_str_eq(rec.target, "../x");
	ck_assert_int_eq(fp_next(&r, &rec), 1);
	ck_assert_uint_eq(rec.files, 7);
	ck_assert_int_eq(fp_next(&r, &rec), 0);
}
END_TEST

START_TEST(fp_rec__longest_fits_into_the_smallest_block)
{
	struct fp_writer w = { block, FP_REC_MAX, 0 };

	memset(&rec, 0, sizeof(rec));
	rec.type = FP_LINK;
	memset(rec.path, 'p', SAFEPATH_MAX);
	memset(rec.target, 't', SAFEPATH_MAX);
	ck_assert(fp_put(&w, &rec));
	ck_assert_int_lt(FP_REC_MAX, FP_BLOCK_MIN);
	/* A record that does not fit leaves the block as it was. */
	w = (struct fp_writer){ block, 100, 0 };
	ck_assert(!fp_put(&w, &rec));
	ck_assert_uint_eq(w.used, 0);
}
END_TEST

START_TEST(fp_rec__truncations_and_bad_fields_are_refused)
{
	struct fp_writer w = { block, sizeof(block), 0 };
	struct fp_reader r;

	set_file("name");
	fp_put(&w, &rec);
	for (size_t cut = 1; cut < w.used; cut++) {
		r = (struct fp_reader){ block, block + cut };
		ck_assert_int_eq(fp_next(&r, &rec), -EPROTO);
	}
	/* A zero byte inside a name. */
	block[w.used - 2] = 0;
	r = (struct fp_reader){ block, block + w.used };
	ck_assert_int_eq(fp_next(&r, &rec), -EPROTO);
	/* Data that claims more than the block has. */
	memcpy(block, "\4\0\0\1\0xxxxxxxx", 13);
	r = (struct fp_reader){ block, block + 13 };
	ck_assert_int_eq(fp_next(&r, &rec), -EPROTO);
	memcpy(block, "\4\xff\xff\xff\xffxxxxxxxx", 13);
	r = (struct fp_reader){ block, block + 13 };
	ck_assert_int_eq(fp_next(&r, &rec), -EPROTO);
}
END_TEST

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Whatever a peer sends: an answer, never a crash, and the reader always moves on. */
START_TEST(fp__garbage)
{
	uint32_t seed = 4711;
	struct fp_msg msg;

	for (int round = 0; round < 20000; round++) {
		size_t len = next_random(&seed) % 300;
		struct fp_reader r = { block, block + len };

		for (size_t i = 0; i < len; i++)
			block[i] = (uint8_t)next_random(&seed);
		/* Half of them begin like the real thing. */
		if (round & 1 && len > 8)
			memcpy(block, "mrfp\0\1\0", 7);
		fp_msg_unpack(&msg, block, len);
		if (round & 2 && len)
			block[0] = 1 + next_random(&seed) % 7;
		while (fp_next(&r, &rec) == 1)
			ck_assert(r.at <= r.end);
	}
}
END_TEST

/* ---- sink ---- */

static char root[] = "/tmp/mroce-sink-XXXXXX";
static struct sink sink;
static char last_failed[SAFEPATH_MAX + 1];
static int last_error;

static void on_failed(void *ctx, const char *path, int err, const char *text)
{
	(void)ctx;
	ck_assert_ptr_nonnull(text);
	snprintf(last_failed, sizeof(last_failed), "%s", path);
	last_error = err;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void sink_setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(sink_open(&sink, root, FP_CRC64, on_failed, NULL), 0);
	last_failed[0] = '\0';
	last_error = 0;
}

static void sink_teardown(void)
{
	sink_close(&sink);
	nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	strcpy(root + strlen(root) - 6, "XXXXXX");
}

static int take(enum fp_rec_type type, const char *path)
{
	set_file(path);
	rec.type = type;
	return sink_take(&sink, &rec);
}

static int take_data(const char *text)
{
	memset(&rec, 0, sizeof(rec));
	rec.type = FP_DATA;
	rec.data = (const uint8_t *)text;
	rec.data_len = strlen(text);
	return sink_take(&sink, &rec);
}

static int take_end(const char *text, int error)
{
	struct digest d;

	memset(&rec, 0, sizeof(rec));
	rec.type = FP_END;
	rec.size = strlen(text);
	rec.error = error;
	digest_start(&d, sink.kind);
	digest_add(&d, text, strlen(text));
	digest_end(&d, rec.digest);
	return sink_take(&sink, &rec);
}

static void take_whole_file(const char *path, const char *text)
{
	ck_assert_int_eq(take(FP_FILE, path), 0);
	if (*text)
		ck_assert_int_eq(take_data(text), 0);
	ck_assert_int_eq(take_end(text, 0), 0);
}

static int take_link(const char *path, const char *target)
{
	set_file(path);
	rec.type = FP_LINK;
	strcpy(rec.target, target);
	return sink_take(&sink, &rec);
}

static const char *below(const char *path)
{
	static char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	return full;
}

static int entries;

static int count_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path, (void)st, (void)type;
	entries += ftw->level > 0;
	return 0;
}

static int count_entries(void)
{
	entries = 0;
	nftw(root, count_entry, 16, FTW_PHYS);
	return entries;
}

static void expect_contents(const char *path, const char *text)
{
	char buf[64] = "";
	int fd = open(below(path), O_RDONLY);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, buf, sizeof(buf) - 1), (ssize_t)strlen(text));
	ck_assert_str_eq(buf, text);
	close(fd);
}

START_TEST(sink__keeps_contents_mode_and_time)
{
	struct stat st;

	ck_assert_int_eq(take(FP_DIR, "d"), 0);
	take_whole_file("d/f", "hello");
	take_whole_file("d/empty", "");
	ck_assert_int_eq(take(FP_DIR_DONE, "d"), 0);
	expect_contents("d/f", "hello");
	ck_assert_int_eq(stat(below("d/f"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0640);
	ck_assert_int_eq(st.st_mtim.tv_sec, -1234567890);
	ck_assert_int_eq(st.st_mtim.tv_nsec, 999999999);
	ck_assert_int_eq(stat(below("d"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0640);
	ck_assert_int_eq(stat(below("d/empty"), &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	ck_assert_uint_eq(sink.files, 2);
	ck_assert_uint_eq(sink.bytes, 5);
	ck_assert_uint_eq(sink.failed, 0);
}
END_TEST

START_TEST(sink__set_uid_is_not_kept)
{
	struct stat st;

	set_file("f");
	rec.mode = 07755;
	sink_take(&sink, &rec);
	take_end("", 0);
	ck_assert_int_eq(stat(below("f"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0755);
}
END_TEST

START_TEST(sink__replaces_only_when_verified)
{
	take_whole_file("f", "old");
	ck_assert_int_eq(take(FP_FILE, "f"), 0);
	take_data("nex");
	expect_contents("f", "old");
	take_end("new", 0);
	ck_assert_int_eq(last_error, EBADMSG);
	expect_contents("f", "old");
	ck_assert_int_eq(take(FP_FILE, "f"), 0);
	take_data("ne");
	take_end("new", 0);
	expect_contents("f", "old");
	ck_assert_int_eq(take(FP_FILE, "f"), 0);
	take_data("new");
	take_end("new", EIO);
	expect_contents("f", "old");
	ck_assert_uint_eq(sink.failed, 3);
	take_whole_file("f", "new");
	expect_contents("f", "new");
	/* No temporary file stayed. */
	ck_assert_int_eq(count_entries(), 1);
}
END_TEST

START_TEST(sink__unfinished_file_is_removed)
{
	ck_assert_int_eq(take(FP_FILE, "f"), 0);
	take_data("half");
	ck_assert_int_ne(access(below("f"), F_OK), 0);
	sink_close(&sink);
	ck_assert_int_eq(count_entries(), 0);
	/* The same where files cannot be without a name. */
	ck_assert_int_eq(sink_open(&sink, root, FP_CRC64, on_failed, NULL), 0);
	sink.can_unnamed = false;
	ck_assert_int_eq(take(FP_FILE, "f"), 0);
	take_data("half");
	ck_assert_int_eq(count_entries(), 1);
	ck_assert_int_ne(access(below("f"), F_OK), 0);
	sink_close(&sink);
	ck_assert_int_eq(count_entries(), 0);
	ck_assert_int_eq(sink_open(&sink, root, FP_CRC64, on_failed, NULL), 0);
}
END_TEST

START_TEST(sink__no_escape_by_name)
{
	static const char *const bad[] = { "../x", "/tmp/mroce-sink-escape", "a/../../x", "" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		take_whole_file(bad[i], "evil");
		ck_assert_str_eq(last_failed, bad[i]);
		ck_assert_int_eq(last_error, EINVAL);
		ck_assert_int_eq(take(FP_DIR, bad[i]), 0);
		ck_assert_int_eq(take(FP_DIR_DONE, bad[i]), 0);
		ck_assert_int_eq(take_link(bad[i], "x"), 0);
	}
	ck_assert_uint_eq(sink.files, 0);
	ck_assert_uint_eq(sink.failed, 12);
	ck_assert_int_eq(count_entries(), 0);
	ck_assert_int_ne(access("/tmp/mroce-sink-escape", F_OK), 0);
}
END_TEST

START_TEST(sink__no_escape_by_links)
{
	/* Links that lead out are refused; one that is there already is not followed. */
	ck_assert_int_eq(take_link("out", "/etc"), 0);
	ck_assert_int_eq(take_link("up", ".."), 0);
	ck_assert_uint_eq(sink.failed, 2);
	ck_assert_int_eq(symlink("/tmp", below("door")), 0);
	take_whole_file("door/mroce-sink-escape", "evil");
	ck_assert_int_eq(last_error, ELOOP);
	ck_assert_int_ne(access("/tmp/mroce-sink-escape", F_OK), 0);
	ck_assert_int_eq(take(FP_DIR, "door"), 0);
	ck_assert_str_eq(last_failed, "door");
	/* A file takes the place of a link, and does not write through it. */
	ck_assert_int_eq(symlink("/tmp/mroce-sink-escape", below("f")), 0);
	take_whole_file("f", "mine");
	expect_contents("f", "mine");
	ck_assert_int_ne(access("/tmp/mroce-sink-escape", F_OK), 0);
}
END_TEST

START_TEST(sink__safe_links_are_kept)
{
	char target[64];
	ssize_t n;

	ck_assert_int_eq(take(FP_DIR, "d"), 0);
	ck_assert_int_eq(take_link("d/l", "../f"), 0);
	ck_assert_int_eq(take_link("d/l", "g"), 0);
	n = readlink(below("d/l"), target, sizeof(target));
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(target[0], 'g');
	ck_assert_uint_eq(sink.failed, 0);
	ck_assert_int_eq(count_entries(), 2);
}
END_TEST

START_TEST(sink__what_stands_in_the_way_is_reported)
{
	ck_assert_int_eq(take(FP_DIR, "d"), 0);
	take_whole_file("d", "x");
	ck_assert_int_eq(last_error, EISDIR);
	take_whole_file("f", "x");
	ck_assert_int_eq(take(FP_DIR, "f"), 0);
	ck_assert_str_eq(last_failed, "f");
	take_whole_file("f/g", "x");
	ck_assert_int_eq(last_error, ENOTDIR);
	take_whole_file("none/g", "x");
	ck_assert_int_eq(last_error, ENOENT);
	/* And the sink goes on. */
	take_whole_file("h", "x");
	expect_contents("h", "x");
	ck_assert_int_eq(count_entries(), 3);
}
END_TEST

START_TEST(sink__order_of_records_is_checked)
{
	ck_assert_int_eq(take_data("x"), -EPROTO);
	ck_assert_int_eq(take_end("", 0), -EPROTO);
	ck_assert_int_eq(take(FP_FILE, "f"), 0);
	ck_assert_int_eq(take(FP_FILE, "g"), -EPROTO);
	ck_assert_int_eq(take(FP_DIR, "g"), -EPROTO);
	ck_assert_int_eq(take(FP_FINISH, ""), -EPROTO);
	ck_assert_int_eq(take_end("", 0), 0);
	ck_assert_int_eq(take(FP_FINISH, ""), 0);
	ck_assert(sink.finished);
	ck_assert_int_eq(take(FP_FILE, "h"), -EPROTO);
}
END_TEST

/* ---- perf protocol ---- */

static struct perf_msg perf_request(void)
{
	return (struct perf_msg){ .type = PERF_REQUEST,
				  .op = PERF_SEND,
				  .flags = PERF_CHECK,
				  .streams = 4,
				  .depth = 128,
				  .slots = 128,
				  .rkey = 0x12345678,
				  .size = 65536,
				  .addr = 0x7fff00001111ull };
}

START_TEST(perf__round_trip)
{
	struct perf_msg in = perf_request();
	struct perf_msg out;
	uint8_t buf[PERF_MSG_LEN];

	perf_pack(&in, buf);
	ck_assert_int_eq(perf_unpack(&out, buf, sizeof(buf)), 0);
	ck_assert_uint_eq(out.addr, in.addr);
	ck_assert_uint_eq(out.rkey, in.rkey);
	ck_assert_uint_eq(out.size, in.size);
	ck_assert_uint_eq(perf_region(&out), 128 * 65536);
	ck_assert_int_eq(perf_unpack(&out, buf, sizeof(buf) - 1), -EPROTO);
	buf[5]++;
	ck_assert_int_eq(perf_unpack(&out, buf, sizeof(buf)), -EPROTONOSUPPORT);
	buf[0]++;
	ck_assert_int_eq(perf_unpack(&out, buf, sizeof(buf)), -EPROTO);
}
END_TEST

static int unpacked(struct perf_msg in)
{
	struct perf_msg out;
	uint8_t buf[PERF_MSG_LEN];

	perf_pack(&in, buf);
	return perf_unpack(&out, buf, sizeof(buf));
}

#define REFUSED(field, value)                            \
	do {                                             \
		struct perf_msg m_ = perf_request();     \
		m_.field = (value);                      \
		ck_assert_int_eq(unpacked(m_), -EPROTO); \
	} while (0)

START_TEST(perf__immodest_requests_are_refused)
{
	REFUSED(op, 0);
	REFUSED(op, 99);
	REFUSED(flags, 4);
	REFUSED(streams, 0);
	REFUSED(streams, PERF_STREAMS_MAX + 1);
	REFUSED(depth, 0);
	REFUSED(depth, PERF_DEPTH_MAX + 1);
	REFUSED(slots, 0);
	REFUSED(slots, 127);
	REFUSED(slots, UINT32_MAX);
	REFUSED(size, UINT64_MAX);
	REFUSED(size, PERF_SIZE_MAX);
}
END_TEST

START_TEST(perf__patterns_notice_every_byte)
{
	uint8_t buf[67];

	for (size_t len = 0; len <= sizeof(buf); len++) {
		pattern_fill(buf, len, 42);
		ck_assert(pattern_holds(buf, len, 42));
		ck_assert(len == 0 || !pattern_holds(buf, len, 43));
		for (size_t i = 0; i < len; i++) {
			buf[i] ^= 0x10;
			ck_assert(!pattern_holds(buf, len, 42));
			buf[i] ^= 0x10;
		}
	}
	ck_assert_uint_ne(pattern_seed(1, 2), pattern_seed(2, 1));
}
END_TEST

/* Runs the tests of the sink again with temporary names. */
static void named_setup(void)
{
	sink_setup();
	sink.can_unnamed = false;
}

static void add_name_tests(TCase *tcase)
{
	tcase_add_test(tcase, safepath__good_names);
	tcase_add_test(tcase, safepath__bad_names);
	tcase_add_test(tcase, safepath__lengths);
	tcase_add_test(tcase, safepath__links);
	tcase_add_test(tcase, safepath__names_of_arguments);
}

static void add_wire_tests(TCase *tcase)
{
	tcase_add_test(tcase, fp_msg__round_trip);
	tcase_add_test(tcase, fp_msg__every_truncation_is_refused);
	tcase_add_test(tcase, fp_msg__versions_and_impossible_rings);
	tcase_add_test(tcase, fp_rec__round_trip);
	tcase_add_test(tcase, fp_rec__longest_fits_into_the_smallest_block);
	tcase_add_test(tcase, fp_rec__truncations_and_bad_fields_are_refused);
	tcase_add_test(tcase, fp__garbage);
	tcase_add_test(tcase, perf__round_trip);
	tcase_add_test(tcase, perf__immodest_requests_are_refused);
	tcase_add_test(tcase, perf__patterns_notice_every_byte);
}

static void add_sink_tests(TCase *tcase, SFun setup)
{
	tcase_add_checked_fixture(tcase, setup, sink_teardown);
	tcase_add_test(tcase, sink__keeps_contents_mode_and_time);
	tcase_add_test(tcase, sink__set_uid_is_not_kept);
	tcase_add_test(tcase, sink__replaces_only_when_verified);
	tcase_add_test(tcase, sink__unfinished_file_is_removed);
	tcase_add_test(tcase, sink__no_escape_by_name);
	tcase_add_test(tcase, sink__no_escape_by_links);
	tcase_add_test(tcase, sink__safe_links_are_kept);
	tcase_add_test(tcase, sink__what_stands_in_the_way_is_reported);
	tcase_add_test(tcase, sink__order_of_records_is_checked);
}

static Suite *cli_files_suite(void)
{
	Suite *suite = suite_create("cli_files");
	TCase *names = tcase_create("names");
	TCase *wire = tcase_create("wire");
	TCase *files = tcase_create("sink");
	TCase *named = tcase_create("sink_named");

	add_name_tests(names);
	add_wire_tests(wire);
	add_sink_tests(files, sink_setup);
	add_sink_tests(named, named_setup);
	suite_add_tcase(suite, names);
	suite_add_tcase(suite, wire);
	suite_add_tcase(suite, files);
	suite_add_tcase(suite, named);
	return suite;
}

UNIT_MAIN(cli_files_suite)
