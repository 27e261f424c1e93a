/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config.h: what can be set, on the command line or in the configuration file. One table names every
 * setting: both are read by it, and usage text and `mroce show config` are printed from it.
 */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "mroce/maps.h"

#define CONFIG_FILE_DEFAULT "/etc/mroce/mroced.conf"

enum config_origin {
	CONFIG_DEFAULT,
	CONFIG_FROM_FILE,
	CONFIG_FROM_OPTION,
};

/* What config_read() found to do. */
enum config_action {
	CONFIG_RUN,
	CONFIG_CHECK, /* --check-config: it is fine, say so */
	CONFIG_HELP,  /* usage is wanted */
	CONFIG_VERSION,
};

#define CONFIG_SETTINGS_MAX 40
#define CONFIG_KEY_LEN 32
/* Characters of a pre-shared key. */
#define CONFIG_PSK_MIN 16
#define CONFIG_PSK_MAX 1024

struct config {
	/* [daemon] */
	char *socket;
	char *pid_file;
	char *metrics; /* NULL: not served */
	uint32_t verbose;
	uint32_t spin_us; /* go on polling for so long after the last packet */
	/* [ports] */
	char *interfaces[MROCE_MAX_PORTS + 1]; /* NAME or NAME@ADDRESS; NULL behind the last */
	char *port;			       /* afxdp, socket, auto */
	uint32_t udp_port;
	uint32_t allow_generic;
	uint32_t share;
	uint32_t pin;
	uint32_t nack;
	uint32_t handover;
	uint32_t link_mbps;
	uint32_t mark;
	uint32_t ring_size;
	/* [transport] */
	char *cc;
	uint32_t hints;
	uint32_t paths;
	uint32_t tries;
	uint32_t silence_ms;
	uint32_t handshake_ms;
	uint32_t keepalive_ms;
	uint32_t stall_ms;
	/* [security] */
	char *psk_file, *psk; /* NULL: none */
	uint32_t cookies_above;
	/* [quota], of one user */
	uint32_t contexts;
	uint32_t connections;
	uint32_t services;
	uint32_t regions;
	uint32_t memory_mib;
	/* not in the table */
	char *file;
	uint8_t origin[CONFIG_SETTINGS_MAX]; /* enum config_origin, by place in the table */
	uint32_t line[CONFIG_SETTINGS_MAX];  /* of the file, where that is the origin */
};

void config_init(struct config *c);
void config_free(struct config *c);
/*
 * Command line, and the file that it names (or the default one, if that exists). The command line wins.
 * 0, or -EINVAL, -ENOENT ... with an explanation in error.
 */
int config_read(struct config *c, int argc, char **argv, enum config_action *action, char *error,
		size_t error_size);
/* Only the file; sets what is still at its default. */
int config_read_file(struct config *c, const char *path, char *error, size_t error_size);
/*
 * The engine's key, made from psk or from what is in psk_file, which others must not be able to read.
 * 1: there is one; 0: none is configured; -errno with an explanation in error.
 */
int config_psk(const struct config *c, uint8_t out[CONFIG_KEY_LEN], char *error, size_t error_size);
void config_usage(FILE *out);
/* Array of {key, value, origin}; origin is "default", "FILE:LINE" or "--OPTION". */
json_t *config_show(const struct config *c);
/*
 * For a reload: takes from `fresh` what can be changed while mroced runs. `tell` hears of every setting
 * that differs, and whether it was taken or waits for a restart.
 */
void config_update(struct config *running, const struct config *fresh,
		   void (*tell)(const char *section, const char *key, bool taken));

#endif
