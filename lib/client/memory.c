/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c: regions. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "client/client.h"

#define ACCESS_ALL (MROCE_ACCESS_REMOTE_WRITE | MROCE_ACCESS_REMOTE_READ)

static int check_args(struct mroce *m, size_t size, int access)
{
	if (size == 0)
		return client_fail(m, -EINVAL, "a region needs at least one byte");
	if (access & ~ACCESS_ALL)
		return client_fail(m, -EINVAL, "access %#x: only MROCE_ACCESS_* bits",
				   (unsigned)access);
	return 0;
}

static size_t whole_pages(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return size > SIZE_MAX - page ? 0 : (size + page - 1) / page * page;
}

/* Memory that can be passed on: a memfd that cannot shrink under the daemon's hands. */
static int shared_memory(struct mroce *m, size_t bytes, int *fd_out, void **out)
{
	int fd = memfd_create("mroce-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p = NULL;
	int err;

	if (fd < 0)
		return client_fail(m, -errno, "memfd_create: %s", strerror(errno));
	if (ftruncate(fd, (off_t)bytes) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		err = client_fail(m, -errno, "sizing a region of %zu bytes: %s", bytes,
				  strerror(errno));
		close(fd);
		return err;
	}
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		err = client_fail(m, -errno, "mapping a region of %zu bytes: %s", bytes,
				  strerror(errno));
		close(fd);
		return err;
	}
	*fd_out = fd;
	*out = p;
	return 0;
}

static int tell_daemon(struct mroce *m, enum abi_type type, struct mroce_mr *mr, int access, int fd)
{
	struct abi_msg msg = client_msg(type);
	int err;

	msg.mr.addr = (uintptr_t)mr->addr;
	msg.mr.len = mr->size;
	msg.mr.access = (uint32_t)access;
	err = client_call(m, &msg, fd, NULL, client_deadline(CLIENT_ANSWER_MS));
	if (err)
		return err;
	mr->key = msg.mr.key;
	TAILQ_INSERT_TAIL(&m->mrs, mr, link);
	return 0;
}

static struct mroce_mr *mr_new(struct mroce *m, size_t size)
{
	struct mroce_mr *mr = calloc(1, sizeof(*mr));

	if (!mr) {
		client_fail(m, -ENOMEM, "no memory for a region's record");
		return NULL;
	}
	mr->m = m;
	mr->size = size;
	return mr;
}

int mroce_alloc(struct mroce *m, size_t size, int access, struct mroce_mr **out)
{
	size_t bytes = whole_pages(size);
	struct mroce_mr *mr;
	void *p = NULL;
	int fd = -1;
	int err = check_args(m, size, access);

	if (err)
		return err;
	if (!bytes)
		return client_fail(m, -ENOMEM, "a region of %zu bytes is too large", size);
	mr = mr_new(m, size);
	if (!mr)
		return -ENOMEM;
	err = shared_memory(m, bytes, &fd, &p);
	if (err) {
		free(mr);
		return err;
	}
	mr->addr = p;
	mr->mapped = bytes;
	err = tell_daemon(m, ABI_MR_SHARED, mr, access, fd);
	close(fd);
	if (err) {
		munmap(p, bytes);
		free(mr);
		return err;
	}
	*out = mr;
	return 0;
}

int mroce_reg(struct mroce *m, void *addr, size_t size, int access, struct mroce_mr **out)
{
	struct mroce_mr *mr;
	int err = check_args(m, size, access);

	if (err)
		return err;
	if (!addr || (uintptr_t)addr > UINTPTR_MAX - size)
		return client_fail(m, -EINVAL, "no memory of %zu bytes at %p", size, addr);
	mr = mr_new(m, size);
	if (!mr)
		return -ENOMEM;
	mr->addr = addr;
	err = tell_daemon(m, ABI_MR_INPLACE, mr, access, -1);
	if (err) {
		free(mr);
		return err;
	}
	*out = mr;
	return 0;
}

void mroce_mr_free(struct mroce_mr **mrp)
{
	struct mroce_mr *mr = *mrp;
	struct abi_msg msg = client_msg(ABI_MR_FREE);

	*mrp = NULL;
	if (!mr)
		return;
	msg.mr.key = mr->key;
	/* If the daemon is gone it can touch nothing any more, which is all we want. */
	if (!mr->m->gone)
		client_call(mr->m, &msg, -1, NULL, client_deadline(CLIENT_ANSWER_MS));
	TAILQ_REMOVE(&mr->m->mrs, mr, link);
	if (mr->mapped)
		munmap(mr->addr, mr->mapped);
	free(mr);
}

void *mroce_mr_addr(const struct mroce_mr *mr)
{
	return mr->addr;
}

size_t mroce_mr_size(const struct mroce_mr *mr)
{
	return mr->size;
}

uint32_t mroce_mr_rkey(const struct mroce_mr *mr)
{
	return mr->key;
}
