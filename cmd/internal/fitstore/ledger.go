package fitstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/quote"
)

// Ledger is a database with fits and a list of the files that they were learnt from. Each file is
// one transaction, of the fits and the ledger's entry: a job that is killed at any moment and
// restarted continues after the last file that was done, and arrives at the same beliefs as if it
// had not been killed.
type Ledger struct {
	path, identity string
	s              *duck.Session
}

// OpenLedger opens the ledger of a database, which it creates if it does not exist. identity
// identifies the job. Errors: a database of another job.
func OpenLedger(s *duck.Session, path, identity string) (*Ledger, error) {
	if err := s.Exec("ATTACH " + quote.Text(path) + " AS " + outDB); err != nil {
		return nil, files.Named(path, err)
	}
	l := &Ledger{path: path, identity: identity, s: s}
	if err := l.check(); err != nil {
		l.Close()
		return nil, fmt.Errorf("--out %s: %w", path, err)
	}
	return l, nil
}

// Close detaches the database.
func (l *Ledger) Close() { _ = l.s.Undo("DETACH " + outDB) }

func (l *Ledger) check() error {
	err := l.s.Exec("CREATE TABLE IF NOT EXISTS " + outDB + ".main.bglm_ledger (file VARCHAR PRIMARY KEY, bytes BIGINT, sha256 VARCHAR, n BIGINT, processed TIMESTAMP)")
	if err != nil {
		return err
	}
	has, err := l.has("bglm_job")
	if err != nil || !has {
		return err
	}
	var was string
	if err := l.s.Row("SELECT coalesce(max(value), '') FROM "+outDB+".main.bglm_job WHERE key = "+quote.Text(identityKey), &was); err != nil {
		return err
	}
	if was == "" {
		return errors.New("its fits are not those of an incremental job; give another file")
	}
	if was != l.identity {
		return fmt.Errorf("it belongs to another job; it was\n%s\nand is now\n%s", was, l.identity)
	}
	return nil
}

func (l *Ledger) has(table string) (bool, error) {
	var n int
	err := l.s.Row("SELECT count(*) FROM duckdb_tables() WHERE database_name = '"+outDB+"' AND table_name = "+quote.Text(table), &n)
	return n > 0, files.Named(l.path, err)
}

// Fresh returns those of the files that the ledger does not have, in the order of their names. A
// file that has changed since it was processed is an error: its rows are already in the beliefs.
func (l *Ledger) Fresh(names []string) ([]string, error) {
	slices.Sort(names)
	bytes := map[string]int64{}
	err := l.s.Each("SELECT file, bytes FROM "+outDB+".main.bglm_ledger", func(scan func(...any) error) error {
		var f string
		var n int64
		err := scan(&f, &n)
		bytes[f] = n
		return err
	})
	if err != nil {
		return nil, files.Named(l.path, err)
	}
	var out []string
	for _, f := range slices.Compact(names) {
		st, err := os.Stat(f)
		if err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		was, seen := bytes[entryName(f)]
		switch {
		case !seen:
			out = append(out, f)
		case was != st.Size():
			return nil, fmt.Errorf("%s has %d bytes, but had %d when it was processed: its rows are in the beliefs already. Put new rows into a new file, or start again with another --out", f, st.Size(), was)
		}
	}
	return out, nil
}

func entryName(f string) string {
	if abs, err := filepath.Abs(f); err == nil {
		return abs
	}
	return f
}

// Entry is the state of a file before it was read.
type Entry struct {
	Name string
	st   os.FileInfo
	sum  string // SHA-256
}

// Enter reads a file that the ledger does not have. If it has the same bytes as one in the ledger,
// such as a copy or a link, it is entered at once; copyOf is that file.
func (l *Ledger) Enter(name string) (e *Entry, copyOf string, err error) {
	if err := files.Check(name, ""); err != nil {
		return nil, "", err
	}
	e = &Entry{Name: name}
	if e.st, err = os.Stat(name); err != nil {
		return nil, "", err
	}
	if e.sum, err = checksum(name); err != nil {
		return nil, "", err
	}
	err = l.s.Conn.QueryRowContext(l.s.Ctx, "SELECT coalesce(min(file), '') FROM "+outDB+".main.bglm_ledger WHERE sha256 = ? AND bytes = ?", e.sum, e.st.Size()).Scan(&copyOf)
	if err == nil && copyOf != "" {
		err = l.add(e, 0)
	}
	return e, copyOf, files.Named(l.path, l.s.Failed(err))
}

