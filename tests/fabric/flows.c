// SPDX-License-Identifier: BSD-2-Clause
/*
 * Many flows at a time over a fabric, mroce and TCP, both ends of all of them in this one process: so that they begin
 * at the same moment, and everything is told by one clock. What counts is what the receiving application has.
 *
 *	flows [OPTION...] FLOW...
 *	  FLOW             KIND:FROM:TO[,KEY=VALUE...], as in mroce:h1:h2 or cubic:h1:h2,plane=2
 *	                   KIND: mroce, or a congestion control of TCP. KEYs: plane (of the address, 1),
 *	                   bytes (then it ends; else at the end of time), start (ms), n (so many alike)
 *	  -f NAME          the fabric
 *	  -S PREFIX        control sockets of the daemons are PREFIXh1.sock ...
 *	  -t MS            end after so long, or when all flows that have an end are done
 *	  -m BYTES         of a message (65536)
 *	  -d N             messages of a flow under way (16), on -s N streams (1)
 *	  -b US            width of a sample (1000)
 *	  -o FILE          samples: time in us, bytes of each flow, then of each watched interface its bytes sent, the
 *	                   bytes in its queue, and the packets that found it full
 *	  -w NETNS:IF      watch an interface
 *	  -r MS:COMMAND    run a command
 *
 * Prints JSON.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "mroce.h"
#include "flow_watch.h"

#define MAX_FLOWS 256
#define MAX_HOST 64
#define MAX_WATCHES 64
#define MAX_COMMANDS 4
#define SERVICE 8100
#define TCP_PORT 18100
#define PATIENCE_MS 10000
#define BATCH 64
#define READ_ROOM (256u << 10)

/* An application's link to the daemon of a host; it sends and receives. */
struct app {
	struct mroce *m;
	struct mroce_mr *mr;
};

struct flow {
	char kind[16];
	uint32_t from, to, plane;
	uint64_t bytes, start_ns; /* bytes 0: without end */
	uint64_t sent, received, first_ns, done_ns;
	/* mroce */
	struct mroce_listener *listener;
	struct mroce_conn *conn, *accepted;
	uint32_t messages, under_way;
	/* TCP */
	int out, in;
	bool started;
};

struct command {
	uint64_t at_ns, begun_ns, ended_ns;
	const char *text;
	pid_t pid;
};

static struct {
	const char *fabric, *sockets, *series;
	uint64_t end_ns, bin_ns;
	uint32_t size, depth, streams;
} opt = { .fabric = "mroce",
	  .sockets = "",
	  .end_ns = 1000000000,
	  .bin_ns = 1000000,
	  .size = 65536,
	  .depth = 16,
	  .streams = 1 };

static struct app apps[MAX_HOST + 1];
static struct flow flows[MAX_FLOWS];
static struct watch watches[MAX_WATCHES];
static struct command commands[MAX_COMMANDS];
static uint32_t nflows, nwatches, ncommands;
static uint64_t begin_ns; /* CLOCK_MONOTONIC */
static int epoll;
static FILE *series;
static char *payload;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "flows: %s: %s\n", what, why);
	exit(1);
}

static bool is_mroce(const struct flow *f)
{
	return !strcmp(f->kind, "mroce");
}

static void received(struct flow *f, uint64_t bytes)
{
	f->received += bytes;
	if (!f->first_ns)
		f->first_ns = now_ns();
	if (f->bytes && f->received >= f->bytes && !f->done_ns)
		f->done_ns = now_ns();
}

/* ---- mroce ---- */

static void watch_fd(int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev))
		die("epoll", strerror(errno));
}

static struct app *app_of(uint32_t host)
{
	struct app *a = &apps[host];
	char path[256];

	if (a->m)
		return a;
	snprintf(path, sizeof(path), "%sh%u.sock", opt.sockets, host);
	if (mroce_open(path, &a->m))
		die(path, mroce_last_error(NULL));
	if (mroce_alloc(a->m, opt.size, MROCE_ACCESS_REMOTE_WRITE, &a->mr))
		die(path, mroce_last_error(a->m));
	watch_fd(mroce_fd(a->m), EPOLLIN, UINT64_MAX);
	return a;
}

