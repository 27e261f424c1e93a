// SPDX-License-Identifier: BSD-2-Clause
/*
 * send.c: `mroce send FILE... HOST`: walks files and folders, reads them into blocks. Links named on the
 * command line are followed, those inside a folder are sent as links. As with rsync, `DIR` arrives as a
 * folder and `DIR/` means what is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmd.h"
#include "digest.h"
#include "link.h"
#include "options.h"
#include "safepath.h"
#include "sender.h"
#include "summary.h"

#define CONNECT_MS 5000
#define FTS_OPTIONS (FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW)

static struct {
	bool quiet, sha256;
	uint64_t service, streams;
	double timeout;
} opts;

static const struct opt send_opts[] = {
	{ 'q', "quiet", NULL, "no progress", OPT_FLAG, &opts.quiet, 0, 0 },
	{ 0, "sha256", NULL, "verify files by SHA-256 (default CRC64, much faster)", OPT_FLAG,
	  &opts.sha256, 0, 0 },
	{ 0, "streams", "N", "streams to spread over (default 4)", OPT_NUMBER, &opts.streams, 1,
	  FP_STREAMS_MAX },
	{ 0, "service", "N", "service the receiver listens on (default 7001)", OPT_NUMBER,
	  &opts.service, 1, UINT32_MAX },
	{ 0, "timeout", "SECONDS", "give up after so long without progress (default 60)",
	  OPT_SECONDS, &opts.timeout, 1, 86400 },
	{ 0 },
};

static const struct opt_table send_table = {
	.command = "mroce send",
	.args = "[OPTIONS] FILE... HOST",
	.about = "Sends files and folders to 'mroce recv' on HOST, verified end to end.",
	.opts = send_opts,
	.json = true,
};

struct job {
	struct sender sender;
	uint64_t files, bytes; /* counted beforehand */
	uint64_t sent;	       /* files and links sent */
	uint64_t skipped;      /* could not be read here */
	enum fp_digest_kind digest;
	struct fp_rec rec; /* too large for the stack of a loop */
};

/* ---- walking ---- */

typedef int visit_fn(struct job *job, FTSENT *ent, const char *path);

/* The entry's path as the receiver shall see it. False: it is the folder whose contents are sent. */
static bool sent_path(const FTSENT *ent, const char *argument, const char *name, char *out,
		      size_t size)
{
	const char *below = ent->fts_path + strlen(argument);

	below += strspn(below, "/");
	if (ent->fts_level == FTS_ROOTLEVEL)
		snprintf(out, size, "%s", name);
	else if (*name)
		snprintf(out, size, "%s/%s", name, below);
	else
		snprintf(out, size, "%s", below);
	return *out;
}

static int walk_one(struct job *job, const char *argument, visit_fn *visit)
{
	char *const roots[] = { (char *)argument, NULL };
	/* One more than fits, so that a name that is too long is noticed and not cut. */
	char path[SAFEPATH_MAX + 2];
	char name[256];
	FTSENT *ent;
	int err = 0;
	FTS *fts;

	safepath_name(argument, name);
	fts = fts_open(roots, FTS_OPTIONS, NULL);
	if (!fts)
		return -errno;
	while (!err && !cli_stop && (ent = fts_read(fts)))
		if (sent_path(ent, argument, name, path, sizeof(path)))
			err = visit(job, ent, path);
	fts_close(fts);
	return cli_stop ? -EINTR : err;
}

static int walk(struct job *job, char **arguments, int n, visit_fn *visit)
{
	int err = 0;

	for (int i = 0; i < n && !err; i++)
		err = walk_one(job, arguments[i], visit);
	return err;
}

static int count(struct job *job, FTSENT *ent, const char *path)
{
	(void)path;
	if (ent->fts_info == FTS_F && S_ISREG(ent->fts_statp->st_mode)) {
		job->files++;
		job->bytes += ent->fts_statp->st_size;
	}
	return 0;
}

/* ---- sending ---- */

static int skip(struct job *job, const char *path, const char *why)
{
	job->skipped++;
	warn_user("%s: not sent: %s", path, why);
	return 0;
}

