//go:build bglm_extension

// The loadable extension: DuckDB hands over its stable function table.
#include <stdio.h>
#include <stdlib.h>

#if defined(__linux__)
#include <signal.h>
#include <unistd.h>
#endif

#include "table.h"

const char *bglm_link(const void *const *slots) {
#define X(slot, ret, name, args) bglm_api.name = (ret(*) args)slots[slot];
	BGLM_API(X)
#undef X
	BGLM_API(BGLM_CHECK)
	int patch;
	bool more = sscanf(bglm_api.library_version(), "v1.5.%d", &patch) == 1 && patch >= 4;
#define X(slot, ret, name, args) bglm_api.name = more ? (ret(*) args)slots[slot] : NULL;
	BGLM_MORE(X)
#undef X
	return NULL;
}

typedef struct {
	void (*set_error)(duckdb_ptr info, const char *msg);
	duckdb_ptr *(*get_database)(duckdb_ptr info);
	const void *(*get_api)(duckdb_ptr info, const char *version);
} bglm_access;

#if defined(__linux__)
// Go's runtime takes SIGURG to interrupt its own threads, and does not pass it on. A
// host that handles it gets what did not come from this process's own threads.
static struct sigaction host_urg, go_urg;

// Before Go's own constructor, which has no priority and so comes later.
__attribute__((constructor(101))) static void find_host_urg(void) {
	if (sigaction(SIGURG, NULL, &host_urg) != 0)
		host_urg.sa_handler = SIG_DFL;
}

static void on_urg(int sig, siginfo_t *info, void *context) {
	go_urg.sa_sigaction(sig, info, context);
	if (info->si_code == SI_TKILL && info->si_pid == getpid())
		return;
	if (host_urg.sa_flags & SA_SIGINFO)
		host_urg.sa_sigaction(sig, info, context);
	else
		host_urg.sa_handler(sig);
}

static void pass_urg_on(void) {
	static int done;
	if (__atomic_exchange_n(&done, 1, __ATOMIC_SEQ_CST))
		return;
	if (!(host_urg.sa_flags & SA_SIGINFO) && (host_urg.sa_handler == SIG_DFL || host_urg.sa_handler == SIG_IGN))
		return;
	struct sigaction now;
	if (sigaction(SIGURG, NULL, &now) != 0 || !(now.sa_flags & SA_SIGINFO) || now.sa_sigaction == host_urg.sa_sigaction)
		return; // Go did not take it
	go_urg = now;
	now.sa_sigaction = on_urg;
	sigaction(SIGURG, &now, NULL);
}
#else
static void pass_urg_on(void) {}
#endif

extern char *bglmGoLoad(duckdb_ptr con); // malloc'ed error text or NULL

// DuckDB calls this once per database that loads the file.
__attribute__((visibility("default"))) bool bglm_init_c_api(duckdb_ptr info, bglm_access *access) {
	const void *const *slots = access->get_api(info, "v1.2.0");
	if (!slots)
		return false; // DuckDB has set the error
	if (bglm_forked()) {
		access->set_error(info, bglm_forked());
		return false;
	}
	char msg[256];
	const char *missing = bglm_link(slots);
	if (missing) {
		snprintf(msg, sizeof msg, "bglm: this DuckDB lacks %s", missing);
		access->set_error(info, msg);
		return false;
	}
	pass_urg_on();
	bglm_watch_forks();
	duckdb_ptr *db = access->get_database(info), con = NULL;
	if (!db || bglm_api.connect(*db, &con) != 0) {
		access->set_error(info, "bglm: no connection to the database");
		return false;
	}
	char *err = bglmGoLoad(con);
	bglm_api.disconnect(&con); // an open connection would keep the file open
	if (err) {
		access->set_error(info, err);
		free(err);
		return false;
	}
	return true;
}