static void mroce_ready(struct flow *f)
{
	uint32_t service = SERVICE + (uint32_t)(f - flows);
	struct app *to = app_of(f->to), *from = app_of(f->from);
	char address[32];

	if (mroce_listen(to->m, service, 4, &f->listener))
		die("listen", mroce_last_error(to->m));
	snprintf(address, sizeof(address), "10.%u.0.%u", f->plane, f->to);
	if (mroce_connect(from->m, address, service, PATIENCE_MS, &f->conn))
		die("connect", mroce_last_error(from->m));
	if (mroce_accept(f->listener, PATIENCE_MS, &f->accepted))
		die("accept", mroce_last_error(to->m));
	for (uint32_t i = 0; i < 2 * opt.depth * opt.streams; i++) {
		if (mroce_post_recv(f->accepted, i % opt.streams, NULL, 0, 0, (uint64_t)(f - flows)))
			die("receive", mroce_last_error(to->m));
	}
}

static void mroce_push(struct flow *f)
{
	const struct app *to = &apps[f->to], *from = &apps[f->from];

	while (f->under_way < opt.depth && (!f->bytes || f->sent < f->bytes)) {
		uint64_t len = opt.size;
		int err;

		if (f->bytes && f->bytes - f->sent < len)
			len = f->bytes - f->sent;
		err = mroce_post_write_imm(f->conn, f->messages % opt.streams, from->mr, 0, len,
					   (uintptr_t)mroce_mr_addr(to->mr), mroce_mr_rkey(to->mr),
					   0, (uint64_t)(f - flows));
		if (err == -EAGAIN)
			return;
		if (err)
			die("write", mroce_last_error(from->m));
		f->sent += len;
		f->messages++;
		f->under_way++;
	}
}

static void on_completion(const struct mroce_completion *c)
{
	struct flow *f = &flows[c->id];

	if (c->status != MROCE_OK)
		die(f->kind, mroce_status_text(c->status));
	if (c->conn == f->conn) {
		f->under_way--;
		mroce_push(f);
		return;
	}
	received(f, c->length);
	if (mroce_post_recv(f->accepted, c->stream, NULL, 0, 0, c->id))
		die("receive", mroce_last_error(apps[f->to].m));
}

/* True if anything had completed. */
static bool take_completions(void)
{
	struct mroce_completion done[BATCH];
	bool any = false;

	for (uint32_t h = 0; h <= MAX_HOST; h++) {
		int n = apps[h].m ? mroce_poll(apps[h].m, done, BATCH) : 0;

		if (n < 0)
			die("poll", mroce_last_error(apps[h].m));
		for (int i = 0; i < n; i++)
			on_completion(&done[i]);
		any |= n > 0;
	}
	return any;
}

/* False: something has come meanwhile, do not sleep. */
static bool arm_all(void)
{
	for (uint32_t h = 0; h <= MAX_HOST; h++) {
		if (apps[h].m && mroce_arm(apps[h].m) > 0)
			return false;
	}
	return true;
}

/* ---- TCP ---- */

static void enter_host(uint32_t host)
{
	char netns[64];

	snprintf(netns, sizeof(netns), "mr-%s-h%u", opt.fabric, host);
	if (net_enter(netns))
		exit(1);
}

static int tcp_socket(const struct flow *f, uint32_t host)
{
	int s;

	enter_host(host);
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		die("socket", strerror(errno));
	if (setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, f->kind, (socklen_t)strlen(f->kind)))
		die(f->kind, "TCP has no such congestion control here");
	return s;
}

static void tcp_ready(struct flow *f)
{
	uint64_t index = (uint64_t)(f - flows);
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)(TCP_PORT + index)) };
	int listener = tcp_socket(f, f->to), one = 1;

	at.sin_addr.s_addr = htonl(10u << 24 | f->plane << 16 | f->to);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (void *)&at, sizeof(at)) || listen(listener, 1))
		die("listen", strerror(errno));
	f->out = tcp_socket(f, f->from);
	if (connect(f->out, (void *)&at, sizeof(at)))
		die("connect", strerror(errno));
	f->in = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (f->in < 0 || fcntl(f->out, F_SETFL, O_NONBLOCK))
		die("accept", strerror(errno));
	close(listener);
	watch_fd(f->in, EPOLLIN, index << 1);
}

