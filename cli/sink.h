/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink.h: turns the records of a sender into files below one folder. Knows nothing of the network.
 *
 * Every file is written without a name where the file system can do that, otherwise under a temporary one
 * (.mroce-*.part) in its own folder, and gets its final name once its length and digest are right. Names are checked by safepath.h, and no symbolic
 * link below the folder is ever followed. Set-uid, set-gid and sticky bits are not kept.
 */
#ifndef CLI_SINK_H
#define CLI_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include "digest.h"
#include "fileproto.h"

/* A file, folder or link that could not be kept; err is a positive errno. */
typedef void sink_failed_fn(void *ctx, const char *path, int err, const char *text);

struct sink {
	int root;
	int parent; /* folder of the last path; root itself, or open until another is needed */
	char parent_path[SAFEPATH_MAX + 1];

	int fd; /* the file that is being written; -1: none, or its data is thrown away */
	bool in_file;
	bool can_unnamed; /* O_TMPFILE may be tried: /proc is there to link such a file */
	bool named;	  /* fd has the name temp */
	char temp[40];
	char path[SAFEPATH_MAX + 1];
	uint32_t mode, mtime_ns;
	int64_t mtime;
	uint64_t got;
	enum fp_digest_kind kind;
	struct digest digest;

	uint64_t files, bytes, failed; /* kept, bytes in them, not kept */
	uint64_t taken;		       /* bytes of data seen, for the progress bar */
	bool finished;		       /* FINISH was seen */
	sink_failed_fn *on_failed;
	void *ctx;
};

/* 0 or -errno; the folder must exist. */
int sink_open(struct sink *s, const char *folder, enum fp_digest_kind kind,
	      sink_failed_fn *on_failed, void *ctx);
/* Removes the temporary file, if there is one. */
void sink_close(struct sink *s);
/* 0, also when a file had to be refused; -EPROTO: records in an order that makes no sense. */
int sink_take(struct sink *s, const struct fp_rec *rec);

#endif
