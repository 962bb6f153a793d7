// Shared by the two ways of filling bglm_api.
#include "api.h"
#define BGLM_CHECK(slot, ret, name, args)                                                                        \
	if (!bglm_api.name)                                                                                          \
		return "duckdb_" #name;
