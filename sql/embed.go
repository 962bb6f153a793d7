// Package sqlfiles holds bglm's SQL scripts.
package sqlfiles

import _ "embed"

// Macros is bglm.sql: CREATE OR REPLACE MACRO statements for the table macros
// bglm_fit_by, bglm_fit_by_ordered, bglm_weights, bglm_score, bglm_compare and
// bglm_evaluate and the scalar macro bglm_belief_rank, with their documentation
// as comments. Run it as one script in a database that has bglm's functions; it
// writes nothing but the macros into the current schema.
//
//go:embed bglm.sql
var Macros string
