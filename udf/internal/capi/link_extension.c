//go:build bglm_extension

// The loadable extension: DuckDB hands over its stable function table.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"

const char *bglm_link(const void *const *slots) {
#define X(slot, ret, name, args) bglm_api.name = (ret(*) args)slots[slot];
	BGLM_API(X)
#undef X
	BGLM_API(BGLM_CHECK)
	return NULL;
}

typedef struct {
	void (*set_error)(duckdb_ptr info, const char *msg);
	duckdb_ptr *(*get_database)(duckdb_ptr info);
	const void *(*get_api)(duckdb_ptr info, const char *version);
} bglm_access;

extern char *bglmGoLoad(duckdb_ptr con); // malloc'ed error text or NULL

// DuckDB calls this once per database that loads the file.
__attribute__((visibility("default"))) bool bglm_init_c_api(duckdb_ptr info, bglm_access *access) {
	const void *const *slots = access->get_api(info, "v1.2.0");
	if (!slots)
		return false; // DuckDB has set the error
	char msg[256];
	const char *missing = bglm_link(slots);
	if (missing) {
		snprintf(msg, sizeof msg, "bglm: this DuckDB lacks %s", missing);
		access->set_error(info, msg);
		return false;
	}
	const char *v = bglm_api.library_version();
	if (strncmp(v, "v1.", 3) != 0 || atoi(v + 3) < 2) {
		snprintf(msg, sizeof msg,
		         "bglm: found DuckDB %s; this build is verified for 1.2 to 1.5 and refuses others, because DuckDB 2.0 changes "
		         "how aggregate states are passed",
		         v);
		access->set_error(info, msg);
		return false;
	}
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
