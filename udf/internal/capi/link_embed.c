//go:build !bglm_extension

// A Go program: DuckDB is linked in, the table holds its symbols.
#include "table.h"

#define X(slot, ret, name, args) extern ret duckdb_##name args;
BGLM_API(X)
BGLM_MORE(X)
#undef X

const char *bglm_link(const void *const *slots) {
	(void)slots;
#define X(slot, ret, name, args) bglm_api.name = duckdb_##name;
	BGLM_API(X)
	BGLM_MORE(X)
#undef X
	BGLM_API(BGLM_CHECK)
	return NULL;
}
