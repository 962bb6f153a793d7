package shell

import (
	"context"
	"database/sql"

	"github.com/bglm/bglm/udf"
)

// register loads the bglm functions into the database.
func register(ctx context.Context, db *sql.DB) error {
	return udf.Register(ctx, db)
}
