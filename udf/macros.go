package udf

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
	sqlfiles "github.com/bglm/bglm/sql"
	"github.com/bglm/bglm/udf/internal/capi"
)

// Execer is what LoadMacros accepts: *sql.DB, *sql.Conn and *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// LoadMacros creates the table macros of sql/bglm.sql (bglm_fit_by, bglm_score, bglm_compare, ...)
// in the current schema of db, which must have the functions (Register). A database file keeps
// them; calling it again replaces them.
func LoadMacros(ctx context.Context, db Execer) error {
	if _, err := db.ExecContext(ctx, sqlfiles.Macros); err != nil {
		return fmt.Errorf("bglm: making the table macros: %w", err)
	}
	return nil
}

// MacroSQL is the statements that create the table macros: all if name is empty, or the one called
// name, with or without bglm_, and those that it uses.
// Errors: no macro has that name.
func MacroSQL(name string) (string, error) {
	if name == "" {
		return sqlfiles.Macros, nil
	}
	word := strings.ToLower(strings.TrimSpace(name))
	var names []string
	for _, m := range sqlfiles.List() {
		short := strings.TrimPrefix(m.Name, "bglm_")
		if word == m.Name || word == short {
			return sqlfiles.SQL(m.Name), nil
		}
		names = append(names, m.Name)
	}
	return "", argument.Word("name", name, names)
}

// callMacros is bglm_macros.
func callMacros(args []capi.Vec, n int, out *capi.Col) error {
	if len(args) > 0 && args[0].Type != capi.Varchar && args[0].Type != capi.SQLNull {
		return fmt.Errorf("name is %s; allowed: VARCHAR, such as 'bglm_score'", args[0].TypeName())
	}
	for i := range n {
		name := ""
		if len(args) > 0 {
			if args[0].Null(i) {
				out.Null()
				continue
			}
			name = args[0].Str(i)
		}
		text, err := MacroSQL(name)
		if err != nil {
			return err
		}
		out.Str(text)
	}
	return nil
}
