package udf

import (
	"context"
	"database/sql"
	"fmt"

	sqlfiles "github.com/bglm/bglm/sql"
)

// Execer is what LoadMacros accepts: *sql.DB, *sql.Conn and *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// LoadMacros makes the table macros of sql/bglm.sql (bglm_fit_by, bglm_score,
// bglm_compare, ...) in the current schema of db, which must have the functions
// (Register). They are written into a database file and stay there; running it
// again replaces them.
func LoadMacros(ctx context.Context, db Execer) error {
	if _, err := db.ExecContext(ctx, sqlfiles.Macros); err != nil {
		return fmt.Errorf("bglm: making the table macros: %w", err)
	}
	return nil
}
