// Package fitstore keeps fits: as a temporary table of the session while a command works
// with them, and as files: belief tables in Parquet, Arrow, CSV and JSON, DuckDB databases,
// with the job that made them.
package fitstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
)

// Fits is a temporary table of the session: the columns of groups and fit.
type Fits struct {
	Table string
	Group []duck.Column
	// IsFit says that fit is a FIT; bglm_gp gives another STRUCT. HasClass, that its
	// beliefs have classes.
	IsFit, HasClass bool
	Meta            []string // pairs: the job that made them

	s *duck.Session
}

// Job is what a key of the job that made the fits has, "" for none.
func (f *Fits) Job(key string) string {
	for i := 0; i+1 < len(f.Meta); i += 2 {
		if f.Meta[i] == key {
			return f.Meta[i+1]
		}
	}
	return ""
}

// Open describes a table of fits; meta are the pairs of its job.
func Open(s *duck.Session, table string, meta []string) (*Fits, error) {
	cols, err := s.Describe("FROM " + table)
	if err != nil {
		return nil, err
	}
	f := &Fits{Table: table, Meta: meta, s: s}
	found := false
	for _, c := range cols {
		if strings.EqualFold(c.Name, "fit") {
			found = true
			f.IsFit = strings.Contains(c.Type, "beliefs STRUCT(")
			f.HasClass = strings.Contains(c.Type, "class VARCHAR") || strings.Contains(c.Type, `"class" VARCHAR`)
		} else {
			f.Group = append(f.Group, c)
		}
	}
	if !found {
		return nil, fmt.Errorf("no column fit; found: %s", strings.Join(duck.Names(cols), ", "))
	}
	return f, nil
}

// Continues checks that the fits can be the prior of a job with these groups.
func (f *Fits) Continues(group []string) error {
	if !f.IsFit {
		return errors.New("its fit is not one to start from")
	}
	if a, b := strings.Join(duck.Names(f.Group), ", "), strings.Join(group, ", "); !strings.EqualFold(a, b) {
		return fmt.Errorf("its groups are (%s), those of the job (%s)", a, b)
	}
	return nil
}
