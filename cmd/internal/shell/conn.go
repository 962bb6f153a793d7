package shell

import "database/sql"

// Conn is the shell's connection, for programs that do more than run text. It
// ends with the shell.
func (s *Shell) Conn() *sql.Conn { return s.conn }
