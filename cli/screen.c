// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "cmd.h"
#include "screen.h"

#define ENTER "\033[?1049h\033[?25l" /* other screen, no cursor */
#define LEAVE "\033[?25h\033[?1049l"

static struct termios before;
static bool is_open;
static volatile sig_atomic_t resized, suspended;
static sigset_t outside; /* signals that are let in while we wait */

static void on_resize(int number)
{
	(void)number;
	resized = 1;
}

static void on_suspend(int number)
{
	(void)number;
	suspended = 1;
}

static void on_stop(int number)
{
	cli_stop = number;
}

static void enter(void)
{
	struct termios raw = before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	fputs(ENTER, stdout);
	fflush(stdout);
}

static void leave(void)
{
	fputs(LEAVE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

void screen_close(void)
{
	if (!is_open)
		return;
	is_open = false;
	leave();
	sigprocmask(SIG_SETMASK, &outside, NULL);
}

/* Blocked but while we wait, so that none is missed in between. */
static void catch_signals(void)
{
	static const struct {
		int number;
		void (*handler)(int number);
	} wanted[] = { { SIGWINCH, on_resize }, { SIGTSTP, on_suspend }, { SIGINT, on_stop },
		       { SIGQUIT, on_stop },	{ SIGTERM, on_stop },	 { SIGHUP, on_stop } };
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		struct sigaction action = { .sa_handler = wanted[i].handler };

		sigaction(wanted[i].number, &action, NULL);
		sigaddset(&blocked, wanted[i].number);
	}
	sigprocmask(SIG_BLOCK, &blocked, &outside);
}

int screen_open(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before))
		return -ENOTTY;
	catch_signals();
	is_open = true;
	atexit(screen_close);
	enter();
	return 0;
}

void screen_draw(const char *text)
{
	struct winsize size = { 0 };
	int rows, columns;

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	rows = size.ws_row ? size.ws_row : 24;
	columns = size.ws_col ? size.ws_col : 80;
	fputs("\033[H", stdout);
	for (int row = 0; row < rows && *text; row++) {
		int len = (int)strcspn(text, "\n");

		printf("%s%.*s\033[K", row ? "\n" : "", len < columns ? len : columns, text);
		text += len + (text[len] == '\n');
	}
	fputs("\033[J", stdout);
	fflush(stdout);
}

/* Stops as if we had not caught the signal; goes on when continued. */
static void suspend(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t only;

	suspended = 0;
	leave();
	sigaction(SIGTSTP, &action, NULL);
	raise(SIGTSTP);
	sigemptyset(&only);
	sigaddset(&only, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	/* Continued. */
	sigprocmask(SIG_BLOCK, &only, NULL);
	action.sa_handler = on_suspend;
	sigaction(SIGTSTP, &action, NULL);
	enter();
}

int screen_wait(double seconds)
{
	struct timespec limit = { (time_t)seconds,
				  (long)((seconds - (double)(time_t)seconds) * 1e9) };
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	int n = ppoll(&p, 1, &limit, &outside);
	char key;

	if (cli_stop)
		return -1;
	if (suspended) {
		suspend();
		return 0;
	}
	if (resized) {
		resized = 0;
		return 0;
	}
	if (n <= 0)
		return n < 0 && errno == EINTR ? 0 : -1;
	/* The terminal is gone. */
	if (read(STDIN_FILENO, &key, 1) != 1) {
		cli_stop = SIGHUP;
		return -1;
	}
	return (unsigned char)key;
}
