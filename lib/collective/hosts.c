/* SPDX-License-Identifier: BSD-2-Clause */
/* hosts.c: lists of hosts, and which of them this one is. */
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mroce_collective.h"

/* ---- files ---- */

/* The word on a line, or an empty one; ends it with a NUL. */
static char *word_of(char *line)
{
	char *end;

	line[strcspn(line, "#")] = '\0';
	while (isspace((unsigned char)*line))
		line++;
	end = line + strlen(line);
	while (end > line && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return line;
}

static int append(char ***hosts, uint32_t *count, const char *word)
{
	char **more;

	if (*count == MROCE_COMM_RANKS)
		return -E2BIG;
	more = realloc(*hosts, (*count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	*hosts = more;
	more[*count] = strdup(word);
	if (!more[*count])
		return -ENOMEM;
	(*count)++;
	return 0;
}

static int read_lines(FILE *f, char ***hosts, uint32_t *count)
{
	size_t room = 0;
	char *line = NULL;
	int err = 0;

	while (!err && getline(&line, &room, f) >= 0) {
		char *word = word_of(line);

		if (*word)
			err = append(hosts, count, word);
	}
	if (!err && ferror(f))
		err = -EIO;
	free(line);
	return err;
}

int mroce_hosts_read(const char *path, char ***hosts, uint32_t *count)
{
	FILE *f = fopen(path, "re");
	char **list = NULL;
	uint32_t n = 0;
	int err;

	if (!f)
		return -errno;
	err = read_lines(f, &list, &n);
	fclose(f);
	if (!err && !n)
		err = -EINVAL;
	if (err) {
		mroce_hosts_free(&list, n);
		return err;
	}
	*hosts = list;
	*count = n;
	return 0;
}

void mroce_hosts_free(char ***hosts, uint32_t count)
{
	for (uint32_t i = 0; *hosts && i < count; i++)
		free((*hosts)[i]);
	free(*hosts);
	*hosts = NULL;
}

/* ---- which one is this ---- */

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	if (!a || !b || a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

static bool is_ours(const struct ifaddrs *ours, const char *host)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;
	bool same = false;

	if (getaddrinfo(host, NULL, &hints, &found))
		return false;
	for (const struct addrinfo *a = found; a && !same; a = a->ai_next)
		for (const struct ifaddrs *i = ours; i && !same; i = i->ifa_next)
			same = same_address(a->ai_addr, i->ifa_addr);
	freeaddrinfo(found);
	return same;
}

int mroce_hosts_self(const char *const *hosts, uint32_t count, uint32_t *rank)
{
	struct ifaddrs *ours;
	uint32_t found = 0, last = 0;

	if (getifaddrs(&ours))
		return -errno;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_ours(ours, hosts[i]))
			continue;
		last = i;
		found++;
	}
	freeifaddrs(ours);
	if (found != 1)
		return found ? -EEXIST : -ENOENT;
	*rank = last;
	return 0;
}