static void set_meta(struct fp_rec *rec, const struct stat *st, const char *path)
{
	rec->mode = st->st_mode & 07777;
	rec->mtime = st->st_mtim.tv_sec;
	rec->mtime_ns = st->st_mtim.tv_nsec;
	strcpy(rec->path, path);
}

/* Reads the file into blocks. 0 or -errno of the connection; *read_error: errno of the file. */
static int send_data(struct job *job, int fd, uint64_t expected, struct digest *digest,
		     uint64_t *length, int *read_error)
{
	uint8_t *at;
	size_t room;
	ssize_t n;
	int err;

	*length = 0;
	*read_error = 0;
	/* A file of a known size needs no extra read to find its end; one of /proc has size 0. */
	while (!expected || *length < expected) {
		err = sender_room(&job->sender, &at, &room);
		if (err)
			return err;
		n = read(fd, at, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			*read_error = errno;
		if (n <= 0)
			return 0;
		digest_add(digest, at, n);
		sender_data(&job->sender, n);
		*length += n;
	}
	return 0;
}

static int send_contents(struct job *job, int fd, const struct stat *st, const char *path)
{
	struct fp_rec *rec = &job->rec;
	struct digest digest;
	int read_error;
	int err;

	rec->type = FP_FILE;
	rec->size = st->st_size;
	set_meta(rec, st, path);
	err = sender_put(&job->sender, rec);
	if (err)
		return err;
	digest_start(&digest, job->digest);
	err = send_data(job, fd, st->st_size, &digest, &rec->size, &read_error);
	if (err)
		return err;
	rec->type = FP_END;
	rec->error = read_error;
	digest_end(&digest, rec->digest);
	if (read_error)
		skip(job, path, strerror(read_error));
	else
		job->sent++;
	return sender_put(&job->sender, rec);
}

static int send_file(struct job *job, const FTSENT *ent, const char *path)
{
	struct stat st;
	int fd;
	int err;

	/* Not blocking: a pipe may have taken the file's place since the walk. */
	fd = open(ent->fts_accpath, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return skip(job, ent->fts_path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return skip(job, ent->fts_path, "not a regular file");
	}
	if (st.st_size > FP_BLOCK_MIN)
		posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	err = send_contents(job, fd, &st, path);
	close(fd);
	return err;
}

static int send_link(struct job *job, const FTSENT *ent, const char *path)
{
	struct fp_rec *rec = &job->rec;
	ssize_t n = readlink(ent->fts_accpath, rec->target, sizeof(rec->target));

	if (n < 0)
		return skip(job, ent->fts_path, strerror(errno));
	if (n == sizeof(rec->target))
		return skip(job, ent->fts_path, "its target is too long");
	rec->target[n] = '\0';
	rec->type = FP_LINK;
	strcpy(rec->path, path);
	job->sent++;
	return sender_put(&job->sender, rec);
}

static int send_dir(struct job *job, const FTSENT *ent, const char *path, enum fp_rec_type type)
{
	job->rec.type = type;
	set_meta(&job->rec, ent->fts_statp, path);
	return sender_put(&job->sender, &job->rec);
}

static int send_entry(struct job *job, FTSENT *ent, const char *path)
{
	const char *why = safepath_refusal(path, strlen(path));

	if (why)
		return skip(job, ent->fts_path, why);
	switch (ent->fts_info) {
	case FTS_F: return send_file(job, ent, path);
	case FTS_SL:
	case FTS_SLNONE: return send_link(job, ent, path);
	case FTS_D: return send_dir(job, ent, path, FP_DIR);
	case FTS_DP: return send_dir(job, ent, path, FP_DIR_DONE);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS: return skip(job, ent->fts_path, strerror(ent->fts_errno));
	case FTS_DC: return skip(job, ent->fts_path, "the folder contains itself");
	}
	return skip(job, ent->fts_path, "neither file, folder nor link");
}

static int send_finish(struct job *job)
{
	int err;

	job->rec.type = FP_FINISH;
	job->rec.files = job->sent;
	job->rec.size = job->sender.file_bytes;
	err = sender_put(&job->sender, &job->rec);
	return err ? err : sender_finish(&job->sender);
}

/* ---- the command ---- */

static int transfer(struct job *job, char **arguments, int n)
{
	int err;

	progress_start(&job->sender.progress, job->bytes, opts.quiet || cli.json);
	err = walk(job, arguments, n, send_entry);
	if (!err)
		err = send_finish(job);
	progress_end(&job->sender.progress);
	return err;
}

static int conclude(struct job *job, double seconds)
{
	const struct sender *s = &job->sender;
	struct summary sum = { .verb = "sent",
			       .peer = s->host,
			       .files = s->result_files,
			       .bytes = s->result_bytes,
			       .failed = s->result_failed + job->skipped,
			       .seconds = seconds,
			       .digest = job->digest };

	link_repairs(mroce_conn_id(s->conn), &sum.repairs);
	if (!sum.failed && s->result_files != job->sent) {
		fail("%s: receiver kept %llu of %llu files without saying why", s->host,
		     (unsigned long long)s->result_files, (unsigned long long)job->sent);
		sum.failed = job->sent - s->result_files;
	}
	summary_print(&sum);
	return sum.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run(struct job *job, struct mroce *m, const char *host, char **arguments, int n)
{
	struct fp_msg hello = { .type = FP_HELLO,
				.hello = { .streams = opts.streams,
					   .digest = job->digest,
					   .files = job->files,
					   .bytes = job->bytes } };
	struct mroce_conn *conn;
	int status = EXIT_FAILURE;
	double start;
	int err;

	if (link_connect(m, host, opts.service, CONNECT_MS, "mroce recv", &conn))
		return EXIT_FAILURE;
	err = sender_open(&job->sender, m, conn, host, &hello, opts.timeout);
	start = clock_seconds();
	if (!err)
		err = transfer(job, arguments, n);
	if (!err)
		status = conclude(job, clock_seconds() - start);
	else if (err == -EINTR)
		fail("interrupted: %s keeps the files that were complete", host);
	mroce_conn_close(&conn);
	sender_free(&job->sender);
	return status;
}

/* Two arguments of one name would silently overwrite each other at the receiver. */
static int by_name(const void *a, const void *b)
{
	char x[256], y[256];

	safepath_name(*(char *const *)a, x);
	safepath_name(*(char *const *)b, y);
	return strcmp(x, y);
}

static int check_names(char **arguments, int n)
{
	char **sorted = malloc(n * sizeof(*sorted));
	int status = EXIT_SUCCESS;

	if (!sorted)
		return fail("out of memory");
	memcpy(sorted, arguments, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_name);
	for (int i = 1; i < n && !status; i++) {
		char name[256];

		safepath_name(sorted[i], name);
		if (*name && !by_name(&sorted[i - 1], &sorted[i]))
			status = fail(
				"'%s' and '%s' would both become '%s' at the receiver: send them "
				"one after the other",
				sorted[i - 1], sorted[i], name);
	}
	free(sorted);
	return status;
}

static int check_arguments(char **arguments, int n)
{
	for (int i = 0; i < n; i++) {
		struct stat st;

		if (stat(arguments[i], &st))
			return fail("%s: %s", arguments[i], strerror(errno));
	}
	return check_names(arguments, n);
}

int cmd_send(int argc, char **argv)
{
	static struct job job;
	struct mroce *m;
	int first;
	int status;
	int n;

	opts.service = SERVICE_FILES;
	opts.streams = 4;
	opts.timeout = 60;
	switch (opt_parse(&send_table, argc, argv, &first)) {
	case OPT_BAD: return EXIT_USAGE;
	case OPT_DONE: return EXIT_SUCCESS;
	case OPT_GO: break;
	}
	n = argc - first - 1;
	if (n < 1)
		return opt_misuse(&send_table, "needs at least one FILE and a HOST");
	if (check_arguments(argv + first, n))
		return EXIT_FAILURE;
	signals_catch();
	job.digest = opts.sha256 ? FP_SHA256 : FP_CRC64;
	if (walk(&job, argv + first, n, count))
		return fail("interrupted before anything was sent");
	if (link_open(&m))
		return EXIT_FAILURE;
	status = run(&job, m, argv[argc - 1], argv + first, n);
	mroce_close(&m);
	return status;
}
