// SPDX-License-Identifier: BSD-2-Clause
/* perf_memory.c: a region, from the library or registered in place. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "perf.h"

int perf_memory_get(struct perf_memory *mem, struct mroce *m, size_t size, int access, bool inplace)
{
	void *mapped;
	int err;

	memset(mem, 0, sizeof(*mem));
	mem->size = size;
	if (!inplace)
		return mroce_alloc(m, size, access, &mem->mr);
	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	err = mroce_reg(m, mapped, size, access, &mem->mr);
	if (err)
		munmap(mapped, size);
	else
		mem->mapped = mapped;
	return err;
}

void perf_memory_put(struct perf_memory *mem)
{
	mroce_mr_free(&mem->mr);
	if (mem->mapped)
		munmap(mem->mapped, mem->size);
	mem->mapped = NULL;
}
