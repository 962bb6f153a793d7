// Package capi is the only package that contains C: it registers Go functions in DuckDB, presents
// their arguments as columnar views and writes their results in bulk. The same source serves a Go
// program (DuckDB linked in) and, built with the tag bglm_extension, the loadable extension (DuckDB
// reached through its stable function table).
//
// Rules enforced here, so that its callers need not know them:
//   - states in DuckDB memory hold a handle, never a Go pointer; Go states live
//     in a slab with generations, so that a stale handle is an error, not a crash;
//   - ordered aggregates and constant window frames pass an array with a single
//     valid state; which form a call has follows from the caller of the C wrapper (callsite.c);
//   - windows over whole partitions garble constants in a STRUCT: their arguments are
//     checked against their first partition, or refused (window.go);
//   - everything that can throw in DuckDB runs under C frames only;
//   - every callback recovers and reports a panic as a SQL error.
package capi
