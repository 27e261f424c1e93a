// SPDX-License-Identifier: BSD-2-Clause
/* progress.c: progress bar and progress lines; both go to standard error. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "cmd.h"
#include "progress.h"
#include "units.h"

#define REDRAW_SECONDS 0.1
#define LINE_SECONDS 5.0
#define BAR_MIN 10
#define BAR_MAX 50

static void draw_bar(char *buf, size_t size, int width, double share)
{
	int cells = width - 2;
	int full = (int)(share * cells);
	size_t at = 0;

	if (width < BAR_MIN || (size_t)width + 2 > size) {
		*buf = '\0';
		return;
	}
	buf[at++] = '[';
	for (int i = 0; i < cells; i++)
		buf[at++] = i < full ? '=' : i == full ? '>' : ' ';
	buf[at++] = ']';
	buf[at++] = ' ';
	buf[at] = '\0';
}

void progress_line(char *buf, size_t size, uint64_t done, uint64_t total, double rate, int width)
{
	char done_text[UNIT_TEXT], total_text[UNIT_TEXT], rate_text[UNIT_TEXT], eta[UNIT_TEXT];
	char bar[BAR_MAX + 4];
	char tail[160];
	double share;
	int left;

	if (done > total)
		total = done;
	share = total ? (double)done / total : 1;
	format_clock(eta, done == total ? 0 : rate > 0 ? (total - done) * 8 / rate : -1);
	snprintf(tail, sizeof(tail), "%3d %%  %s of %s  %s  ETA %s", (int)(share * 100),
		 format_bytes(done_text, done), format_bytes(total_text, total),
		 format_rate(rate_text, rate), eta);
	left = width - (int)strlen(tail) - 2;
	draw_bar(bar, sizeof(bar), left > BAR_MAX ? BAR_MAX : left, share);
	snprintf(buf, size, "%s%s", bar, tail);
}

static int terminal_width(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return 80;
	return size.ws_col;
}

void progress_start(struct progress *p, uint64_t total, bool quiet)
{
	memset(p, 0, sizeof(*p));
	p->total = total;
	p->quiet = quiet;
	p->terminal = isatty(STDERR_FILENO);
	p->start = p->last = clock_seconds();
}

void progress_update(struct progress *p, uint64_t done)
{
	double every = p->terminal ? REDRAW_SECONDS : LINE_SECONDS;
	double now;
	double rate;
	char line[256];

	if (p->quiet)
		return;
	now = clock_seconds();
	if (now - p->last < every)
		return;
	rate = (done - p->last_done) * 8 / (now - p->last);
	p->rate = p->rate > 0 ? 0.7 * p->rate + 0.3 * rate : rate;
	p->last = now;
	p->last_done = done;
	progress_line(line, sizeof(line), done, p->total, p->rate,
		      p->terminal ? terminal_width() : 0);
	fprintf(stderr, p->terminal ? "\r%s\033[K" : "%s\n", line);
	fflush(stderr);
	p->drawn = true;
}

void progress_end(struct progress *p)
{
	if (p->drawn && p->terminal)
		fprintf(stderr, "\r\033[K");
	p->drawn = false;
}