static void tcp_push(struct flow *f)
{
	uint64_t len = opt.size;
	ssize_t n;

	if (f->bytes && f->bytes - f->sent < len)
		len = f->bytes - f->sent;
	n = len ? send(f->out, payload, len, MSG_NOSIGNAL) : 0;
	if (n > 0)
		f->sent += (uint64_t)n;
	else if (n < 0 && errno != EAGAIN)
		die(f->kind, strerror(errno));
	if (f->bytes && f->sent == f->bytes)
		epoll_ctl(epoll, EPOLL_CTL_DEL, f->out, NULL);
}

static void tcp_pull(struct flow *f)
{
	ssize_t n = recv(f->in, payload, READ_ROOM, 0);

	if (n > 0)
		received(f, (uint64_t)n);
	else if (n == 0 || errno != EAGAIN)
		die(f->kind, n ? strerror(errno) : "closed");
}

/* ---- the loop ---- */

static void start_due(uint64_t now)
{
	for (uint32_t i = 0; i < nflows; i++) {
		struct flow *f = &flows[i];

		if (f->started || now < begin_ns + f->start_ns)
			continue;
		f->started = true;
		if (is_mroce(f))
			mroce_push(f);
		else
			watch_fd(f->out, EPOLLOUT, (uint64_t)i << 1 | 1);
	}
}

static void run_commands(uint64_t now)
{
	for (uint32_t i = 0; i < ncommands; i++) {
		struct command *c = &commands[i];

		if (!c->pid && now >= begin_ns + c->at_ns) {
			c->begun_ns = now;
			c->pid = fork();
			if (c->pid == 0) {
				execl("/bin/sh", "sh", "-c", c->text, (char *)NULL);
				_exit(127);
			}
		} else if (c->pid > 0 && !c->ended_ns) {
			int status;

			if (waitpid(c->pid, &status, WNOHANG) != c->pid)
				continue;
			c->ended_ns = now;
			if (status)
				die(c->text, "failed");
		}
	}
}

static void write_sample(uint64_t now)
{
	static uint64_t next;

	if (now < next || !series)
		return;
	next = now - now % opt.bin_ns + opt.bin_ns;
	for (uint32_t i = 0; i < nwatches; i++)
		watch_read(&watches[i]);
	fprintf(series, "%" PRIu64, (now_ns() - begin_ns) / 1000);
	for (uint32_t i = 0; i < nflows; i++)
		fprintf(series, "\t%" PRIu64, flows[i].received);
	for (uint32_t i = 0; i < nwatches; i++)
		fprintf(series, "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, watches[i].tx_bytes,
			watches[i].backlog, watches[i].drops);
	fputc('\n', series);
}

static void sleep_a_little(void)
{
	struct epoll_event ev[BATCH];
	struct timespec most = { .tv_nsec = (long)(opt.bin_ns < 1000000 ? opt.bin_ns : 1000000) / 2 };
	struct timespec none = { 0 };
	int n = epoll_pwait2(epoll, ev, BATCH, arm_all() ? &most : &none, NULL);

	for (int i = 0; i < n; i++) {
		uint64_t tag = ev[i].data.u64;

		if (tag == UINT64_MAX)
			continue; /* mroce: polled anyway */
		if (tag & 1)
			tcp_push(&flows[tag >> 1]);
		else
			tcp_pull(&flows[tag >> 1]);
	}
}

static bool all_done(void)
{
	bool any = false;

	for (uint32_t i = 0; i < nflows; i++) {
		any |= flows[i].bytes != 0;
		if (flows[i].bytes && !flows[i].done_ns)
			return false;
	}
	return any;
}

static void loop(void)
{
	uint64_t now = begin_ns;

	while (now < begin_ns + opt.end_ns && !all_done()) {
		start_due(now);
		run_commands(now);
		write_sample(now);
		if (!take_completions())
			sleep_a_little();
		now = now_ns();
	}
}

/* ---- command line ---- */

static void set_key(struct flow *f, uint32_t *count, char *pair)
{
	char *value = strchr(pair, '=');

	if (!value)
		die(pair, "want KEY=VALUE");
	*value++ = 0;
	if (!strcmp(pair, "plane"))
		f->plane = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(pair, "bytes"))
		f->bytes = strtoull(value, NULL, 10);
	else if (!strcmp(pair, "start"))
		f->start_ns = strtoull(value, NULL, 10) * 1000000;
	else if (!strcmp(pair, "n"))
		*count = (uint32_t)strtoul(value, NULL, 10);
	else
		die(pair, "no such key: want plane, bytes, start or n");
}

