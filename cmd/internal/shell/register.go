package shell

import (
	"context"
	"database/sql"
	"strings"

	sqlfiles "github.com/bglm/bglm/sql"
	"github.com/bglm/bglm/udf"
)

// register loads the bglm functions into the database and the table macros into
// the connection: temporary ones, so that nothing is written into a user's file.
func register(ctx context.Context, db *sql.DB, conn *sql.Conn) error {
	if err := udf.Register(ctx, db); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, strings.ReplaceAll(sqlfiles.Macros, "CREATE OR REPLACE MACRO", "CREATE OR REPLACE TEMP MACRO"))
	return err
}