func (l *Ledger) add(e *Entry, n int64) error {
	return l.s.Exec("INSERT INTO "+outDB+".main.bglm_ledger VALUES (?, ?, ?, ?, current_timestamp::TIMESTAMP)", entryName(e.Name), e.st.Size(), e.sum, n)
}

func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Fits returns the fits of the database, nil before the first.
func (l *Ledger) Fits() (*Fits, error) {
	has, err := l.has("fits")
	if err != nil || !has {
		return nil, err
	}
	f, err := Open(l.s, outDB+".main.fits", nil)
	return f, files.Named(l.path, err)
}

// Prior copies the fits of the database into the table prior_fits; nil before the first.
func (l *Ledger) Prior() (*Fits, error) {
	has, err := l.has("fits")
	if err != nil || !has {
		return nil, err
	}
	if err := l.s.Exec("CREATE OR REPLACE TEMP TABLE prior_fits AS FROM " + outDB + ".main.fits"); err != nil {
		return nil, files.Named(l.path, err)
	}
	meta, err := pairs(l.s, "SELECT key, value FROM "+outDB+".main.bglm_job ORDER BY key")
	if err != nil {
		return nil, files.Named(l.path, err)
	}
	return OpenUpgraded(l.s, "prior_fits", meta)
}

// Commit stores the table fits, which continues prior with the rows of a file, and the ledger's
// entry, in one transaction. It returns the number of those rows. Errors: a file that has changed
// since Enter.
func (l *Ledger) Commit(e *Entry, prior *Fits, meta []string) (int64, error) {
	s := l.s
	n, err := rowsOf(s, "fits")
	if err != nil {
		return 0, err
	}
	if n == 0 { // an aggregate over no rows is NULL, whatever its prior
		return 0, l.Skip(e)
	}
	var before int64
	if prior != nil {
		if before, err = rowsOf(s, prior.Table); err != nil {
			return 0, err
		}
	}
	if n == before && prior != nil { // no rows: the fits are unchanged
		if err := s.Exec("CREATE OR REPLACE TEMP TABLE fits AS FROM " + prior.Table); err != nil {
			return 0, err
		}
	}
	f, err := Open(s, "fits", append(slices.Clone(meta), identityKey, l.identity))
	if err != nil {
		return 0, err
	}
	return n - before, l.enter(e, n-before, func() error { return f.SaveTables(outDB) })
}

// Skip enters a file without rows; fits stay as they are. The first such file makes the database
// that of this job: another one may find rows in it. Errors: a file that has changed since Enter.
func (l *Ledger) Skip(e *Entry) error {
	has, err := l.has("bglm_job")
	if err != nil {
		return err
	}
	return l.enter(e, 0, func() error {
		if has {
			return nil
		}
		err := remake(l.s, outDB, "TABLE", "bglm_job", jobTable)
		if err == nil {
			err = l.s.Exec("INSERT INTO "+outDB+".main.bglm_job VALUES (?, ?)", identityKey, l.identity)
		}
		return err
	})
}

// enter adds the entry of a file of n rows in one transaction with what write stores.
func (l *Ledger) enter(e *Entry, n int64, write func() error) error {
	if now, err := os.Stat(e.Name); err != nil || now.Size() != e.st.Size() || now.ModTime() != e.st.ModTime() {
		return fmt.Errorf("%s changed while it was read; nothing of it was kept", e.Name)
	}
	if err := l.s.Exec("BEGIN"); err != nil {
		return err
	}
	err := write()
	if err == nil {
		err = l.add(e, n)
	}
	if err == nil {
		err = l.s.Commit()
	}
	if err != nil {
		_ = l.s.Undo("ROLLBACK")
		return files.Named(l.path, files.Named(e.Name, err))
	}
	return nil
}

// identityKey is the key of a job's identity in the table bglm_job.
const identityKey = "incremental"

// rowsOf is the number of rows that a table of fits has seen.
func rowsOf(s *duck.Session, table string) (n int64, err error) {
	err = s.Row("SELECT coalesce(sum(fit.n + fit.n_skipped), 0)::BIGINT FROM "+table, &n)
	return n, err
}
