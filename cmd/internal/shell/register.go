package shell

import (
	"context"
	"database/sql"
)

// register loads the bglm functions into the database.
func register(ctx context.Context, db *sql.DB) error {
	return nil
}
