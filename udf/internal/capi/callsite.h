#ifndef BGLM_CALLSITE_H
#define BGLM_CALLSITE_H
#include "api.h"

// bglm_is_constant: true when only states[0] is valid and stands for all n rows.
// info and wrapper (the return address of the update callback) identify the
// caller. Runs on the thread that called update.
bool bglm_is_constant(duckdb_ptr info, uintptr_t wrapper, void **states, idx_t n);
#endif
