#ifndef BGLM_CALLSITE_H
#define BGLM_CALLSITE_H
#include "api.h"

// bglm_classify says how update was called. info and wrapper (the return address of
// the update callback) identify the caller. Runs on the thread that called update.
bglm_caller bglm_classify(duckdb_ptr info, uintptr_t wrapper, void **states, idx_t n);

// bglm_learn notes the caller as one of this kind of lesson.
void bglm_learn(int lesson, duckdb_ptr info, uintptr_t wrapper);

// bglm_set_calls says whether SET made the cast that asks, after a look at this thread's
// stack. With a lesson it learns that.
bool bglm_set_calls(int lesson);
#endif