static void add_flow(char *text)
{
	struct flow f = { .plane = 1, .out = -1, .in = -1 };
	char *head = strtok(text, ","), *pair;
	uint32_t count = 1;

	if (sscanf(head, "%15[^:]:h%u:h%u", f.kind, &f.from, &f.to) != 3 || !f.from || !f.to ||
	    f.from > MAX_HOST || f.to > MAX_HOST)
		die(head, "want KIND:hX:hY");
	while ((pair = strtok(NULL, ",")))
		set_key(&f, &count, pair);
	while (count--) {
		if (nflows == MAX_FLOWS)
			die("too many flows", "256 at most");
		flows[nflows++] = f;
	}
}

static void add_command(char *text)
{
	char *colon = strchr(text, ':');

	if (!colon || ncommands == MAX_COMMANDS)
		die(text, "want MS:COMMAND, four at most");
	commands[ncommands++] = (struct command){ .at_ns = strtoull(text, NULL, 10) * 1000000,
						  .text = colon + 1 };
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "f:S:t:m:d:s:b:o:w:r:")) != -1) {
		switch (c) {
		case 'f': opt.fabric = optarg; break;
		case 'S': opt.sockets = optarg; break;
		case 't': opt.end_ns = strtoull(optarg, NULL, 10) * 1000000; break;
		case 'm': opt.size = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'd': opt.depth = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 's': opt.streams = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'b': opt.bin_ns = strtoull(optarg, NULL, 10) * 1000; break;
		case 'o': opt.series = optarg; break;
		case 'w':
			if (nwatches == MAX_WATCHES || watch_open(&watches[nwatches++], optarg))
				die(optarg, "want NETNS:INTERFACE, 64 at most");
			break;
		case 'r': add_command(optarg); break;
		default: die("usage", "see the head of tests/fabric/flows.c");
		}
	}
	while (optind < argc)
		add_flow(argv[optind++]);
	if (!nflows || !opt.size || !opt.depth || !opt.streams || !opt.bin_ns)
		die("usage", "see the head of tests/fabric/flows.c");
}

static double us(uint64_t at)
{
	return at ? (double)(at - begin_ns) / 1e3 : -1;
}

static void print_results(void)
{
	printf("{\"flows\":[");
	for (uint32_t i = 0; i < nflows; i++) {
		const struct flow *f = &flows[i];

		printf("%s{\"kind\":\"%s\",\"from\":%u,\"to\":%u,\"plane\":%u,\"bytes\":%" PRIu64
		       ",\"start_us\":%.0f,\"first_us\":%.0f,\"done_us\":%.0f}",
		       i ? ",\n" : "\n", f->kind, f->from, f->to, f->plane, f->received,
		       (double)f->start_ns / 1e3, us(f->first_ns), us(f->done_ns));
	}
	printf("\n],\"commands\":[");
	for (uint32_t i = 0; i < ncommands; i++)
		printf("%s{\"begun_us\":%.0f,\"ended_us\":%.0f}", i ? "," : "",
		       us(commands[i].begun_ns), us(commands[i].ended_ns));
	printf("],\"watched\":[");
	for (uint32_t i = 0; i < nwatches; i++)
		printf("%s\"%s\"", i ? "," : "", watches[i].name);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	epoll = epoll_create1(EPOLL_CLOEXEC);
	payload = calloc(1, READ_ROOM);
	if (epoll < 0 || !payload)
		die("start", strerror(errno));
	parse(argc, argv);
	if (opt.size > READ_ROOM)
		die("message", "256 KiB at most");
	series = opt.series ? fopen(opt.series, "we") : NULL;
	if (opt.series && !series)
		die(opt.series, strerror(errno));
	for (uint32_t i = 0; i < nflows; i++) {
		if (is_mroce(&flows[i]))
			mroce_ready(&flows[i]);
		else
			tcp_ready(&flows[i]);
	}
	usleep(300000); /* let the daemons go to sleep: what is measured begins with waking them */
	begin_ns = now_ns();
	loop();
	print_results();
	for (uint32_t h = 0; h <= MAX_HOST; h++)
		mroce_close(&apps[h].m);
	return series && fclose(series) ? 1 : 0;
}
