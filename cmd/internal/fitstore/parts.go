package fitstore

import (
	"fmt"
	"slices"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
)

// Parts are states of passes over parts of the rows, with their job: a Parquet file with a row
// (state BLOB, options VARCHAR) for each.
type Parts struct {
	Options string // SQL: the constant options of the job
	Meta    []string
}

// SavePass writes the table pass.
func (p *Parts) SavePass(s *duck.Session, path string) error {
	return CopyTo(s, path, "SELECT state, "+quote.Text(p.Options)+" AS options FROM pass", jobMeta(p.Meta))
}

// IsPart reports whether a file has states of passes.
func IsPart(s *duck.Session, path string) bool {
	if files.KindOf(path) != "parquet" || files.Check(path, "parquet") != nil {
		return false
	}
	cols, err := s.Describe("FROM read_parquet(" + job.FileList([]string{path}) + ")")
	return err == nil && slices.ContainsFunc(cols, func(c duck.Column) bool { return c.Name == "state" && c.Type == "BLOB" })
}

// MergeParts creates the table pass with the merged states in files.
// Errors: a file without states, or of another job.
func MergeParts(s *duck.Session, names []string) (*Parts, error) {
	var out *Parts
	for _, name := range names {
		if err := files.Check(name, "parquet"); err != nil {
			return nil, err
		}
		if !IsPart(s, name) {
			return nil, fmt.Errorf("%s has no states of passes; allowed: files of bglm fit --partial, and what bglm merge made of them", name)
		}
		p := &Parts{}
		var err error
		if _, _, p.Meta, err = parquetMeta(s, job.FileList([]string{name})); err != nil {
			return nil, files.Named(name, err)
		}
		if err := s.Row("SELECT any_value(options) FROM read_parquet("+job.FileList([]string{name})+")", &p.Options); err != nil {
			return nil, files.Named(name, err)
		}
		if out == nil {
			out = p
		} else if out.Options != p.Options || !slices.Equal(out.Meta, p.Meta) {
			return nil, fmt.Errorf("%s and %s are of different jobs; allowed: parts with the same formula and options", names[0], name)
		}
		verb := "INSERT INTO parts "
		if out == p {
			verb = "CREATE OR REPLACE TEMP TABLE parts AS "
		}
		if err := s.Exec(verb + "SELECT state FROM read_parquet(" + job.FileList([]string{name}) + ")"); err != nil {
			return nil, files.Named(name, err)
		}
	}
	return out, s.Exec("CREATE OR REPLACE TEMP TABLE pass AS SELECT bglm_newton_merge(state) AS state FROM parts")
}

// Solve creates the table fits, with the fit for the table pass.
func (p *Parts) Solve(s *duck.Session) (*Fits, error) {
	if err := s.Exec("CREATE OR REPLACE TEMP TABLE fits AS SELECT bglm_newton_solve(state, " + p.Options + ") AS fit FROM pass"); err != nil {
		return nil, err
	}
	var none bool
	if err := s.Row("SELECT count(fit) = 0 FROM fits", &none); err != nil {
		return nil, err
	}
	if none {
		return nil, fmt.Errorf("no rows to fit")
	}
	return Open(s, "fits", p.Meta)
}
