package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/fitstore"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
)

// largeTogether is how many groups that are too large for their rows to be kept share a pass.
const largeTogether = 16

// roomForRows, if not 0, overrides how many rows fit in memory, for tests.
var roomForRows int64

// groupsByPasses fits each group: with its rows if they fit in memory, as many groups at a time as
// fit together, else by passes, several groups in each. Results are stored beside the output, from
// which a run continues that was killed.
func (c *fitCommand) groupsByPasses(s *duck.Session, j *job.Job, src *job.Source, around bool, unfinished string) (*fitstore.Fits, error) {
	room, err := j.Room(src)
	if err != nil {
		return nil, err
	}
	if roomForRows > 0 {
		room = roomForRows
	}
	parts, large, err := j.Divide(src, room)
	if err != nil {
		return nil, err
	}
	g := &groupFits{fitCommand: c, s: s, j: j, src: src, unfinished: unfinished, keys: quote.Names(j.GroupNames())}
	if parts+large == 0 {
		return nil, fmt.Errorf("%s: no rows to fit", strings.Join(src.Files, ", "))
	}
	if err := g.begin(around); err != nil {
		return nil, err
	}
	for k := range parts {
		var open bool
		if err := s.Row(fmt.Sprintf("SELECT count(*) > 0 FROM sizes s ANTI JOIN done d ON %s WHERE bglm_part = %d", job.Matching(j.GroupNames(), "s", "d"), k), &open); err != nil {
			return nil, err
		}
		if !open {
			continue
		}
		if err := j.FitPart(src, fmt.Sprintf("groups, part %d of %d", k+1, parts), k); err != nil {
			return nil, err
		}
		if err := s.Exec("INSERT INTO done FROM fits WHERE fit IS NOT NULL"); err != nil {
			return nil, err
		}
		if k+1 < parts || large > 0 {
			if err := g.keep(); err != nil {
				return nil, err
			}
		}
	}
	if err := g.byPasses(large); err != nil {
		return nil, err
	}
	if err := s.Exec("CREATE OR REPLACE TEMP TABLE fits AS FROM done"); err != nil {
		return nil, err
	}
	return fitstore.Open(s, "fits", j.Meta)
}

// groupFits has the tables done, of groups and their fits; sizes (job.Divide); and around, with
// bglm_k and fit of the large groups that are not done.
type groupFits struct {
	*fitCommand
	s          *duck.Session
	j          *job.Job
	src        *job.Source
	unfinished string
	keys       string
}

// begin creates done and around, from the table around of an earlier run or of --around.
func (g *groupFits) begin(have bool) error {
	steps := []string{
		"CREATE OR REPLACE TEMP TABLE done AS SELECT " + g.keys + ", bglm_laplace(true, {x: 1}) AS fit FROM sizes WHERE false GROUP BY ALL",
		"CREATE OR REPLACE TEMP TABLE begun AS SELECT bglm_k, fit FROM (FROM sizes LIMIT 0), (SELECT fit FROM done)",
	}
	if have {
		joined := " FROM around a JOIN sizes p ON " + job.Matching(g.j.GroupNames(), "a", "p")
		done := " WHERE false"
		if _, err := os.Stat(g.unfinished); g.unfinished != "" && err == nil {
			done = " WHERE p.bglm_part >= 0 OR a.fit.converged"
		}
		steps[1] = "CREATE OR REPLACE TEMP TABLE begun AS SELECT p.bglm_k, a.fit" + joined + " ANTI JOIN done d ON " + job.Matching(g.j.GroupNames(), "p", "d") + " WHERE p.bglm_part < 0"
		steps = slices.Insert(steps, 1, "INSERT INTO done SELECT "+quote.NamesOf("p", g.j.GroupNames())+", a.fit"+joined+done)
	}
	for _, q := range append(steps, "CREATE OR REPLACE TEMP TABLE around AS FROM begun") {
		if err := g.s.Exec(q); err != nil {
			return err
		}
	}
	return nil
}

// keep writes the current state beside the output.
func (g *groupFits) keep() error {
	if g.unfinished == "" {
		return nil
	}
	if err := g.s.Exec("CREATE OR REPLACE TEMP TABLE fits AS FROM done UNION ALL SELECT " + quote.NamesOf("p", g.j.GroupNames()) + ", a.fit FROM around a JOIN sizes p USING (bglm_k)"); err != nil {
		return err
	}
	f, err := fitstore.Open(g.s, "fits", g.j.Meta)
	if err != nil {
		return err
	}
	return f.Save(g.unfinished)
}

// byPasses fits the large groups, numbered from 0.
func (g *groupFits) byPasses(large int) error {
	for lo := 0; lo < large; lo += largeTogether {
		hi := min(lo+largeTogether, large)
		var open, fresh []int
		for k := lo; k < hi; k++ {
			var done, begun bool
			q := fmt.Sprintf("SELECT (SELECT count(*) > 0 FROM done d JOIN sizes p ON %[1]s WHERE bglm_k = %[2]d), (SELECT count(*) > 0 FROM around WHERE bglm_k = %[2]d)", job.Matching(g.j.GroupNames(), "d", "p"), k)
			if err := g.s.Row(q, &done, &begun); err != nil {
				return err
			}
			if done {
				continue
			}
			if open = append(open, k); !begun {
				fresh = append(fresh, k)
			}
		}
		what := fmt.Sprintf("large groups %d to %d of %d", lo+1, hi, large)
		if len(fresh) > 0 {
			if err := g.j.SampleGroups(g.src, what+", samples", fresh); err != nil {
				return err
			}
		}
		for k := 1; len(open) > 0; k++ {
			if k > maxPasses {
				return fmt.Errorf("%s: no convergence in %d passes; begin nearer, with --around and fits of larger samples", what, maxPasses)
			}
			var err error
			if open, err = g.pass(fmt.Sprintf("%s, pass %d", what, k), open); err != nil {
				return err
			}
		}
	}
	return nil
}

// pass makes one for the groups ks and returns those that need another.
func (g *groupFits) pass(what string, ks []int) (open []int, err error) {
	if err := g.j.PassGroups(g.src, what, ks); err != nil {
		return nil, err
	}
	said := ""
	err = g.s.Each("SELECT bglm_k, fit.status FROM around WHERE NOT fit.converged ORDER BY 1", func(scan func(...any) error) error {
		var k int
		var status string
		err := scan(&k, &status)
		open = append(open, k)
		said, _, _ = strings.Cut(status, ";")
		return err
	})
	if err != nil {
		return nil, err
	}
	if !g.Quiet && len(open) > 0 {
		fmt.Fprintf(g.s.Env.Stderr, "%s: %d of %d groups go on; the last of them: %s\n", what, len(open), len(ks), said)
	}
	for _, q := range []string{
		"INSERT INTO done SELECT " + quote.NamesOf("p", g.j.GroupNames()) + ", a.fit FROM around a JOIN sizes p USING (bglm_k) WHERE a.fit.converged",
		"DELETE FROM around WHERE fit.converged",
	} {
		if err := g.s.Exec(q); err != nil {
			return nil, err
		}
	}
	return open, g.keep()
}
