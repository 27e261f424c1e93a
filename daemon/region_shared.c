/* SPDX-License-Identifier: BSD-2-Clause */
/* region_shared.c: memory that the application and we both map. The engine copies by itself. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include "daemon/region.h"

struct mapping {
	void *base;
	size_t bytes;
};

static void mapping_release(void *priv)
{
	struct mapping *m = priv;

	munmap(m->base, m->bytes);
	free(m);
}

/* Only `release` is used: base is given. */
static const struct region_ops shared_ops = { .release = mapping_release };

/* What can shrink would kill us by SIGBUS. So would a hole in huge pages, if none is left to fill it. */
static int check_memfd(int fd, uint64_t len, const char **why)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0) {
		*why = "the descriptor is no memfd that allows sealing";
		return -EINVAL;
	}
	if (!(seals & F_SEAL_SHRINK)) {
		*why = "the memfd is not sealed against shrinking (F_SEAL_SHRINK)";
		return -EINVAL;
	}
	if (fstatfs(fd, &fs) || fs.f_type == HUGETLBFS_MAGIC) {
		*why = "the memfd is of huge pages (MFD_HUGETLB); use one without";
		return -EINVAL;
	}
	if (fstat(fd, &st) || st.st_size < 0 || (uint64_t)st.st_size < len) {
		*why = "the memfd is smaller than the region";
		return -EINVAL;
	}
	return 0;
}

int region_shared(int memfd, uint64_t len, struct region_params *params, const char **why)
{
	struct mapping *m;
	int err = check_memfd(memfd, len, why);

	if (err)
		return err;
	m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->bytes = len;
	m->base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (m->base == MAP_FAILED) {
		err = -errno;
		*why = "the memfd cannot be mapped for reading and writing";
		free(m);
		return err;
	}
	params->base = m->base;
	params->ops = &shared_ops;
	params->priv = m;
	return 0;
}
