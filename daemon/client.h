/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h: one application's context: its socket, rings, connections and regions. */
#ifndef DAEMON_CLIENT_H
#define DAEMON_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include "common/abi.h"
#include "daemon/daemon.h"
#include "daemon/quota.h"
#include "daemon/region.h"

enum slot_state {
	SLOT_CONNECTING, /* the application waits for our answer */
	SLOT_WAITING,	 /* accepted, told, not yet taken */
	SLOT_OPEN,
	SLOT_ENDED, /* told; the application has not closed it yet */
};

/* A connection of the application. The engine's cookie. */
struct slot {
	struct client *client;
	struct conn *conn; /* NULL once ended */
	uint32_t handle;
	enum slot_state state;
	uint8_t ended;	   /* SLOT_ENDED: enum mroce_status */
	uint32_t request;  /* SLOT_CONNECTING: id of the question */
	uint64_t deadline; /* SLOT_CONNECTING: UINT64_MAX: as the engine likes */
};

struct listening {
	uint32_t service;
	LIST_ENTRY(listening) link;
};

/* A message that the socket had no room for. */
struct outgoing {
	struct abi_msg msg;
	STAILQ_ENTRY(outgoing) link;
};

struct client {
	struct daemon *d;
	struct watch socket, doorbell, process_watch;
	pid_t pid;
	uid_t uid;
	bool broken; /* to be freed at the end of the turn */
	bool is_dirty;
	bool full;  /* requests wait for room in the completion ring */
	bool stuck; /* requests wait for the engine to have records again */
	struct quota *quota;
	struct process *process; /* NULL until the first in-place region */

	struct abi_rings *rings; /* NULL before HELLO */
	int wake;
	uint32_t sq_head, cq_tail; /* ours; the shared copies are only written */
	uint32_t cq_head;	   /* last value read, checked */
	uint32_t owed;		   /* completions of requests taken */
	uint32_t events;

	/* Handle: slot number in the low 16 bits, generation above. */
	struct slot **slots;
	uint16_t *generations;
	uint32_t nslots;
	uint32_t free_hint;

	LIST_HEAD(listening_list, listening) listening;
	TAILQ_HEAD(region_list, region) regions;
	STAILQ_HEAD(outgoing_list, outgoing) outgoing;
	uint32_t noutgoing;
	TAILQ_ENTRY(client) link, dirty_link;
};

/* client.c */
int client_new(struct daemon *d, int fd, struct client **out);
/* Ends its connections (MROCE_CLOSE_APP_DIED), removes its regions. Not inside the engine's callbacks. */
void client_free(struct client **c);
/* Closes all without telling the application. Not inside the engine's callbacks. */
void client_close_connections(struct client *c, enum mroce_close_code code);
/* Marks it for client_free() and says why. */
void client_break(struct client *c, const char *why);
/* Sends or queues. A copy is made; fds only if it can be sent at once. */
void client_send(struct client *c, const struct abi_msg *msg, const int *fds, int nfds);
/* Like client_send(), for what was not asked for. */
void client_send_event(struct client *c, const struct abi_msg *msg);
/* Sends what is queued, as far as the socket takes it. */
void client_send_queued(struct client *c);

struct slot *client_slot_new(struct client *c);
struct slot *client_slot(struct client *c, uint32_t handle);
void client_slot_free(struct slot **s);

/* rings.c */
/* Makes rings, doorbell and pipe; fds for the application (the caller closes them). */
int client_rings_open(struct client *c, int fds[ABI_HELLO_FDS]);
void client_rings_close(struct client *c);
/* Takes at most `budget` requests and posts them. Returns how many. */
uint32_t client_submit(struct client *c, uint32_t budget);
void client_complete(struct client *c, uint32_t handle, const struct engine_completion *e);
/* Shows what was completed, and wakes the application if it sleeps. */
void client_publish(struct client *c);
/* Asks for the doorbell. True: requests are there that can be taken now. */
bool client_sleep(struct client *c);
void client_awake(struct client *c);

#endif
